#!/bin/sh
# Vectors of lines, and the lines nearest to a text: sh tests/test_trf_embed.sh build/trf
#
# Pooling and lengths, computed again by awk; the labels of classifiers, computed by awk from vectors
# and the head's weights; the same bits in other batches and on more threads; arrays of NumPy byte by
# byte; JSON; the nearest lines; lines without a vector; command lines, models and files that are
# refused.

. "$(dirname "$0")/trf.sh"

awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" (n > 2 ? "long" : "short") }' train.tsv >long.tsv
cut -f 1 more.tsv >more.digits
tiny="--d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --batch-tokens 256 --warmup 2 --threads 1 --valid-size 0"
expect 0 "training writes a translator without end marks" "^done" "$trf" train $plain --source-eos no --updates 30 \
    --max-length 12 --model good
expect 0 "training writes a translator with end marks" "^done" "$trf" train $plain --source-eos yes --updates 30 \
    --max-length 12 --model eos
expect 0 "training writes a classifier that pools by the mean" "^done" "$trf" train --objective classify \
    --tsv long.tsv $tiny --source-eos no --updates 100 --model mean.m
expect 0 "training writes a classifier that pools by the first row" "^done" "$trf" train --objective classify \
    --tsv long.tsv $tiny --pooling first --source-eos yes --updates 100 --model first.m
expect 0 "training writes a tagger" "^done" "$trf" train --objective tag --tsv train.tsv $tiny --updates 2 \
    --model tag.m
expect 0 "training writes a model of hidden words" "^done" "$trf" train --objective mask --text train.names $tiny \
    --updates 2 --model mask.m
expect 0 "training writes a language model" "^done" "$trf" train --objective causal --text train.names \
    --d-model 16 --n-heads 2 --d-ff 32 --decoder-layers 1 --updates 2 --warmup 2 --threads 1 \
    --valid-size 0 --model causal.m

# embed MODEL FILE [OPTION...]: its vectors
embed() { from=$1 lines=$2; shift 2; "$trf" embed --model "$from" "$lines" "$@" 2>/dev/null; }
# near A B: the same numbers in the same places, but for rounding
near()
{
    paste -d '|' "$1" "$2" | awk -F '|' '{
        n = split($1, a, " ")
        if (split($2, b, " ") != n) exit bad = 1
        for (i = 1; i <= n; i++) if (!((a[i] - b[i]) ^ 2 < 1e-11)) exit bad = 1
    } END { exit bad || NR == 0 }'
}
# unit: each vector of standard input, divided by its length
unit()
{
    awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i ^ 2
        for (i = 1; i <= NF; i++) printf "%.9g%s", (s ? $i / sqrt(s) : 0), i < NF ? " " : "\n" }'
}

# --- pooling ------------------------------------------------------------------------------------
expect 0 "embed: a translator makes vectors" "^-*[0-9.]* " "$trf" embed --model good --input test.digits
check "embed: each line has a vector" lines_are 40 out
check "embed: each vector has d-model numbers" eval '! awk "NF != 16" out | grep -q .'
check "embed: each vector has length 1" eval \
    '! awk "{ s = 0; for (i = 1; i <= NF; i++) s += \$i ^ 2; if (!((s - 1) ^ 2 < 1e-12)) print }" out | grep -q .'
cp out vectors
embed good test.digits --normalize yes --pooling mean >got
check "embed: --normalize yes and --pooling mean are the defaults" same vectors got
embed good test.digits --normalize no | unit >got
check "embed: --normalize no makes the same vectors before they get length 1" near vectors got
for pooling in first max; do
    embed good test.digits --normalize no --pooling $pooling | unit >wanted
    embed good test.digits --pooling $pooling >got
    check "embed: --pooling $pooling: --normalize no makes the same vectors before they get length 1" near got wanted
done
embed good test.digits --pooling max >got
check "embed: --pooling max makes other vectors than the mean" eval '! near vectors got'
seq 0 9 >digits
for pooling in mean first max; do embed good digits --normalize no --pooling $pooling >$pooling.out; done
check "embed: a line of one token has the same vector by every pooling" \
    eval 'same mean.out first.out && same mean.out max.out'
check "embed: ten digits have ten different vectors" \
    eval 'lines_are 10 mean.out && [ "$(sort -u mean.out | wc -l)" -eq 10 ]'
# Of two rows, the second one is twice the mean minus the first one.
awk 'BEGIN { for (i = 0; i < 30; i++) print i % 10, (i * 7 + int(i / 10)) % 10 }' >two
for case in good:two mean.m:two eos:digits first.m:digits; do
    model_of=${case%:*} lines=${case#*:}
    for pooling in mean first max; do
        embed $model_of $lines --normalize no --pooling $pooling >$pooling.out
    done
    paste -d '|' first.out mean.out | awk -F '|' '{
        n = split($1, first, " "); split($2, mean, " ")
        for (i = 1; i <= n; i++) {
            last = 2 * mean[i] - first[i]
            printf "%.9g%s", (last > first[i] ? last : first[i]), i < n ? " " : "\n"
        }
    }' >wanted
    check "embed: --pooling max takes the largest of two rows, $case" near max.out wanted
    check "embed: two rows differ: the first one is not their mean, $case" eval '! near first.out mean.out'
done

# weights FILE TENSOR: its numbers, one a line
weights()
{
    head_bytes=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    at=$(head -c $((8 + head_bytes)) "$1" | tail -c "$head_bytes" |
        sed 's/.*"'"$2"'":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/')
    od -An -v -tf4 -w4 -j $((8 + head_bytes + ${at% *})) -N $((${at#* } - ${at% *})) "$1"
}
# The labels of trf classify, from vectors and the head's weights.
for pooling in mean first; do
    { weights $pooling.m head.weight; weights $pooling.m head.bias; } >head
    check "classifier by $pooling: its head has 2 rows of 16 numbers, and 2 biases" lines_are 34 head
    embed $pooling.m test.digits --pooling $pooling --normalize no | awk '
        FNR == NR { w[NR - 1] = $1; next }
        {
            for (k = 0; k < 2; k++) {
                z[k] = w[32 + k]
                for (i = 0; i < 16; i++) z[k] += w[16 * k + i] * $(i + 1)
            }
            printf "%.6f\n", 1 / (1 + exp(z[1] - z[0]))
        }' head - >got
    "$trf" classify --model $pooling.m test.digits --json 2>/dev/null |
        sed 's/.*"label":"long","probability":\([0-9.e-]*\).*/\1/' >wanted
    check "embed: vectors and the head of the classifier by $pooling make the probabilities of trf classify" near got \
        wanted
    check "classifier by $pooling: the probabilities have several values" [ "$(sort -u got | wc -l)" -ge 5 ]
done
for kind in tag mask; do
    file=test.digits
    [ $kind = tag ] || file=test.names
    expect 0 "embed: a model of --objective $kind makes vectors" "" "$trf" embed --model $kind.m $file
    check "embed: a model of --objective $kind makes a vector of 16 numbers for each line" \
        eval 'lines_are 40 out && ! awk "NF != 16" out | grep -q .'
done

# --- the same bits ------------------------------------------------------------------------------
expect 0 "training writes a wider model" "^done" "$trf" train --tsv train.tsv --d-model 96 --n-heads 4 --d-ff 200 \
    --encoder-layers 2 --decoder-layers 1 --source-eos yes --batch-tokens 256 --warmup 2 --seed 5 \
    --updates 2 --valid-size 0 --model wide
head -n 300 more.digits >lines
for kept in full bf16 int8; do
    embed wide lines --weights $kept --products built-in --buffer 1 --threads 1 >one
    check "embed: --weights $kept: each of 300 lines has a vector" lines_are 300 one
    for run in "2 1" "32 2" "300 1" "1000 3"; do
        embed wide lines --weights $kept --products built-in --buffer ${run% *} --threads ${run#* } >got
        check "embed: --weights $kept: batches of ${run% *} and ${run#* } threads change no bit" same one got
    done
    # The same line beside others.
    { sed -n 7p lines; cat test.digits; } >others
    check "embed: --weights $kept: other lines beside a line do not change its vector" \
        eval '[ "$(embed wide others --weights $kept --products built-in | head -n 1)" = "$(sed -n 7p one)" ]'
done
embed wide lines --weights int8 >got
embed wide lines >one
check "embed: --weights int8 makes other vectors than 32 bits" eval '! cmp -s one got'
"$trf" embed --model wide --interactive <lines >got 2>/dev/null
check "embed: --interactive on standard input makes the vectors of a file" same one got
mkfifo typed
"$trf" embed --model good --interactive <typed >answered 2>/dev/null &
exec 3>typed
head -n 1 test.digits >&3
wait_for . answered
check "embed: --interactive answers a line before the next one comes" test "$(wc -l <answered)" -eq 1
exec 3>&-
wait $!
check "embed: --interactive answers with the vector of the line" eval '[ "$(cat answered)" = "$(head -n 1 vectors)" ]'

# --- arrays of NumPy ----------------------------------------------------------------------------
expect 0 "embed: --output test.npy writes an array" "" "$trf" embed --model good test.digits --output test.npy
check "embed: --output test.npy prints nothing" eval '[ ! -s out ] && [ ! -s err ]'
printf '\223NUMPY\001\000\166\000%-117s\n' \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 16), }" >wanted
head -c 128 test.npy | LC_ALL=C sed 's/ # trf [0-9a-f]\{16\} [0-9a-f]\{12\}/                                    /' >got
check "embed: the array has the header of NumPy" same got wanted
check "embed: the header of the array ends with a comment of Python" \
    sh -c "head -c 128 test.npy | grep -aq 'shape.*} # trf [0-9a-f]* [0-9a-f]* *\$'"
check "embed: the array has the size of its header and numbers" [ "$(wc -c <test.npy)" -eq $((128 + 40 * 16 * 4)) ]
numbers() { od -An -v -tf4 -w64 -j 128 "$1"; }
numbers test.npy | awk '{ $1 = $1; print }' >got
check "embed: the array has the numbers of the text" near got vectors
# Reading the text gives the bits of the array.
awk 'function bits(x,   sign, e, m) {
        sign = 0
        if (x < 0) { sign = 128; x = -x }
        for (e = 127; x >= 2; e++) x /= 2
        for (; x < 1 && x > 0; e--) x *= 2
        m = int((x - 1) * 8388608 + 0.5)
        if (m == 8388608) { m = 0; e++ }
        return sprintf("%02x %02x %02x %02x", m % 256, int(m / 256) % 256, (e % 2) * 128 + int(m / 65536),
            sign + int(e / 2))
    }
    { for (i = 1; i <= NF; i++) print bits($i) }' vectors >wanted
od -An -v -tx1 -w4 -j 128 test.npy | sed 's/^ *//' >got
check "embed: the text, read again, gives every bit of the array" same got wanted
check "embed: the array has 640 numbers" lines_are 640 got
embed good test.digits --normalize no --pooling max >wanted
expect 0 "embed: an array with --normalize no and --pooling max is written" "" "$trf" embed --model good test.digits \
    --normalize no --pooling max --output max.npy --buffer 7
numbers max.npy | awk '{ $1 = $1; print }' >got
check "embed: an array with --normalize no and --pooling max has the numbers of the text" near got wanted
: >nothing
expect 0 "embed: a file without lines makes an array" "" "$trf" embed --model good nothing --output nothing.npy
check "embed: the array of a file without lines has no rows" \
    eval '[ "$(wc -c <nothing.npy)" -eq 128 ] && grep -q "(0, 16)" nothing.npy'
if command -v python3 >/dev/null && python3 -c 'import numpy' 2>/dev/null; then
    check "embed: NumPy reads the arrays, and the numbers of the text" python3 -c 'import numpy
a = numpy.load("test.npy"); t = numpy.loadtxt("vectors", dtype=numpy.float32)
assert a.dtype == numpy.float32 and (a == t).all() and numpy.load("nothing.npy").shape == (0, 16)'
fi

# --- arrays replace nothing, and come whole or not at all ----------------------------------------
cp test.npy precious.npy
expect 1 "embed: an array over a file is refused without --overwrite" \
    "--output 'precious.npy' exists: --overwrite replaces it" "$trf" embed --model good digits --output precious.npy
check "embed: an array that is refused leaves the file as it was" same precious.npy test.npy
expect 1 "embed: a text over a file is refused without --overwrite" "--output 'four' exists: --overwrite" \
    sh -c "echo 4 >four; '$trf' embed --model good digits --output four"
expect 0 "embed: --overwrite writes a text over a file" "" "$trf" embed --model good digits --output four --overwrite
check "embed: --overwrite writes a vector for each of ten lines" lines_are 10 four
printf '\376\377\0001\0000' >wide.digits
expect 1 "embed: text in UTF-16 is refused" "got UTF-16" "$trf" embed --model good wide.digits \
    --output precious.npy --overwrite
check "embed: text in UTF-16 leaves the old array as it was" same precious.npy test.npy
expect 1 "embed: an array that finds no room over an old one is told" "cannot write precious.npy: File too large" \
    sh -c "ulimit -f 4; '$trf' embed --model good more.digits --output precious.npy --overwrite"
check "embed: an array that finds no room leaves the old one as it was" same precious.npy test.npy
expect 1 "embed: a new array that finds no room is told" "cannot write large.npy: File too large" \
    sh -c "ulimit -f 4; '$trf' embed --model good more.digits --output large.npy"
check "embed: a new array that finds no room leaves no file" [ ! -e large.npy ]
expect 1 "embed: --output in a folder that is not there is refused" \
    "cannot write 'no/a.npy': No such file or directory" "$trf" embed --model good digits --output no/a.npy
silent "embed: --output in a folder that is not there"
ln -s precious.npy link.npy
expect 1 "embed: --output that is a symbolic link is refused" "it is a symbolic link" "$trf" embed --model good digits \
    --output link.npy --overwrite
echo rest >precious.npy.tmp-0123abcd
expect 0 "embed: --overwrite writes an array over a file" "" "$trf" embed --model good digits --output precious.npy \
    --overwrite
check "embed: --overwrite writes an array of ten rows" \
    eval 'grep -q "(10, 16)" precious.npy && [ "$(wc -c <precious.npy)" -eq 768 ]'
check "embed: arrays leave no temporary file, not even that of a killed run" eval '! ls | grep -q "\.tmp-"'

# --- JSON ---------------------------------------------------------------------------------------
printf '3 1 4\n\n  \n"\\\n' >odd
expect 0 "embed: --json writes an object for a line, with its number, text and vector" \
    '^{"line":1,"text":"3 1 4","embedding":\[[0-9.,e-]*\]}$' "$trf" embed --model good --json odd
check "embed: --json writes an empty vector for a line without tokens" eval \
    'grep -q "^{\"line\":2,\"text\":\"\",\"embedding\":\[\]}$" out &&
    grep -q "^{\"line\":3,\"text\":\"  \",\"embedding\":\[\]}$" out'
check "embed: --json escapes quotation marks and backslashes of a text" \
    grep -q '^{"line":4,"text":"\\"\\\\","embedding":\[.*\]}$' out
"$trf" embed --model good --json test.digits 2>/dev/null |
    sed 's/.*"embedding":\[\(.*\)\]}$/\1/' | tr , ' ' >got
check "embed: --json writes the numbers of the text output" same got vectors

# --- lines without a vector ---------------------------------------------------------------------
printf '1 2\n\n  \n1 2 3 4 5 6 7 8 9 1 2 3 4\n\377\n1\0002\n4 5 unknown\n7' >odd
for model_of in good eos; do
    limit=12
    [ $model_of = good ] || limit=11
    expect 1 "embed: odd lines, model $model_of: a line that is too long is told with its number" \
        "odd:4: answered with an empty line: 13 tokens, at most $limit" "$trf" embed --model $model_of odd
    check "embed: odd lines, model $model_of: each line has an answer" lines_are 8 out
    check "embed: odd lines, model $model_of: answers are empty for empty, too long and broken lines alone" \
        eval '[ -z "$(sed -n 2,6p out | tr -d "\n")" ] && [ "$(grep -c . out)" -eq 3 ]'
    check "embed: odd lines, model $model_of: each line without a vector is named, and all are counted" \
        eval '[ "$(grep -c "odd:[456]:" err)" -eq 3 ] && grep -q "3 of 8 lines could not be embedded" err'
    check "embed: odd lines, model $model_of: the last line, without a line end, has its vector" \
        eval '[ "$(sed -n 8p out)" = "$(echo 7 | "$trf" embed --model $model_of)" ]'
done
check "embed: odd lines: unknown words are counted" \
    grep -q "1 of 6 tokens of the input is unknown to the model, the first one in line 7" err
expect 1 "embed: odd lines in an array: a line that is not UTF-8 is told" \
    "odd:5: answered with a row of zeros: expected UTF-8" "$trf" embed --model good odd --output odd.npy
check "embed: odd lines in an array: lines without a vector are rows of zeros" \
    eval '[ "$(numbers odd.npy | sed -n 2,6p | tr -d " 0\n")" = "" ]'
check "embed: odd lines in an array: the three other lines are not zeros" \
    eval '[ "$(numbers odd.npy | grep -c "[1-9]")" -eq 3 ]'
expect 0 "embed: --truncate tells that a long line is cut" "1 of 1 line had more tokens than the model takes, 12" \
    sh -c "sed -n 4p odd | '$trf' embed --model good --truncate"
cp out got
check "embed: --truncate makes the vector of the line's beginning" \
    eval '[ "$(cat got)" = "$(echo 1 2 3 4 5 6 7 8 9 1 2 3 | "$trf" embed --model good)" ]'

# --- the nearest lines --------------------------------------------------------------------------
echo '3 1' >asked
cat two test.digits >many
embed good many --normalize no >many.vectors
# Cosines by awk. Equal ones keep the order of lines.
embed good asked --normalize no | cat - many.vectors | awk '
    NR == 1 { n = split($0, q, " "); for (i = 1; i <= n; i++) qq += q[i] ^ 2; next }
    { d = v = 0; for (i = 1; i <= n; i++) { d += q[i] * $i; v += $i ^ 2 }; printf "%.8f\n", d / sqrt(qq * v) }' |
    paste - many | sort -s -t "$(printf '\t')" -k 1,1gr | awk -F '\t' '{ printf "%.4f\t%s\n", $1, $2 }' >wanted
expect 0 "embed: --query with a large --top lists all lines" "" "$trf" embed --model good --query '3 1' --top 1000 many
cut -f 2 out >got
cut -f 2 wanted | cmp -s - got
check "embed: --query: the order is that of cosines computed by awk" [ $? -eq 0 ]
check "embed: --query: the cosines are those computed by awk" eval 'cut -f 1 out >got; cut -f 1 wanted >scores
    paste got scores | awk "!((\$1 - \$2) ^ 2 < 4e-8) { bad = 1 } END { exit bad || NR != 70 }"'
cp out nearest
expect 0 "embed: --query without --top lists lines" "" "$trf" embed --model good --query '3 1' many
head -n 5 nearest | cmp -s - out
check "embed: --query without --top lists the five nearest lines" [ $? -eq 0 ]
cat many more.digits many >very.many
"$trf" embed --model good --query '3 1' --top 5000 very.many 2>/dev/null >nearest
check "embed: --query with --top 5000 lists all of 2140 lines" lines_are $((70 + 2000 + 70)) nearest
for top in 1 3 50; do
    head -n $top nearest >wanted
    expect 0 "embed: --query --top $top lists lines" "" "$trf" embed --model good --query '3 1' --top $top very.many
    check "embed: --query --top $top lists the first $top lines of the whole list" same out wanted
done
expect 0 "embed: --query searches several files" "" "$trf" embed --model good --query '3 1' --top 5000 many \
    more.digits many
check "embed: --query finds in several files what it finds in one" same out nearest
expect 0 "embed: --query searches standard input among the files" "" \
    sh -c "cat many | '$trf' embed --model good --query '3 1' --top 5000 - more.digits many"
check "embed: --query finds in standard input and files what it finds in one file" same out nearest
expect 0 "embed: --query searches the file of --input and another" "" "$trf" embed --model good --query '3 1' \
    --top 5000 --input many more.digits many
check "embed: --query finds in --input and a file what it finds in one file" same out nearest
expect 0 "embed: --query finds the line itself, with cosine 1" "^1.0000	3 1$" \
    sh -c "printf '5\n3 1\n' | '$trf' embed --model good --query '3 1' --top 1"
expect 0 "embed: --query with batches of 3 lists lines" "" "$trf" embed --model good --query '3 1' --top 5000 \
    --buffer 3 --products built-in very.many
"$trf" embed --model good --query '3 1' --top 5000 --products built-in very.many 2>/dev/null | cmp -s - out
check "embed: --query with batches of 3 lists what the default batches list" [ $? -eq 0 ]
for pooling in first max; do
    expect 0 "embed: --query --pooling $pooling lists lines" "" "$trf" embed --model good --query '3 1' --top 5000 \
        --pooling $pooling very.many
    check "embed: --query --pooling $pooling lists other cosines than the mean" eval '! cmp -s out nearest'
done
printf '5\n3 1\n5\n' >again
printf '{"line":2,"score":1,"file":"again","text":"3 1"}\n' >wanted
expect 0 "embed: --query --json lists lines" "" "$trf" embed --model good --query '3 1' --json again
sed 1q out | sed 's/"score":1\.*0*[0-9]*,/"score":1,/; s/"score":0.99999[0-9]*,/"score":1,/' >got
check "embed: --query --json tells line, score, file and text" same got wanted
check "embed: --query --json lists equal lines in their order" \
    eval '[ "$(sed -n "2,3s/,\"score\".*//p" out | tr "\n" " ")" = "{\"line\":1 {\"line\":3 " ]'
expect 1 "embed: --query: a line without a vector is told to be left out" "odd:4: left out: 13 tokens, at most 12" \
    "$trf" embed --model good --query '3 1' --top 100 odd
check "embed: --query: lines without a vector are not listed" \
    eval '[ "$(cut -f 2 out | sort | tr "\n" ";")" = "1 2;4 5 unknown;7;" ]'
expect 0 "embed: --query in a file without lines succeeds" "" "$trf" embed --model good --query '3 1' nothing
check "embed: --query in a file without lines lists nothing" [ ! -s out ]
expect 0 "embed: a --query with an unknown word is told" "1 of 2 tokens of --query is unknown to the model" \
    "$trf" embed --model good --query '3 unknown' digits
expect 1 "embed: a --query without tokens is refused" "--query has no tokens, so it has no vector" "$trf" embed \
    --model good --query '  ' digits
silent "embed: a --query without tokens"
expect 1 "embed: a --query that is too long is refused" "--query: 13 tokens, at most 12" "$trf" embed --model good \
    --query '1 2 3 4 5 6 7 8 9 1 2 3 4' digits
expect 0 "embed: --truncate uses the beginning of a --query that is too long" \
    "--query: its first 12 tokens are used (--truncate)" "$trf" embed --model good --query '1 2 3 4 5 6 7 8 9 1 2 3 4' \
    --truncate digits
silent "embed: --truncate of a --query that is too long"
expect 1 "embed: a --query that is not UTF-8 is refused" "--query: " "$trf" embed --model good \
    --query "$(printf '3 \377')" digits

# --- refusals -----------------------------------------------------------------------------------
expect 1 "embed: a language model is refused" "causal.m: a decoder-only model has no encoder" "$trf" embed \
    --model causal.m digits
silent "embed: a language model"
expect 1 "embed: a model file that is not there is refused" "missing" "$trf" embed --model missing digits
expect 1 "embed: a file that is no model is refused" "digits" "$trf" embed --model digits digits
expect 1 "embed: without --model the first argument is the model" "'digits' is taken for the model" "$trf" embed digits
expect 2 "embed: no model is refused" "give --model FILE" "$trf" embed
expect 2 "embed: an unknown --pooling is refused with the values that exist" \
    "--pooling takes mean|first|max, got 'last'" "$trf" embed --model good --pooling last digits
expect 2 "embed: an unknown --normalize is refused with the values that exist" "--normalize takes no|yes, got '2'" \
    "$trf" embed --model good --normalize 2
expect 2 "embed: --query without a value is refused" "--query needs a value" "$trf" embed --model good --query
expect 2 "embed: an empty --query is refused" "--query is empty" "$trf" embed --model good --query '' digits
expect 2 "embed: --top 0 is refused" "--top takes a whole number from 1" "$trf" embed --model good --query 3 \
    --top 0 digits
expect 2 "embed: --top without --query is refused" "--top needs --query" "$trf" embed --model good --top 3 digits
expect 2 "embed: --query with --normalize is refused" "--normalize is for vectors" "$trf" embed --model good --query 3 \
    --normalize no digits
expect 2 "embed: --query with --interactive is refused" "--query needs all lines" "$trf" embed --model good --query 3 \
    --interactive digits
expect 2 "embed: --interactive with an array is refused" "an .npy needs all lines" "$trf" embed --model good \
    --interactive --output a.npy digits
expect 2 "embed: --json with an array is refused" "--output 'a.npy' is an array of numbers, but --json writes text" \
    "$trf" embed --model good --json --output a.npy digits
expect 2 "embed: --query with an array is refused" "--output 'a.npy' is an array of numbers, but --query writes text" \
    "$trf" embed --model good --query 3 --output a.npy digits
expect 2 "embed: two files without --query are refused" "give one file of lines, got 'digits' and 'two'" "$trf" embed \
    --model good digits two
expect 1 "embed: a text instead of a file is refused" "cannot read '3 1 4'" "$trf" embed --model good '3 1 4'
expect 1 "embed: --query in a file that is not there is refused" "cannot read 'missing'" "$trf" embed --model good \
    --query 3 digits missing
check "embed: --query in a file that is not there lists nothing" [ ! -s out ]
cp digits kept
expect 1 "embed: --output that is the input is refused" "is the file that --input reads" "$trf" embed --model good \
    kept --output kept --overwrite
expect 1 "embed: --query: --output that is a file to search is refused" "--output 'kept' is also a file to read" \
    "$trf" embed --model good --query 3 two kept --output kept --overwrite
expect 1 "embed: --query: standard output that is a file to search is refused" \
    "standard output is 'kept', which is also read" sh -c "'$trf' embed --model good --query 3 two kept >>kept"
check "embed: a file to read that is named as output stays as it was" same kept digits
cp good kept
expect 1 "embed: --output that is the model is refused" "is the file that --model reads" "$trf" embed --model kept \
    digits --output kept --overwrite
check "embed: a model that is named as output stays as it was" same kept good
{ "$trf" embed --model good more.digits; echo $? >status; } 2>err | head -n 1 >got
check "embed: a closed pipe ends it by SIGPIPE, without a message" \
    eval '[ "$(cat status)" -eq 141 ] && [ ! -s err ] && lines_are 1 got'
if [ -w /dev/full ]; then
    expect 1 "embed: a full disk is told" "cannot write /dev/full" "$trf" embed --model good more.digits \
        --output /dev/full
fi

finish

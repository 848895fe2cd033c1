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
expect 0 "a translator" "^done" "$trf" train $plain --source-eos no --updates 30 \
    --max-length 12 --model good
expect 0 "a translator with EOS" "^done" "$trf" train $plain --source-eos yes --updates 30 \
    --max-length 12 --model eos
expect 0 "a classifier" "^done" "$trf" train --objective classify --tsv long.tsv $tiny \
    --source-eos no --updates 100 --model mean.m
expect 0 "of first rows" "^done" "$trf" train --objective classify --tsv long.tsv $tiny \
    --pooling first --source-eos yes --updates 100 --model first.m
expect 0 "a tagger" "^done" "$trf" train --objective tag --tsv train.tsv $tiny --updates 2 \
    --model tag.m
expect 0 "a model of hidden words" "^done" "$trf" train --objective mask --text train.names $tiny \
    --updates 2 --model mask.m
expect 0 "a language model" "^done" "$trf" train --objective causal --text train.names \
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
expect 0 "vectors" "^-*[0-9.]* " "$trf" embed --model good --input test.digits
check "a line for a line" lines_are 40 out
check "of d-model numbers" eval '! awk "NF != 16" out | grep -q .'
check "of length 1" eval '! awk "{ s = 0; for (i = 1; i <= NF; i++) s += \$i ^ 2; if (!((s - 1) ^ 2 < 1e-12)) print }" out | grep -q .'
cp out vectors
embed good test.digits --normalize yes --pooling mean >got
check "that is the default" same vectors got
embed good test.digits --normalize no | unit >got
check "lengths by awk" near vectors got
for pooling in first max; do
    embed good test.digits --normalize no --pooling $pooling | unit >wanted
    embed good test.digits --pooling $pooling >got
    check "lengths by awk, $pooling" near got wanted
done
embed good test.digits --pooling max >got
check "other numbers" eval '! near vectors got'
seq 0 9 >digits
for pooling in mean first max; do embed good digits --normalize no --pooling $pooling >$pooling.out; done
check "one token has one row" eval 'same mean.out first.out && same mean.out max.out'
check "ten vectors" eval 'lines_are 10 mean.out && [ "$(sort -u mean.out | wc -l)" -eq 10 ]'
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
    check "the largest of two rows, $case" near max.out wanted
    check "which are not the same, $case" eval '! near first.out mean.out'
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
    check "$pooling: 2 rows of 16 numbers, and 2 biases" lines_are 34 head
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
    check "$pooling: labels by awk" near got wanted
    check "$pooling: of several values" [ "$(sort -u got | wc -l)" -ge 5 ]
done
for kind in tag mask; do
    file=test.digits
    [ $kind = tag ] || file=test.names
    expect 0 "vectors of a model of --objective $kind" "" "$trf" embed --model $kind.m $file
    check "$kind: all" eval 'lines_are 40 out && ! awk "NF != 16" out | grep -q .'
done

# --- the same bits ------------------------------------------------------------------------------
expect 0 "a wider model" "^done" "$trf" train --tsv train.tsv --d-model 96 --n-heads 4 --d-ff 200 \
    --encoder-layers 2 --decoder-layers 1 --source-eos yes --batch-tokens 256 --warmup 2 --seed 5 \
    --updates 2 --valid-size 0 --model wide
head -n 300 more.digits >lines
for kept in full bf16 int8; do
    embed wide lines --weights $kept --products built-in --batch 1 --threads 1 >one
    check "$kept: all lines" lines_are 300 one
    for run in "2 1" "32 2" "300 1" "1000 3"; do
        embed wide lines --weights $kept --products built-in --batch ${run% *} --threads ${run#* } >got
        check "$kept: batches of ${run% *}, ${run#* } threads" same one got
    done
    # The same line beside others.
    { sed -n 7p lines; cat test.digits; } >others
    check "$kept: other lines" eval '[ "$(embed wide others --weights $kept --products built-in | head -n 1)" = "$(sed -n 7p one)" ]'
done
embed wide lines --weights int8 >got
embed wide lines >one
check "8 bits give other numbers" eval '! cmp -s one got'
"$trf" embed --model wide --interactive <lines >got 2>/dev/null
check "line by line, from standard input" same one got
mkfifo typed
"$trf" embed --model good --interactive <typed >answered 2>/dev/null &
exec 3>typed
head -n 1 test.digits >&3
wait_for . answered
check "an answer comes before the next line" test "$(wc -l <answered)" -eq 1
exec 3>&-
wait $!
check "it is the first vector" eval '[ "$(cat answered)" = "$(head -n 1 vectors)" ]'

# --- arrays of NumPy ----------------------------------------------------------------------------
expect 0 "an array" "" "$trf" embed --model good test.digits --output test.npy
check "and nothing else" eval '[ ! -s out ] && [ ! -s err ]'
printf '\223NUMPY\001\000\166\000%-117s\n' \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 16), }" >wanted
head -c 128 test.npy >got
check "its header" same got wanted
check "its size" [ "$(wc -c <test.npy)" -eq $((128 + 40 * 16 * 4)) ]
numbers() { od -An -v -tf4 -w64 -j 128 "$1"; }
numbers test.npy | awk '{ $1 = $1; print }' >got
check "its numbers" near got vectors
# Reading the text gives the bits of the array.
awk 'function bits(x,   sign, e, m) {
        sign = 0
        if (x < 0) { sign = 128; x = -x }
        for (e = 127; x >= 2; e++) x /= 2
        for (; x < 1 && x > 0; e--) x *= 2
        m = int((x - 1) * 8388608 + 0.5)
        if (m == 8388608) { m = 0; e++ }
        return sprintf("%02x %02x %02x %02x", m % 256, int(m / 256) % 256, (e % 2) * 128 + int(m / 65536), sign + int(e / 2))
    }
    { for (i = 1; i <= NF; i++) print bits($i) }' vectors >wanted
od -An -v -tx1 -w4 -j 128 test.npy | sed 's/^ *//' >got
check "to the last bit" same got wanted
check "each of them" lines_are 640 got
embed good test.digits --normalize no --pooling max >wanted
expect 0 "options of vectors" "" "$trf" embed --model good test.digits --normalize no --pooling max \
    --output max.npy --batch 7
numbers max.npy | awk '{ $1 = $1; print }' >got
check "matter to arrays" near got wanted
: >nothing
expect 0 "no lines" "" "$trf" embed --model good nothing --output nothing.npy
check "an array without rows" eval '[ "$(wc -c <nothing.npy)" -eq 128 ] && grep -q "(0, 16)" nothing.npy'
if command -v python3 >/dev/null && python3 -c 'import numpy' 2>/dev/null; then
    check "NumPy reads them" python3 -c 'import numpy
a = numpy.load("test.npy"); t = numpy.loadtxt("vectors", dtype=numpy.float32)
assert a.dtype == numpy.float32 and (a == t).all() and numpy.load("nothing.npy").shape == (0, 16)'
fi

# --- arrays replace nothing, and come whole or not at all ----------------------------------------
cp test.npy precious.npy
expect 1 "an array over a file" "--output 'precious.npy' exists: --overwrite replaces it" "$trf" embed \
    --model good digits --output precious.npy
check "which stays" same precious.npy test.npy
expect 1 "a text over a file" "--output 'four' exists: --overwrite" \
    sh -c "echo 4 >four; '$trf' embed --model good digits --output four"
expect 0 "unless asked" "" "$trf" embed --model good digits --output four --overwrite
check "ten lines" lines_are 10 four
printf '\376\377\0001\0000' >wide.digits
expect 1 "text of 16 bits" "got UTF-16" "$trf" embed --model good wide.digits \
    --output precious.npy --overwrite
check "the array stays" same precious.npy test.npy
expect 1 "no room" "cannot write precious.npy: File too large" \
    sh -c "ulimit -f 4; '$trf' embed --model good more.digits --output precious.npy --overwrite"
check "the array stays then" same precious.npy test.npy
expect 1 "no room for a new one" "cannot write large.npy: File too large" \
    sh -c "ulimit -f 4; '$trf' embed --model good more.digits --output large.npy"
check "there is none" [ ! -e large.npy ]
expect 1 "a folder that is not there" "cannot write 'no/a.npy': No such file or directory" "$trf" embed \
    --model good digits --output no/a.npy
silent "that"
ln -s precious.npy link.npy
expect 1 "a link" "it is a symbolic link" "$trf" embed --model good digits --output link.npy --overwrite
echo rest >precious.npy.tmp-0123abcd
expect 0 "the array, when asked" "" "$trf" embed --model good digits --output precious.npy --overwrite
check "has ten rows" eval 'grep -q "(10, 16)" precious.npy && [ "$(wc -c <precious.npy)" -eq 768 ]'
check "nothing unfinished lies there" eval '! ls | grep -q "\.tmp-"'

# --- JSON ---------------------------------------------------------------------------------------
printf '3 1 4\n\n  \n"\\\n' >odd
expect 0 "JSON" '^{"line":1,"text":"3 1 4","embedding":\[[0-9.,e-]*\]}$' "$trf" embed --model good \
    --json odd
check "no vector without tokens" \
    eval 'grep -q "^{\"line\":2,\"text\":\"\",\"embedding\":\[\]}$" out && grep -q "^{\"line\":3,\"text\":\"  \",\"embedding\":\[\]}$" out'
check "quoted text" grep -q '^{"line":4,"text":"\\"\\\\","embedding":\[.*\]}$' out
"$trf" embed --model good --json test.digits 2>/dev/null |
    sed 's/.*"embedding":\[\(.*\)\]}$/\1/' | tr , ' ' >got
check "the same numbers" same got vectors

# --- lines without a vector ---------------------------------------------------------------------
printf '1 2\n\n  \n1 2 3 4 5 6 7 8 9 1 2 3 4\n\377\n1\0002\n4 5 unknown\n7' >odd
for model_of in good eos; do
    limit=12
    [ $model_of = good ] || limit=11
    expect 1 "$model_of: odd lines" "odd:4: answered with an empty line: 13 tokens, at most $limit" \
        "$trf" embed --model $model_of odd
    check "$model_of: a line for a line" lines_are 8 out
    check "$model_of: empty where empty, and where impossible" \
        eval '[ -z "$(sed -n 2,6p out | tr -d "\n")" ] && [ "$(grep -c . out)" -eq 3 ]'
    check "$model_of: each bad line is named, and counted" \
        eval '[ "$(grep -c "odd:[456]:" err)" -eq 3 ] && grep -q "3 of 8 lines could not be embedded" err'
    check "$model_of: the last line without an end" \
        eval '[ "$(sed -n 8p out)" = "$(echo 7 | "$trf" embed --model $model_of)" ]'
done
check "unknown words are counted" grep -q "1 of 6 tokens of the input is unknown to the model, the first one in line 7" err
expect 1 "odd lines in an array" "odd:5: answered with a row of zeros: expected UTF-8" "$trf" embed \
    --model good odd --output odd.npy
check "are zeros" eval '[ "$(numbers odd.npy | sed -n 2,6p | tr -d " 0\n")" = "" ]'
check "the others are not" eval '[ "$(numbers odd.npy | grep -c "[1-9]")" -eq 3 ]'
expect 0 "the beginning of a long line" "1 of 1 line had more tokens than the model takes, 12" \
    sh -c "sed -n 4p odd | '$trf' embed --model good --truncate"
cp out got
check "is its vector" eval '[ "$(cat got)" = "$(echo 1 2 3 4 5 6 7 8 9 1 2 3 | "$trf" embed --model good)" ]'

# --- the nearest lines --------------------------------------------------------------------------
echo '3 1' >asked
cat two test.digits >many
embed good many --normalize no >many.vectors
# Cosines by awk. Equal ones keep the order of lines.
embed good asked --normalize no | cat - many.vectors | awk '
    NR == 1 { n = split($0, q, " "); for (i = 1; i <= n; i++) qq += q[i] ^ 2; next }
    { d = v = 0; for (i = 1; i <= n; i++) { d += q[i] * $i; v += $i ^ 2 }; printf "%.8f\n", d / sqrt(qq * v) }' |
    paste - many | sort -s -t "$(printf '\t')" -k 1,1gr | awk -F '\t' '{ printf "%.4f\t%s\n", $1, $2 }' >wanted
expect 0 "all lines" "" "$trf" embed --model good --query '3 1' --top 1000 many
cut -f 2 out >got
cut -f 2 wanted | cmp -s - got
check "the order by awk" [ $? -eq 0 ]
check "the cosines by awk" eval 'cut -f 1 out >got; cut -f 1 wanted >scores; paste got scores | awk "!((\$1 - \$2) ^ 2 < 4e-8) { bad = 1 } END { exit bad || NR != 70 }"'
cp out nearest
expect 0 "five by default" "" "$trf" embed --model good --query '3 1' many
head -n 5 nearest | cmp -s - out
check "the first ones" [ $? -eq 0 ]
cat many more.digits many >very.many
"$trf" embed --model good --query '3 1' --top 5000 very.many 2>/dev/null >nearest
check "more than there are" lines_are $((70 + 2000 + 70)) nearest
for top in 1 3 50; do
    head -n $top nearest >wanted
    expect 0 "the best $top of many" "" "$trf" embed --model good --query '3 1' --top $top very.many
    check "are those $top" same out wanted
done
expect 0 "several files" "" "$trf" embed --model good --query '3 1' --top 5000 many more.digits many
check "are as good as one" same out nearest
expect 0 "standard input too" "" sh -c "cat many | '$trf' embed --model good --query '3 1' --top 5000 - more.digits many"
check "in its turn" same out nearest
expect 0 "an option and a file" "" "$trf" embed --model good --query '3 1' --top 5000 --input many more.digits many
check "in their order" same out nearest
expect 0 "the line itself" "^1.0000	3 1$" sh -c "printf '5\n3 1\n' | '$trf' embed --model good --query '3 1' --top 1"
expect 0 "other batches" "" "$trf" embed --model good --query '3 1' --top 5000 --batch 3 --products built-in very.many
"$trf" embed --model good --query '3 1' --top 5000 --products built-in very.many 2>/dev/null | cmp -s - out
check "the same lines" [ $? -eq 0 ]
for pooling in first max; do
    expect 0 "by other vectors, $pooling" "" "$trf" embed --model good --query '3 1' --top 5000 \
        --pooling $pooling very.many
    check "another order, $pooling" eval '! cmp -s out nearest'
done
printf '5\n3 1\n5\n' >again
printf '{"line":2,"score":1,"file":"again","text":"3 1"}\n' >wanted
expect 0 "JSON of near lines" "" "$trf" embed --model good --query '3 1' --json again
sed 1q out | sed 's/"score":1\.*0*[0-9]*,/"score":1,/; s/"score":0.99999[0-9]*,/"score":1,/' >got
check "has score, file, line and text" same got wanted
check "equal lines in their order" eval '[ "$(sed -n "2,3s/,\"score\".*//p" out | tr "\n" " ")" = "{\"line\":1 {\"line\":3 " ]'
expect 1 "lines that have no vector" "odd:4: left out: 13 tokens, at most 12" "$trf" embed \
    --model good --query '3 1' --top 100 odd
check "are not near" eval '[ "$(cut -f 2 out | sort | tr "\n" ";")" = "1 2;4 5 unknown;7;" ]'
expect 0 "no line at all" "" "$trf" embed --model good --query '3 1' nothing
check "is near" [ ! -s out ]
expect 0 "a query of unknown words" "1 of 2 tokens of --query is unknown to the model" "$trf" embed \
    --model good --query '3 unknown' digits
expect 1 "a query without tokens" "--query has no tokens, so it has no vector" "$trf" embed \
    --model good --query '  ' digits
silent "that query"
expect 1 "a query that is too long" "--query: 13 tokens, at most 12" "$trf" embed --model good \
    --query '1 2 3 4 5 6 7 8 9 1 2 3 4' digits
expect 0 "the beginning of one" "--query: its first 12 tokens are used (--truncate)" "$trf" embed \
    --model good --query '1 2 3 4 5 6 7 8 9 1 2 3 4' --truncate digits
silent "that beginning"
expect 1 "a query that is not UTF-8" "--query: " "$trf" embed --model good \
    --query "$(printf '3 \377')" digits

# --- refusals -----------------------------------------------------------------------------------
expect 1 "a language model" "causal.m: a decoder-only model has no encoder" "$trf" embed \
    --model causal.m digits
silent "a language model"
expect 1 "no such model" "missing" "$trf" embed --model missing digits
expect 1 "not a model" "digits" "$trf" embed --model digits digits
expect 2 "no model" "give --model FILE" "$trf" embed digits
expect 2 "another pooling" "--pooling takes mean|first|max, got 'last'" "$trf" embed --model good \
    --pooling last digits
expect 2 "another length" "--normalize takes no|yes, got '2'" "$trf" embed --model good --normalize 2
expect 2 "no query" "--query needs a value" "$trf" embed --model good --query
expect 2 "an empty query" "--query is empty" "$trf" embed --model good --query '' digits
expect 2 "no nearest line" "--top takes a whole number from 1" "$trf" embed --model good --query 3 \
    --top 0 digits
expect 2 "nearest to nothing" "--top needs --query" "$trf" embed --model good --top 3 digits
expect 2 "lengths of cosines" "--normalize is for vectors" "$trf" embed --model good --query 3 \
    --normalize no digits
expect 2 "at once, from all lines" "--query needs all lines" "$trf" embed --model good --query 3 \
    --interactive digits
expect 2 "at once, in an array" "an .npy needs all lines" "$trf" embed --model good --interactive \
    --output a.npy digits
expect 2 "JSON in an array" "--output 'a.npy' is an array of numbers, but --json writes text" "$trf" \
    embed --model good --json --output a.npy digits
expect 2 "lines in an array" "--output 'a.npy' is an array of numbers, but --query writes text" \
    "$trf" embed --model good --query 3 --output a.npy digits
expect 2 "two files" "give one file of lines, got 'digits' and 'two'" "$trf" embed --model good \
    digits two
expect 1 "a text instead of a file" "cannot read '3 1 4'" "$trf" embed --model good '3 1 4'
expect 1 "no such file to search" "cannot read 'missing'" "$trf" embed --model good --query 3 digits \
    missing
check "nothing is found before that" [ ! -s out ]
cp digits kept
expect 1 "output is input" "is the file that --input reads" "$trf" embed --model good kept \
    --output kept --overwrite
expect 1 "output is searched" "--output 'kept' is also a file to read" "$trf" embed --model good \
    --query 3 two kept --output kept --overwrite
expect 1 "standard output is searched" "standard output is 'kept', which is also read" \
    sh -c "'$trf' embed --model good --query 3 two kept >>kept"
check "it is whole" same kept digits
cp good kept
expect 1 "output is the model" "is the file that --model reads" "$trf" embed --model kept digits \
    --output kept --overwrite
check "which is whole" same kept good
{ "$trf" embed --model good more.digits; echo $? >status; } 2>err | head -n 1 >got
check "a closed pipe ends it" eval '[ "$(cat status)" -eq 141 ] && [ ! -s err ] && lines_are 1 got'
if [ -w /dev/full ]; then
    expect 1 "disk full" "cannot write /dev/full" "$trf" embed --model good more.digits \
        --output /dev/full
fi

finish

# Texts as models write them, what a model does not know of a text, and files: trf generate, trf translate, trf convert.
. "$(dirname "$0")/trf.sh"

# pieces: a SentencePiece model with byte fallback: <unk>, a blank, a, b, and the 256 bytes
piece() { printf '\012'"$(printf '\\%03o' $((${#1} + 9)))"'\012'"$(printf '\\%03o' ${#1})"'%s\025\0\0\0\0\030'"$2" \
    "$1"; }
{
    piece '<unk>' '\002'
    printf '\012\014\012\003\342\226\201\025\0\0\0\0\030\001'
    piece a '\001'
    piece b '\001'
    i=0
    while [ $i -lt 256 ]; do piece "$(printf '<0x%02X>' $i)" '\006'; i=$((i + 1)); done
    printf '\022\005\030\001\230\002\001\032\006\030\001\040\001\050\001'
} >bytes.model
nuls() { tr -dc '\000' <"$1" | wc -c; }

# a NUL that a model writes: all that stands behind it is written too
for i in 1 2 3 4 5 6 7 8; do echo 'ab ba'; done >ab
language="--objective causal --decoder-layers 1 --d-model 16 --n-heads 2 --d-ff 32 --batch-tokens 256 --metric loss"
check "train makes a language model of bytes" "$trf" train $language --text ab --sentencepiece bytes.model --updates 2 \
    --warmup 2 --valid-size 0 --seed 5 --threads 1 --model bytes 2>err
"$trf" generate --model bytes --max-tokens 400 --min-tokens 400 --seed 1 --threads 1 >lines
"$trf" generate --model bytes --max-tokens 400 --min-tokens 400 --seed 1 --threads 1 --json >json
check "generate draws NULs" grep -q '\\u0000' json
check "NULs that generate draws are blanks in a line" test "$(nuls lines)" -eq 0
"$trf" generate --model bytes --max-tokens 400 --min-tokens 400 --seed 1 --threads 1 --count 2 --output twice
check "generate draws the same text alone and among others" eval 'n=$(wc -c <lines); head -c $n twice | cmp -s - lines'
# as many characters in the line as there are in JSON
count() { sed -e 's/^{"text":"//' -e 's/","log_probability".*//' json | sed -e 's/\\u[0-9a-f]\{4\}/x/g' \
    -e 's/\\[\\"]/x/g' | LC_ALL=C tr -dc '\000-\177\302-\364' | tr -d '\n' | wc -c; }
lines=$(($(LC_ALL=C tr -dc '\000-\177\302-\364' <lines | wc -c) - 1))
check "a text that generate draws is as long in a line as in JSON" test "$(count)" -eq "$lines"
check "a text of 400 tokens that generate draws has more than 200 characters" test "$lines" -gt 200

# in translations too: of 200 answers of two bytes one or more have a NUL in front
i=0
while [ $i -lt 20 ]; do printf 'ab\tba\n'; i=$((i + 1)); done >ab.tsv
check "train makes a translator of bytes" \
    "$trf" train --tsv ab.tsv --sentencepiece bytes.model $small --updates 2 --valid-size 0 --model two 2>err
many="--beam 200 --n-best 200 --max-length-a 0 --max-length-b 2 --min-length 2"
echo ab | "$trf" translate --model two $many >lines
echo ab | "$trf" translate --model two $many --json | sed 's/{"text"/\n&/g' >json
grep -c '^{"text":"\\u0000[^"]' json >in.json
cut -f4 lines | grep -a -c '^ .' >in.lines
check "some of 200 answers have a NUL in front" test "$(cat in.json)" -ge 1
check "NULs in front of answers are blanks in lines" \
    eval 'test "$(nuls lines)" -eq 0 && test "$(cat in.lines)" -ge "$(cat in.json)"'

# a prompt is written as it was given, and what it has of the unknown is told once
i=0
while [ $i -lt 60 ]; do echo 'the quick brown fox jumps over the lazy dog'; i=$((i + 1)); done >fox
check "train makes a language model of letters" \
    "$trf" train $language --text fox --tokens characters --updates 20 --warmup 10 --model letters 2>err
expect 0 "generate counts the unknown letters of a prompt" \
    "trf generate: 4 of 13 tokens of --prompt are unknown to the model$" \
    "$trf" generate --model letters --prompt 'The Café: fox' --max-tokens 5 --temperature 0
check "generate writes a prompt with unknown letters as it was given" grep -q '^The Café: fox' out
check "generate tells of unknown letters of a prompt once" test "$(grep -c unknown err)" -eq 1
expect 0 "generate takes a prompt without unknown letters" "" \
    "$trf" generate --model letters --prompt 'the fox' --max-tokens 5 --seed 1
check "generate says nothing of a prompt without unknown letters" test ! -s err
printf 'the fox\nÄ the\n\n' >starts
expect 0 "generate counts the unknown letters of lines" \
    "1 of 12 tokens of the input is unknown to the model, the first one in line 2$" \
    "$trf" generate --seed 1 --model letters --input starts --max-tokens 3 --min-tokens 3 --count 2
check "generate --count 2 writes each line twice, as it was given" \
    test "$(sed 's/...$//' out | tr '\n' '|')" = 'the fox|the fox|Ä the|Ä the|||'
"$trf" generate --seed 1 --model letters --input starts --max-tokens 3 --min-tokens 3 --json >json 2>err
check "generate --json writes lines as they were given" \
    eval 'grep -q "^{\"text\":\"the fox" json && grep -q "^{\"text\":\"Ä the" json'
check "train makes a language model of words" \
    "$trf" train $language --text fox --tokens words --updates 20 --warmup 10 --model words 2>err
for prompt in 'the  Fox' 'the  Fox '; do
    "$trf" generate --seed 1 --model words --prompt "$prompt" --max-tokens 2 --min-tokens 2 >out 2>err
    check "generate puts one blank behind the prompt '$prompt'" eval 'grep -q "^the  Fox [a-z]* [a-z]*$" out'
done
"$trf" generate --seed 1 --model letters --count 50 --max-tokens 100 --temperature 3 >out
check "generate draws no <unk>" test "$(grep -c '<unk>' out)" -eq 0
"$trf" generate --seed 1 --model letters --count 50 --max-tokens 100 --temperature 3 --allow-unk yes >out
check "generate --allow-unk yes draws <unk>" test "$(grep -c '<unk>' out)" -gt 10

# log-probabilities of tokens: as many as tokens and an end; they add up
sums() { sed 's/"log_probability":/\n&/g' |
    sed -n 's/^"log_probability":\([-0-9.e]*\),.*"token_log_probabilities":\[\([^]]*\)\].*/\1,\2/p' |
    awk -F, '{ s = 0; for (i = 2; i <= NF; i++) s += $i; d = s - $1; if (d * d > 1e-6) bad++; n++ }
        END { exit bad || n < 4 }'; }
echo ab | "$trf" translate --model two --beam 5 --n-best 5 --json --token-scores >json
check "translate --token-scores writes numbers that add up to the log-probability" sums <json
check "translate --json writes no scores of tokens without --token-scores" \
    eval '! echo ab | "$trf" translate --model two --json | grep -q token_log'
"$trf" generate --seed 1 --model letters --count 5 --json --token-scores --max-tokens 30 >json 2>err
check "generate --token-scores writes numbers that add up to the log-probability" sums <json
check "generate --token-scores writes the tokens that it draws" grep -q '"drawn":\["' json
expect 2 "generate refuses --token-scores without --json" "token-scores needs --json" "$trf" generate --model letters \
    --token-scores
expect 2 "translate refuses --token-scores without --json" "token-scores need --json" "$trf" translate --model two \
    --token-scores

# a language model goes on beyond its max-length
i=0
while [ $i -lt 60 ]; do echo 'one two three four five six seven eight nine'; i=$((i + 1)); done >count
check "train makes a language model with a max-length of 20" "$trf" train $language --text count --documents file \
    --tokens words --max-length 20 --chunk 19 --seed 5 --threads 1 --updates 300 --warmup 20 --learning-rate 0.01 \
    --schedule constant --dropout 0 --valid-size 0 --model pieces 2>err
"$trf" generate --model pieces --max-tokens 400 --min-tokens 400 --temperature 0 --prompt 'one two' >out 2>err
check "generate writes 400 tokens with a max-length of 20" test "$(wc -w <out)" -eq 402
check "generate writes beyond the max-length as well as before" \
    test "$(tr '\n' ' ' <out | sed 's/one two three four five six seven eight nine/&\n/g' |
    grep -c '^ *one two three four five six seven eight nine$')" -ge 40
"$trf" generate --model pieces --max-tokens 7 --min-tokens 7 --temperature 0 --prompt "$(cat count) one two" >out 2>err
check "generate goes on with a prompt longer than the max-length" \
    grep -q '^one two three four five six seven eight nine$' out
expect 0 "generate takes a prompt longer than the max-length" "" \
    "$trf" generate --model pieces --max-tokens 40 --min-tokens 40 --prompt "$(cat count)" --seed 1
check "generate says nothing of a prompt longer than the max-length" test ! -s err

# --stop: an answer ends before the text, whatever its tokens, alone or in a batch
counting='--model pieces --temperature 0 --max-tokens 7'
whole=$("$trf" generate $counting --prompt 'one two' 2>err)
for stop in five 'r fi' x ' three'; do
    for count in 1 2; do
        "$trf" generate $counting --prompt 'one two' --stop "$stop" --stop nothing --count $count >out 2>err
        check "generate --stop '$stop' --count $count" [ "$(sort -u out)" = "${whole%%"$stop"*}" ]
    done
done
check "--stop ends a text in the middle" [ "${whole%%five*}" != "$whole" ]
"$trf" generate $counting --prompt 'one two' --stop five --json >out 2>err
check "generate --stop --json says so" grep -q '"ended":"stop"' out
expect 2 "--stop without a text" "--stop takes a text" "$trf" generate $counting --stop ''
printf 'one two\nthree\n' | "$trf" generate $counting --interactive >out 2>err
check "generate --interactive answers each line of standard input" [ "$(wc -l <out)" -eq 2 ]
check "in its order" [ "$(head -n 1 out)" = "$whole" ]
expect 2 "generate --interactive beside --prompt" "not both" "$trf" generate $counting --interactive --prompt one
"$trf" generate --model letters --max-tokens 40 --min-tokens 40 >one 2>a
"$trf" generate --model letters --max-tokens 40 --min-tokens 40 >two 2>b
check "two calls draw two texts" sh -c '! cmp -s one two'
again=$(sed -n 's/.*--seed \([0-9]*\) draws the same again.*/\1/p' a)
check "and say with which seed to draw them again" [ -n "$again" ]

# half the bytes, and the same answers or nearly
for weights in bf16 f16; do
    expect 0 "average --weights $weights takes one model" "" \
        "$trf" average letters --weights $weights --output half.$weights
    check "average --weights $weights makes a smaller file" test "$(wc -c <half.$weights)" -lt "$(wc -c <letters)"
    check "generate takes a model with weights as $weights" \
        eval '"$trf" generate --seed 1 --model half.$weights --max-tokens 5 --prompt "the" \
            >out 2>err && grep -q "^the" out'
done
expect 2 "average refuses one model without --weights" "two or more models, or one model and --weights" "$trf" average \
    letters --output same

finish

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
check "a model of bytes" "$trf" train $language --text ab --sentencepiece bytes.model --updates 2 --warmup 2 \
    --valid-size 0 --seed 5 --threads 1 --model bytes 2>err
"$trf" generate --model bytes --max-tokens 400 --min-tokens 400 --seed 1 --threads 1 >lines
"$trf" generate --model bytes --max-tokens 400 --min-tokens 400 --seed 1 --threads 1 --json >json
check "NULs are drawn" grep -q '\\u0000' json
check "and are blanks in a line" test "$(nuls lines)" -eq 0
"$trf" generate --model bytes --max-tokens 400 --min-tokens 400 --seed 1 --threads 1 --count 2 --output twice
check "alone or among others" eval 'n=$(wc -c <lines); head -c $n twice | cmp -s - lines'
# as many characters in the line as there are in JSON
count() { sed -e 's/^{"text":"//' -e 's/","log_probability".*//' json | sed -e 's/\\u[0-9a-f]\{4\}/x/g' \
    -e 's/\\[\\"]/x/g' | LC_ALL=C tr -dc '\000-\177\302-\364' | tr -d '\n' | wc -c; }
lines=$(($(LC_ALL=C tr -dc '\000-\177\302-\364' <lines | wc -c) - 1))
check "the line is as long as the text of JSON" test "$(count)" -eq "$lines"
check "which is of about 400 tokens" test "$lines" -gt 200

# in translations too: of 200 answers of two bytes one or more have a NUL in front
i=0
while [ $i -lt 20 ]; do printf 'ab\tba\n'; i=$((i + 1)); done >ab.tsv
check "a translator of bytes" "$trf" train --tsv ab.tsv --sentencepiece bytes.model $small --updates 2 --valid-size 0 \
    --model two 2>err
many="--beam 200 --n-best 200 --max-length-a 0 --max-length-b 2 --min-length 2"
echo ab | "$trf" translate --model two $many >lines
echo ab | "$trf" translate --model two $many --json | sed 's/{"text"/\n&/g' >json
grep -c '^{"text":"\\u0000[^"]' json >in.json
cut -f4 lines | grep -a -c '^ .' >in.lines
check "NULs in front" test "$(cat in.json)" -ge 1
check "are blanks in lines" eval 'test "$(nuls lines)" -eq 0 && test "$(cat in.lines)" -ge "$(cat in.json)"'

# a prompt is written as it was given, and what it has of the unknown is told once
i=0
while [ $i -lt 60 ]; do echo 'the quick brown fox jumps over the lazy dog'; i=$((i + 1)); done >fox
check "a model of letters" "$trf" train $language --text fox --tokens characters --updates 20 --warmup 10 \
    --model letters 2>err
expect 0 "unknown letters of a prompt" "trf generate: 4 of 13 tokens of --prompt are unknown to the model$" \
    "$trf" generate --model letters --prompt 'The Café: fox' --max-tokens 5 --temperature 0
check "the prompt as it was typed" grep -q '^The Café: fox' out
check "is told once" test "$(grep -c unknown err)" -eq 1
expect 0 "nothing is unknown" "" "$trf" generate --model letters --prompt 'the fox' --max-tokens 5
check "then nothing is told" test ! -s err
printf 'the fox\nÄ the\n\n' >starts
expect 0 "unknown letters of lines" "1 of 12 tokens of the input is unknown to the model, the first one in line 2$" \
    "$trf" generate --model letters --input starts --max-tokens 3 --min-tokens 3 --count 2
check "each line twice, as it was given" test "$(sed 's/...$//' out | tr '\n' '|')" = 'the fox|the fox|Ä the|Ä the|||'
"$trf" generate --model letters --input starts --max-tokens 3 --min-tokens 3 --json >json 2>err
check "in JSON too" eval 'grep -q "^{\"text\":\"the fox" json && grep -q "^{\"text\":\"Ä the" json'
check "a model of words" "$trf" train $language --text fox --tokens words --updates 20 --warmup 10 --model words 2>err
for prompt in 'the  Fox' 'the  Fox '; do
    "$trf" generate --model words --prompt "$prompt" --max-tokens 2 --min-tokens 2 >out 2>err
    check "one blank behind '$prompt'" eval 'grep -q "^the  Fox [a-z]* [a-z]*$" out'
done
"$trf" generate --model letters --count 50 --max-tokens 100 --temperature 3 >out
check "no <unk> is drawn" test "$(grep -c '<unk>' out)" -eq 0
"$trf" generate --model letters --count 50 --max-tokens 100 --temperature 3 --allow-unk yes >out
check "but where it is asked for" test "$(grep -c '<unk>' out)" -gt 10

# log-probabilities of tokens: as many as tokens and an end; they add up
sums() { sed 's/"log_probability":/\n&/g' |
    sed -n 's/^"log_probability":\([-0-9.e]*\),.*"token_log_probabilities":\[\([^]]*\)\].*/\1,\2/p' |
    awk -F, '{ s = 0; for (i = 2; i <= NF; i++) s += $i; d = s - $1; if (d * d > 1e-6) bad++; n++ } END { exit bad || n < 4 }'; }
echo ab | "$trf" translate --model two --beam 5 --n-best 5 --json --token-scores >json
check "of translations" sums <json
check "none unless asked for" eval '! echo ab | "$trf" translate --model two --json | grep -q token_log'
"$trf" generate --model letters --count 5 --json --token-scores --max-tokens 30 >json 2>err
check "of what is drawn" sums <json
check "with the tokens" grep -q '"drawn":\["' json
expect 2 "in JSON alone" "token-scores needs --json" "$trf" generate --model letters --token-scores
expect 2 "of translate too" "token-scores need --json" "$trf" translate --model two --token-scores

# a language model goes on beyond its max-length
i=0
while [ $i -lt 60 ]; do echo 'one two three four five six seven eight nine'; i=$((i + 1)); done >count
check "a model of 20 words" "$trf" train $language --text count --documents file --tokens words --max-length 20 \
    --chunk 19 --seed 5 --threads 1 \
    --updates 300 --warmup 20 --learning-rate 0.01 --schedule constant --dropout 0 --valid-size 0 --model pieces 2>err
"$trf" generate --model pieces --max-tokens 400 --min-tokens 400 --temperature 0 --prompt 'one two' >out 2>err
check "beyond its max-length" test "$(wc -w <out)" -eq 402
check "as well as before" test "$(tr '\n' ' ' <out | sed 's/one two three four five six seven eight nine/&\n/g' |
    grep -c '^ *one two three four five six seven eight nine$')" -ge 40
"$trf" generate --model pieces --max-tokens 7 --min-tokens 7 --temperature 0 --prompt "$(cat count) one two" >out 2>err
check "a prompt as long as one likes" grep -q '^one two three four five six seven eight nine$' out
expect 0 "which is no fault" "" "$trf" generate --model pieces --max-tokens 40 --min-tokens 40 --prompt "$(cat count)"
check "nor worth a word" test ! -s err

# half the bytes, and the same answers or nearly
for weights in bf16 f16; do
    expect 0 "weights as $weights" "" "$trf" average letters --weights $weights --output half.$weights
    check "they are smaller" test "$(wc -c <half.$weights)" -lt "$(wc -c <letters)"
    check "and a model" eval '"$trf" generate --model half.$weights --max-tokens 5 --prompt "the" >out 2>err && grep -q "^the" out'
done
expect 2 "one model as it is" "two or more models, or one model and --weights" "$trf" average letters --output same

finish

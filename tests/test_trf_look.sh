#!/bin/sh
# Looking into models: trf attention, the attention that trf translate, classify and tag write, and trf inspect without
# a file. sh tests/test_trf_look.sh build/trf

. "$(dirname "$0")/trf.sh"

real=$trf
trf=$anew
brief="--batch-tokens 256 --threads 1 --valid-size 0 --ema 0 --checkpoint ''"
narrow="--d-model 16 --n-heads 2 --d-ff 32"
small="$narrow --warmup 20 --seed 5"
layers="--encoder-layers 2 --decoder-layers 2"
quietly() { eval "\"$trf\" train $* $brief" >/dev/null 2>err || { echo "training failed: $*"; sed 's/^/    /' err; }; }

# --- models of every kind -------------------------------------------------------------------------
quietly --tsv train.tsv $small $layers --updates 40 --model translator
awk 'BEGIN {
    for (i = 0; i < 60; i++) print "good film\tpos\nbad film\tneg\na good good song\tpos\na bad bad song\tneg"
}' >moods.tsv
quietly --objective classify --tsv moods.tsv $small --encoder-layers 2 --updates 4 --model classifier
awk -F '\t' '{ tags = $1; gsub(/good|bad/, "ADJ", tags); gsub(/[a-z]+/, "X", tags); print $1 "\t" tags }' moods.tsv \
    >tags.tsv
quietly --objective tag --tsv tags.tsv $small --encoder-layers 2 --updates 4 --model tagger
cut -f1 moods.tsv >moods.text
quietly --objective causal --text moods.text $small --decoder-layers 2 --tokens words --updates 4 --model speaker
quietly --objective mask --text moods.text $small --encoder-layers 2 --tokens words --updates 4 --model masker
for model in translator classifier tagger speaker masker; do
    check "attention models: training writes the $model" test -s $model
done

# --- entropies and links against a plain recomputation --------------------------------------------
# recount CAUSAL MAPS: of the JSON on standard input; 1: row i sees the first i columns.
recount()
{
    awk -v causal="$1" -v wanted="$2" '
        function field(text, key,    at) {
            at = index(text, "\"" key "\":")
            return at ? substr(text, at + length(key) + 3) + 0 : "absent"
        }
        function bad(what, got, right) { print FILENAME ": map " k - 1 ": " what " is " got ", not " right; failed = 1 }
        {
            n = split($0, part, "{\"layer\":")
            for (k = 2; k <= n; k++) {
                matrix = substr(part[k], index(part[k], "\"attention\":[[") + 14)
                rows = split(substr(matrix, 1, index(matrix, "]]") - 1), row, /\],\[/)
                sum = most = 0
                strongest = -1
                at_row = at_column = "absent"
                for (i = 1; i <= rows; i++) {
                    columns = split(row[i], p, ",")
                    total = 0
                    seen = causal ? i : columns
                    for (j = 1; j <= columns; j++) {
                        total += p[j]
                        if (j > seen && p[j] != 0) bad("a weight of the future", p[j], 0)
                        if (p[j] > 0) sum -= p[j] * log(p[j])
                        if (seen > 1 && j <= seen && p[j] > strongest) {
                            strongest = p[j]
                            at_row = i - 1
                            at_column = j - 1
                        }
                    }
                    most += log(seen)
                    if (!((total - 1) ^ 2 < 1e-10)) bad("the sum of row " i - 1, total, 1)
                }
                if (!((field(part[k], "entropy") - sum / rows) ^ 2 < 1e-10))
                    bad("entropy", field(part[k], "entropy"), sum / rows)
                if (most > 0 && !((field(part[k], "share_of_largest") - sum / most) ^ 2 < 1e-10))
                    bad("share", field(part[k], "share_of_largest"), sum / most)
                if (field(part[k], "row") "" != at_row "" || field(part[k], "column") "" != at_column "")
                    bad("the strongest link", field(part[k], "row") " " field(part[k], "column"), at_row " " at_column)
            }
            maps += n - 1
        }
        END {
            if (maps != wanted) { print maps " maps, not " wanted; failed = 1 }
            exit failed
        }'
}
recounted()
{
    name=$1 causal=$2 maps=$3
    shift 3
    "$trf" attention "$@" --json >seen 2>err
    check "attention: $name: the maps and their figures are those of a plain recount" recount "$causal" "$maps" <seen
}
recounted "cross, every layer and head" 0 4 translator --source-text '3 1 4' --target-text 'four one three' --layer all
recounted "without --layer" 0 2 translator --source-text '3 1 4' --target-text 'four one three'
check "attention: without --layer only layer 1, the last one, is shown" \
    eval 'grep -q "\"maps\":\[{\"layer\":1,\"head\":0," seen && ! grep -q "{\"layer\":0" seen'
check "attention: rows of cross attention are the tokens of the target, with the end mark; columns are the source" \
    grep -q '"rows":\["four","one","three","</s>"\],"columns":\["3","1","4","</s>"\]' seen
recounted "--layer 0 --head 1" 0 1 translator --source-text '3 1 4' --layer 0 --head 1
recounted "--head mean" 0 1 translator --source-text '3 1 4' --head mean
recounted "without --target-text" 0 2 translator --source-text '3 1 4 1 5'
echo '3 1 4 1 5' | "$trf" translate --model translator >answer 2>/dev/null
check "attention: without --target-text, the target is the answer of trf translate" \
    grep -q "\"answer\":\"$(cat answer)\"" seen
recounted "--kind encoder" 0 4 translator --source-text '3 1 4' --kind encoder --layer all
check "attention: --kind encoder: rows and columns are the tokens of the source" \
    grep -q '"rows":\["3","1","4","</s>"\],"columns":\["3","1","4","</s>"\]' seen
recounted "--kind decoder" 1 4 translator --source-text '3 1 4' --target-text 'four one three' --kind decoder --layer \
    all
check "attention: --kind decoder: rows and columns begin with <s>, which the decoder reads first" \
    grep -q '"rows":\["<s>","four","one","three"\],"columns":\["<s>","four","one","three"\]' seen
recounted "a language model" 1 4 speaker --source-text 'a good film' --layer all
check "attention: a language model: the rows are <s> and every token of the text" \
    grep -q '"rows":\["<s>","a","good","film"\]' seen
recounted "a classifier" 0 4 classifier --source-text 'a good film' --layer all
recounted "a tagger" 0 2 tagger --source-text 'a good film'
recounted "a model of hidden tokens" 0 2 masker --source-text 'a good film'
recounted "one token on each side" 0 2 translator --source-text 3 --target-text two
recounted "an empty --target-text" 0 2 translator --source-text '3 1' --target-text ''
check "attention: an empty --target-text: the only row is the end mark" grep -q '"rows":\["</s>"\]' seen
recounted "a decoder map of one row" 1 2 translator --source-text '3 1' --target-text '' --kind decoder
check "attention: a decoder map of one row has entropy 0, no share of the largest and no strongest link" \
    grep -q '"entropy":0,"share_of_largest":null,"strongest":null' seen

# --- the same numbers from trf translate, classify and tag ----------------------------------------
# means: the mean of the heads of the last of the layers, of each matrix 4 deep on standard input, a number a line.
numbers() { sed 's/.*"attention":\(\[.*\]\)[^]]*/\1/' | tr -d '[]' | tr , '\n'; }
near() { paste "$1" "$2" | awk '{ bad += NF != 2 || !(($1 - $2) ^ 2 < 1e-6) } END { exit bad || !NR }'; }
echo '3 1 4' >three
"$trf" translate --model translator three --json --attention --output mean 2>/dev/null
"$trf" translate --model translator three --json --attention mean --output same.mean 2>/dev/null
"$trf" translate --model translator three --json --attention all --output all 2>/dev/null
check "translate: --attention alone writes what --attention mean writes" same mean same.mean
check "translate: --attention all writes two layers" \
    eval '[ "$(grep -o "\]\]\],\[\[\[" all | wc -l)" -eq 1 ] && grep -q "\"attention\":\[\[\[\[" all'
target=$("$trf" translate --model translator three 2>/dev/null)
"$trf" attention translator --source-text '3 1 4' --target-text "$target" --layer all --json 2>/dev/null | tr '{' '\n' |
    sed -n 's/.*"attention":\(\[\[.*\]\]\)}.*/\1/p' | tr -d '[]' | tr , '\n' >heads.numbers
sed 's/}\]}$//' all | numbers >all.numbers
check "translate: --attention all writes the numbers of trf attention" near all.numbers heads.numbers
sed 's/}\]}$//' mean | numbers >mean.numbers
awk '{ x[NR] = $1 } END { n = NR / 4; for (i = 1; i <= n; i++) print (x[2 * n + i] + x[3 * n + i]) / 2 }' all.numbers \
    >mean.wanted
check "translate: --attention mean writes the mean of the last layer's heads" near mean.numbers mean.wanted
expect 0 "translate: --alignments and --attention all write both" '"alignment":\[.*"attention":\[\[\[\[' \
    "$trf" translate --model translator three --json --alignments --attention all
expect 0 "translate: --attention=all, the value in one word, writes every head" '"attention":\[\[\[\[' \
    "$trf" translate --model translator three --json --attention=all
expect 0 "translate: a file name behind --attention is read as the input, and the mean is written" '"attention":\[\[0' \
    "$trf" translate --model translator --json --attention three
expect 2 "translate: --attention=some is refused with the values that exist" "takes mean|all, or nothing, got 'some'" \
    "$trf" translate --model translator three --json --attention=some
expect 2 "translate: --attention without --json is refused" "need --json" \
    "$trf" translate --model translator three --attention all
expect 2 "translate: --attention of a language model is refused" "need source tokens" \
    "$trf" translate --model speaker three --json --attention all

echo 'a good film' >film
"$trf" attention classifier --source-text 'a good film' --layer all --json 2>/dev/null | tr '{' '\n' |
    sed -n 's/.*"attention":\(\[\[.*\]\]\)}.*/\1/p' | tr -d '[]' | tr , '\n' >heads.numbers
printf 'bad song\n\na good film\n' >films
"$trf" classify --model classifier films --json --attention all >all 2>/dev/null
check "classify: --attention all writes an object for each line" lines_are 3 all
check "classify: --attention all writes no token and no map for an empty line" \
    eval 'sed -n 2p all | grep -q "\"labels\":\[\],\"tokens\":\[\],\"attention\":\[\]}"'
check "classify: --attention all writes the tokens of a line and its maps" \
    eval 'sed -n 3p all | grep -q "\"tokens\":\[\"a\",\"good\",\"film\"\],\"attention\":\[\[\[\["'
sed -n '3{s/}$//;p;}' all | numbers >all.numbers
check "classify: --attention all writes the numbers of trf attention" near all.numbers heads.numbers
"$trf" classify --model classifier films --json >plain 2>/dev/null
check "classify: --attention all leaves the labels as they are" eval 'sed "s/,\"tokens\":.*/}/" all | cmp -s - plain'
expect 0 "classify: --attention alone writes one map, the mean" '"attention":\[\[0' "$trf" classify --model classifier \
    film --json --attention
expect 0 "tag: --attention all writes words, tokens and maps" \
    '"words":.*"tokens":\["a","good","film"\],"attention":\[\[\[\[' "$trf" tag --model tagger film --json \
    --attention all
expect 2 "classify: --attention without --json is refused" "--attention needs --json" \
    "$trf" classify --model classifier film --attention
expect 2 "tag: --attention with --split is refused" "--split labels a line in parts" \
    "$trf" tag --model tagger film --json --attention --split

# --- text and pictures ----------------------------------------------------------------------------
expect 0 "attention: the terminal shows a map with a title" "^layer 1, head 1$" "$trf" attention translator \
    --source-text '3 1 4'
check "attention: the terminal shows a table of the entropies and strongest links" \
    grep -q "^layer  head  entropy  of the largest  strongest link$" out
check "attention: the terminal counts and names the tokens of the columns" \
    grep -q "^columns: the source, 4 tokens: 3 1 4 </s>$" out
expect 0 "attention: --output heads.svg draws and prints the table" "^    1     0  " \
    "$trf" attention translator --source-text '3 1 4' --target-text 'four one' --output heads.svg
check "attention: --output heads.svg prints no map" eval '! grep -q "^layer 1, head" out'
check "attention: --output heads.svg begins as SVG" grep -q '^<svg ' heads.svg
check "attention: the SVG tells the value of each of its 24 squares" \
    test "$(grep -c '<title>target .*, source .*: [0-9]' heads.svg)" -eq 24
check "attention: the SVG names both heads" \
    eval 'grep -q ">layer 1, head 0<" heads.svg && grep -q ">layer 1, head 1<" heads.svg'
cp heads.svg before.svg
expect 1 "attention: a picture that is there is not replaced without --overwrite" "exists: --overwrite replaces it" \
    "$real" attention translator --source-text '3 1 4' --output heads.svg
check "attention: a picture that is not replaced stays as it was" same heads.svg before.svg
expect 1 "attention: --output that names the model file is refused" "is the file that --model reads" \
    sh -c "cp translator t.svg; '$trf' attention t.svg --source-text '3 1 4' --output t.svg"
check "attention: --output that names the model file leaves the model as it was" same translator t.svg
expect 1 "attention: --output in a folder that is not there is refused" "cannot write 'no/such/a.svg'" \
    "$trf" attention translator --source-text '3 1 4' --output no/such/a.svg
expect 2 "attention: --output a.txt, which is no picture, is refused" "takes an .svg, .png or .pdf, got 'a.txt'" \
    "$trf" attention translator --source-text '3 1 4' --output a.txt
expect 2 "attention: --output -, standard output, is refused" "takes an .svg, .png or .pdf, got '-'" \
    "$trf" attention translator --source-text '3 1 4' --output -
mkdir -p nothing
expect 1 "attention: without gnuplot a PNG is refused, and gnuplot is named" \
    "gnuplot, which draws .png, is not installed" env PATH="$here/nothing" "$real" attention translator \
    --source-text '3 1 4' --output no.png
check "attention: without gnuplot no PNG is left" test ! -e no.png
expect 0 "attention: without gnuplot an SVG is drawn" "" env PATH="$here/nothing" \
    "$real" attention translator --source-text '3 1 4' --output yes.svg
if command -v gnuplot >/dev/null; then
    expect 0 "attention: --output heads.png is drawn" "" "$trf" attention translator --source-text '3 1 4' --layer all \
        --output heads.png
    check "attention: heads.png is a PNG" eval '[ "$(head -c 4 heads.png | tail -c 3)" = PNG ]'
    check "attention: gnuplot says nothing when a PNG is drawn" test ! -s err
    expect 0 "attention: --output heads.pdf is drawn" "" "$trf" attention translator --source-text '3 1 4' --output \
        heads.pdf
    check "attention: heads.pdf is a PDF" eval '[ "$(head -c 4 heads.pdf)" = %PDF ]'
fi
if [ -w /dev/full ]; then
    expect 1 "attention: a full disk is told" "cannot write standard output" \
        sh -c "'$trf' attention translator --source-text '3 1 4' --json >/dev/full"
fi

# --- hostile tokens -------------------------------------------------------------------------------
{
    printf 'a "<script>alert(1)</script>\tone\n&amp; \047x\047 \\\\ ]]>\ttwo\n'
    printf '\001\033[31m \302\233m e\314\201\tthree\n\360\237\231\202 $(id) `id` %%s\tfour\n'
} >hostile.lines
for i in 1 2 3 4 5 6 7 8 9 10; do cat hostile.lines; done >hostile.tsv
quietly --tsv hostile.tsv $small --encoder-layers 1 --decoder-layers 1 --tokens words --updates 4 --model hostile
cut -f1 hostile.lines >hostile.sources
n=0
while IFS= read -r line; do
    n=$((n + 1))
    expect 0 "attention: hostile tokens, line $n: an SVG is drawn" "" "$trf" attention hostile --source-text "$line" \
        --output hostile$n.svg
    check "attention: hostile tokens, line $n: the SVG has no tag of theirs" \
        eval '! grep -q "<script\|&amp;amp;amp" hostile$n.svg && grep -q "</svg>" hostile$n.svg'
    check "attention: hostile tokens, line $n: neither the SVG nor the table has a control character" \
        eval '! LC_ALL=C grep -q "$(printf "[\001\033]")" out hostile$n.svg'
    expect 0 "attention: hostile tokens, line $n: the terminal shows a map" "" "$trf" attention hostile --source-text \
        "$line"
    check "attention: hostile tokens, line $n: the map in the terminal has no control character" \
        eval '! LC_ALL=C grep -q "$(printf "[\001\033]")" out'
    "$trf" attention hostile --source-text "$line" --json >hostile.json 2>/dev/null
    if command -v python3 >/dev/null; then
        check "attention: hostile tokens, line $n: JSON and SVG are well-formed" \
            python3 -c 'import json, sys, xml.dom.minidom
seen = json.load(open("hostile.json"))
lines = open("hostile.sources", encoding="utf-8", newline="\n").read().split("\n")
assert len(seen["columns"]) == 1 + len(lines[int(sys.argv[1]) - 1].split(" "))
xml.dom.minidom.parse("hostile%s.svg" % sys.argv[1])' $n
    fi
    if command -v gnuplot >/dev/null; then
        expect 0 "attention: hostile tokens, line $n: gnuplot draws a PNG" "" \
            "$trf" attention hostile --source-text "$line" --output hostile.png
        check "attention: hostile tokens, line $n: gnuplot says nothing" test ! -s err
    fi
done <hostile.sources
mkdir pretends
printf '#!/bin/sh\ncat >%s/script\n' "$here" >pretends/gnuplot
chmod +x pretends/gnuplot
expect 0 "attention: hostile tokens are sent to a gnuplot that only keeps what it gets" "" \
    env PATH="$here/pretends:$PATH" "$real" attention hostile --source-text "%s 'x' $(sed -n 4p hostile.sources)" \
    --kind encoder --output no.pdf
check "attention: gnuplot gets hostile tokens as texts: none begins with a quote" \
    eval 'grep -q "^set label .%s. at screen [0-9.]*,[0-9.]* right\$" script &&
    ! grep -q "\x27\x27" script && ! grep -q "$(printf "\360\237")" script'
expect 1 "attention: a --source-text that is not UTF-8 is refused with the byte and its place" \
    "^trf attention: --source-text: expected UTF-8, got the byte 0xE9 at offset 3" "$trf" attention translator \
    --source-text "$(printf 'nin\351')"
expect 1 "attention: a --target-text that is not UTF-8 is refused" "^trf attention: --target-text: expected UTF-8" \
    "$trf" attention translator --source-text 3 --target-text "$(printf '\377')"
long=$(awk 'BEGIN { for (i = 0; i < 500; i++) printf "%d ", i * 7 % 10 }')
expect 0 "attention: 500 tokens are drawn as SVG" "" \
    "$trf" attention translator --source-text "$long" --kind encoder --output long.svg
check "attention: the SVG of 500 tokens holds an image" grep -q '<image ' long.svg
check "attention: the SVG of 500 tokens is smaller than 8 MB" test "$(wc -c <long.svg)" -lt 8000000
if command -v gnuplot >/dev/null; then
    expect 0 "attention: 500 tokens are drawn as PNG" "" \
        "$trf" attention translator --source-text "$long" --kind encoder --head 0 --output long.png
    check "attention: the PNG of 500 tokens is larger than 50 kB" test "$(wc -c <long.png)" -gt 50000
fi
expect 0 "attention: the terminal shows 500 tokens and the end mark" "501 tokens" \
    "$trf" attention translator --source-text "$long" --kind encoder --head 0
check "attention: the terminal shows 500 tokens as means of several cells" grep -q "^Each cell is the mean of" out
expect 1 "attention: 600 tokens are refused with the number that the model takes" \
    "--source-text: 600 tokens, at most 511" \
    "$trf" attention translator --source-text "$long $(echo "$long" | cut -c 1-200)"
expect 0 "attention: unknown words of --source-text are counted" \
    "1 of 2 tokens of --source-text is unknown to the model" \
    "$trf" attention translator --source-text '3 eleven' --target-text one

# --- what is refused ------------------------------------------------------------------------------
expect 2 "attention: no model is refused" "give a model" "$trf" attention --source-text 3
expect 2 "attention: no --source-text is refused" "give --source-text TEXT" "$trf" attention translator
expect 2 "attention: a --source-text without quotation marks is refused" "quotation marks" \
    "$trf" attention translator --source-text 3 1 4
expect 2 "attention: a model given twice, by name and by --model, is refused" "one model" "$trf" attention translator \
    --model translator --source-text 3
expect 0 "attention: --model names the model" "" "$trf" attention --model translator --source-text 3
expect 1 "attention: an empty --source-text is refused" "--source-text has no token" "$trf" attention translator \
    --source-text ''
expect 1 "attention: a --source-text of blanks alone is refused" "--source-text has no token" "$trf" attention speaker \
    --source-text '  '
expect 1 "attention: a model file that is not there is refused" "no such model\|nowhere" "$trf" attention nowhere \
    --source-text 3
expect 1 "attention: a file that is no model is refused" "safetensors" "$trf" attention train.tsv --source-text 3
for wrong in 2 -1 1x '' mean 99999999999999999999; do
    expect 2 "attention: --layer '$wrong' is refused with the values that exist" \
        "--layer takes a number from 0 to 1 or all, got '$wrong'" "$trf" attention translator --source-text 3 \
        --layer "$wrong"
done
for wrong in 2 -1 1x '' All 99999999999999999999; do
    expect 2 "attention: --head '$wrong' is refused with the values that exist" \
        "--head takes a number from 0 to 1, all or mean, got '$wrong'" "$trf" attention translator --source-text 3 \
        --head "$wrong"
done
expect 2 "attention: --kind cross of a language model is refused" \
    "--kind cross needs an encoder and a decoder; 'speaker' has only a decoder" "$trf" attention speaker \
    --source-text a \
    --kind cross
expect 2 "attention: --kind encoder of a language model is refused" "--kind encoder needs an encoder" \
    "$trf" attention speaker --source-text a --kind encoder
expect 2 "attention: --kind decoder of a classifier is refused" \
    "--kind decoder needs a decoder; 'classifier' has only an encoder" "$trf" attention classifier --source-text a \
    --kind decoder
expect 2 "attention: a --target-text of a language model is refused" "reads only one text, --source-text" \
    "$trf" attention speaker --source-text a --target-text b
expect 2 "attention: --kind encoder with a --target-text is refused" "the encoder does not read it" \
    "$trf" attention translator --source-text 3 --target-text one --kind encoder
expect 2 "attention: an unknown --kind is refused with the kinds that exist" "--kind takes auto|cross|encoder|decoder" \
    "$trf" attention translator --source-text 3 --kind self

# --- inspect without a file -----------------------------------------------------------------------
weights() { "$trf" inspect "$@" --json | sed 's/.*"weights":\([0-9]*\),"parts".*/\1/'; }
check "inspect: --shape paper-base has 63082496 weights" test "$(weights --shape paper-base)" -eq 63082496
check "inspect: --recipe paper with 37000 tokens has 63082496 weights" \
    test "$(weights --recipe paper --vocab-size 37000)" -eq 63082496
check "inspect: --shape gpt2 has 124439808 weights" test "$(weights --shape gpt2)" -eq 124439808
for shape in gpt2 gpt2-medium gpt2-large gpt2-xl t5-small t5-base t5-large llama-2-7b; do
    expect 0 "inspect: --shape $shape has the published number of weights" "the count here is the published one" \
        "$trf" inspect --shape $shape
done
for shape in bert-base bert-large opus-mt; do
    expect 0 "inspect: --shape $shape has the published number of weights but for differences that are told" \
        "with these differences the count here is the published one" "$trf" inspect --shape $shape
done
for shape in paper-base paper-big; do
    expect 0 "inspect: --shape $shape differs from the number of the paper, which rounds" \
        "is not explained: the paper rounds" "$trf" inspect --shape $shape
done
expect 0 "inspect: --shape gpt2 with another vocabulary is told to be changed" "comes from other options" \
    "$trf" inspect --shape gpt2 --vocab-size 50000
check "inspect: --shape gpt2 with another vocabulary has the weights of that vocabulary" \
    grep -q "^weights: 124242432$" out
expect 2 "inspect: --shape gpt2 with another objective is refused" "--shape gpt2 sets what the model learns" \
    "$trf" inspect --shape gpt2 --objective mask
# A file and the options that made it have the same weights, part by part.
for model in translator classifier tagger speaker masker; do
    case $model in
    translator) kind="$layers --source-vocab-size 14 --target-vocab-size 14" ;;
    classifier) kind="--objective classify --encoder-layers 2 --labels 2" ;;
    tagger) kind="--objective tag --encoder-layers 2 --labels 2" ;;
    speaker) kind="--objective causal --decoder-layers 2" ;;
    masker) kind="--objective mask --encoder-layers 2" ;;
    esac
    "$trf" inspect $model >file
    vocab=$(sed -n 's/^model: .* \([0-9]*\) source and \([0-9]*\) target.*/\1 \2/p' file | tr ' ' '\n' | sort -n |
        tail -n 1)
    case $kind in *vocab*) ;; *) kind="$kind --vocab-size $vocab" ;; esac
    case $model in tagger) kind=$(echo "$kind" |
        sed "s/--labels 2/--labels $(sed -n 's/^\([0-9]*\) label.*/\1/p' file)/") ;; esac
    "$trf" inspect $narrow $kind >options 2>err || cat err
    sed -n 's/ in [0-9]* parameters//; /^weights/,/^shapes/p' file | sed '/^memory/q' >file.parts
    sed -n '/^weights/,/^shapes/p' options | sed '/^memory/q' >options.parts
    check "inspect: options count the weights of the $model file, part by part" \
        eval '[ -s file.parts ] && same file.parts options.parts'
done
total=$("$trf" inspect --size base --json | sed 's/,"bytes".*//; s/.*"parts":{\([^}]*\)}.*/\1/' | tr ',' '\n' |
    sed 's/.*://' | awk '{ n += $1 } END { printf "%d", n }')
check "inspect: the weights of the parts sum to the whole" test "$total" = "$(weights --size base)"
flops=$("$trf" inspect --size base --json --source-length 9 --target-length 7 | sed 's/.*"flops":{\(.*\)}}.*/\1/')
check "inspect: the FLOPs of the parts sum to the whole" \
    eval 'echo "$flops" | sed "s/.*\"total\":\([0-9.e+]*\),\"parts\":{/\1,/; s/\"[^\"]*\"://g" | tr "," "\n" |
    awk "NR == 1 { all = \$1; next } { n += \$1 } END { exit !(NR > 5 && (n - all) ^ 2 < 1e-6 * all) }"'
# As trf train says it.
"$trf" train --tsv train.tsv $narrow $layers --batch-tokens 4096 --threads 1 --valid-size 0 --updates 0 \
    --model planned 2>told >/dev/null
"$trf" inspect $narrow $layers --source-vocab-size 14 --target-vocab-size 14 --batch-tokens 4096 \
    --threads 1 --source-length 5 --target-length 5 --json >out
check "inspect: the memory of training is what trf train tells" \
    test "$(sed -n 's/.* weights; \([0-9]*\) MB of memory.*/\1/p' told)" \
    -eq "$(sed 's/.*"training":\([0-9]*\),.*/\1/' out | awk '{ printf "%.0f", $1 / 1e6 }')"
# A file in 8 bits: what it takes is told of the file that it was made from, and what stays floats is counted.
"$trf" quantize translator --weights int8 --output small8 --overwrite
bytes() { "$trf" inspect $2 --json --threads 1 | sed 's/.*"bytes":{\([^}]*\)}.*/\1/' | tr ',' '\n' |
    sed -n "s/^\"$1\"://p"; }
for what in model translating; do
    check "inspect: $what: an 8-bit file takes what its source file tells for 8 bits" \
        test "$(bytes $what small8)" = "$(bytes ${what}_in_8_bits translator)"
done
check "inspect: a file in 32 bits has memory of training" test -n "$(bytes training translator)"
check "inspect: an 8-bit file has no memory of training, no file in 32 bits and no checkpoint" \
    test -z "$(bytes training small8)$(bytes file small8)$(bytes checkpoint small8)"
expect 0 "inspect: an 8-bit file tells in text that its matrices are in 8 bits" \
    "^  model  *[0-9.]* kB  its matrices in 8 bits" "$trf" inspect small8
wide="--d-model 64 --n-heads 2 --d-ff 64 --encoder-layers 1 --decoder-layers 1 --vocab-size 16 --positions learned"
for what in model translating; do
    check "inspect: $what takes less in 8 bits than in 16, and less in 16 than in 32" \
        test "$(bytes ${what}_in_8_bits "--size base")" -lt "$(bytes ${what}_in_16_bits "--size base")" \
        -a "$(bytes ${what}_in_16_bits "--size base")" -lt "$(bytes $what "--size base")"
done
check "inspect: in 8 bits, learned positions are counted in 32 bits" test \
    $(($(bytes model_in_8_bits "$wide --max-length 2064") - $(bytes model_in_8_bits "$wide --max-length 1040"))) \
    -eq $((2 * 1024 * 64 * 4))
check "inspect: in 16 bits, learned positions are counted in 32 bits" test \
    $(($(bytes model_in_16_bits "$wide --max-length 2064") - $(bytes model_in_16_bits "$wide --max-length 1040"))) \
    -eq $((2 * 1024 * 64 * 4))
# By hand: 10 source and 8 target rows of d 512, d_ff 2048, 6 layers.
check "inspect: FLOPs of the encoder's feed-forward parts are as computed by hand" \
    eval 'echo "$flops" | grep -q "\"encoder feed-forward\":251658240[,}]"'
check "inspect: FLOPs of the decoder's attention, which is causal, are as computed by hand" \
    eval 'echo "$flops" | grep -q "\"decoder attention\":442368[,}]"'
giant="--d-model 65536 --n-heads 1024 --d-ff 1048576 --encoder-layers 256 --decoder-layers 256 --vocab-size 1000000"
expect 0 "inspect: a giant model is counted within 300 MB of address space" "^weights: [0-9]\{11,\}$" \
    sh -c "ulimit -v 300000; '$trf' inspect $giant"
expect 0 "inspect: --trace shows the causal attention of the decoder" "q k^T / sqrt(64), softmax, causal  *(8, 8, 8)" \
    "$trf" inspect --size base --trace --source-length 9 --target-length 7
check "inspect: --trace shows the cross attention of both sides" grep -q "q k^T / sqrt(64), softmax  *(8, 8, 10)" out
check "inspect: --trace ends with probabilities" grep -q "softmax: probabilities .*(8, 32000)" out
expect 0 "inspect: --trace of a file names its matrices" "self_attn.in_proj_weight (48, 16)" \
    "$trf" inspect translator --trace --source-length 3
expect 0 "inspect: --trace with --json lists the steps" \
    '"trace":\[{"stack":"encoder","layers":1,"step":"ids","shape":\[10\]}' "$trf" inspect --size base --trace \
    --source-length 9 --json
# Each matrix that a trace names is in the file, with its shape.
for model in translator classifier tagger speaker masker; do
    "$trf" inspect $model --trace --json | sed 's/.*"trace"://' | tr '{' '\n' |
        sed -n 's/.*"weights":"\([a-z_A-Z0-9.]*\) \(([0-9, ]*)\).*/\1  F32  \2/p' | sort -u >traced
    "$trf" inspect $model >file
    check "inspect: --trace names at least 8 matrices of the $model" test "$(wc -l <traced)" -ge 8
    while read -r line; do
        check "inspect: the $model has the matrix of its trace: $line" \
            grep -q "^  \(\(en\|de\)coder\.layers\.1\.\)\{0,1\}$line  " file
    done <traced
done
if command -v python3 >/dev/null; then
    for arguments in "translator --trace" "classifier --trace" "masker --trace" "--shape bert-base --trace" \
        "--shape t5-small" "--objective tag --labels 7"; do
        check "inspect $arguments: the output is JSON" \
            sh -c "'$trf' inspect $arguments --json | python3 -c 'import json, sys; json.load(sys.stdin)'"
    done
fi
expect 2 "inspect: a file with options of a model is refused" \
    "the file 'translator' describes its model: --d-model does not work with a file" "$trf" inspect translator \
    --d-model 8
expect 2 "inspect: neither a file nor options is refused" "give one file, or options" "$trf" inspect
expect 0 "inspect: --trace alone traces the base model" "(33, 2048)" "$trf" inspect --trace
expect 2 "inspect: a --beam that is too wide is refused" "--beam must be between 1 and 1024, got 5000" "$trf" inspect \
    --size tiny --beam 5000
expect 2 "inspect: a --beam that is too wide for a file is refused" "--beam must be between 1 and 1024, got 5000" \
    "$trf" inspect translator --beam 5000
printf '\70\0\0\0\0\0\0\0{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}   ' >other
expect 0 "inspect: a file of another program is listed" "^total: 1 tensors, 0 numbers" "$trf" inspect other
expect 1 "inspect: --trace of a file of another program is refused" "--trace: 'other' is not a model of transformer.h" \
    "$trf" inspect other --trace
expect 2 "inspect: --batch-tokens that are too many are refused" "--batch-tokens must be between 1 and 16777216" \
    "$trf" inspect --size tiny --batch-tokens 2000000000
expect 2 "inspect: --n-heads that do not divide --d-model are refused" "n-heads must divide" "$trf" inspect \
    --d-model 10 --n-heads 3
expect 2 "inspect: 300 encoder layers are refused" "--encoder-layers must be between 1 and 256, got 300" \
    "$trf" inspect --encoder-layers 300
expect 2 "inspect: --tying all with vocabularies of two sizes is refused" "needs vocabularies of the same size" \
    "$trf" inspect --tying all --source-vocab-size 100 --target-vocab-size 200
expect 2 "inspect: a vocabulary of 3 tokens is refused" "--vocab-size must be between 5 and 16777216, got 3" \
    "$trf" inspect --vocab-size 3
expect 2 "inspect: a vocabulary of 2147483647 tokens is refused" \
    "--target-vocab-size must be between 5 and 16777216, got 2147483647" "$trf" inspect --target-vocab-size 2147483647
expect 2 "inspect: a tagger of one label is refused" "--labels must be between 2 and 16777216, got 1" \
    "$trf" inspect --objective tag --labels 1
expect 2 "inspect: a --source-length beyond the model's is refused" \
    "--source-length must be between 1 and 511 for this model, got 512" "$trf" inspect --size tiny --source-length 512
expect 2 "inspect: a --source-length of a language model is refused" "--source-length: this model has no source" \
    "$trf" inspect --shape gpt2 --source-length 5
expect 2 "inspect: --labels of a translator is refused" "--labels is for --objective classify, tag and pretrain" \
    "$trf" inspect --size tiny --labels 3
expect 2 "inspect: --pooling of a tagger is refused" "--pooling is for --objective classify" \
    "$trf" inspect --objective tag --pooling first
expect 2 "inspect: an unknown --shape is refused with the shapes that exist" "--shape takes none|paper-base" \
    "$trf" inspect --shape gpt5

finish

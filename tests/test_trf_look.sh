#!/bin/sh
# Looking into models: trf attention, the attention that trf translate, classify and tag write, and trf inspect without a
# file. sh tests/test_trf_look.sh build/trf

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
awk 'BEGIN { for (i = 0; i < 60; i++) print "good film\tpos\nbad film\tneg\na good good song\tpos\na bad bad song\tneg" }' >moods.tsv
quietly --objective classify --tsv moods.tsv $small --encoder-layers 2 --updates 4 --model classifier
awk -F '\t' '{ tags = $1; gsub(/good|bad/, "ADJ", tags); gsub(/[a-z]+/, "X", tags); print $1 "\t" tags }' moods.tsv \
    >tags.tsv
quietly --objective tag --tsv tags.tsv $small --encoder-layers 2 --updates 4 --model tagger
cut -f1 moods.tsv >moods.text
quietly --objective causal --text moods.text $small --decoder-layers 2 --tokens words --updates 4 --model speaker
quietly --objective mask --text moods.text $small --encoder-layers 2 --tokens words --updates 4 --model masker
for model in translator classifier tagger speaker masker; do check "$model is there" test -s $model; done

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
                        if (seen > 1 && j <= seen && p[j] > strongest) { strongest = p[j]; at_row = i - 1; at_column = j - 1 }
                    }
                    most += log(seen)
                    if (!((total - 1) ^ 2 < 1e-10)) bad("the sum of row " i - 1, total, 1)
                }
                if (!((field(part[k], "entropy") - sum / rows) ^ 2 < 1e-10)) bad("entropy", field(part[k], "entropy"), sum / rows)
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
recounted() { name=$1 causal=$2 maps=$3; shift 3; \
    "$trf" attention "$@" --json >seen 2>err; check "$name" recount "$causal" "$maps" <seen; }
recounted "cross, every head" 0 4 translator --source '3 1 4' --target 'four one three' --layer all
recounted "the last layer without --layer" 0 2 translator --source '3 1 4' --target 'four one three'
check "which is number 1" \
    eval 'grep -q "\"maps\":\[{\"layer\":1,\"head\":0," seen && ! grep -q "{\"layer\":0" seen'
check "rows are what is written" \
    grep -q '"rows":\["four","one","three","</s>"\],"columns":\["3","1","4","</s>"\]' seen
recounted "one head" 0 1 translator --source '3 1 4' --layer 0 --head 1
recounted "the mean" 0 1 translator --source '3 1 4' --head mean
recounted "own answer" 0 2 translator --source '3 1 4 1 5'
echo '3 1 4 1 5' | "$trf" translate --model translator >answer 2>/dev/null
check "which is that of trf translate" grep -q "\"answer\":\"$(cat answer)\"" seen
recounted "encoder" 0 4 translator --source '3 1 4' --kind encoder --layer all
check "reads the source" \
    grep -q '"rows":\["3","1","4","</s>"\],"columns":\["3","1","4","</s>"\]' seen
recounted "decoder" 1 4 translator --source '3 1 4' --target 'four one three' --kind decoder --layer all
check "begins with what it reads first" \
    grep -q '"rows":\["<s>","four","one","three"\],"columns":\["<s>","four","one","three"\]' seen
recounted "a language model" 1 4 speaker --source 'a good film' --layer all
check "reads its text to the end" grep -q '"rows":\["<s>","a","good","film"\]' seen
recounted "a classifier" 0 4 classifier --source 'a good film' --layer all
recounted "a tagger" 0 2 tagger --source 'a good film'
recounted "hidden tokens" 0 2 masker --source 'a good film'
recounted "one token" 0 2 translator --source 3 --target two
recounted "an empty target" 0 2 translator --source '3 1' --target ''
check "is an end mark" grep -q '"rows":\["</s>"\]' seen
recounted "a decoder of one row" 1 2 translator --source '3 1' --target '' --kind decoder
check "which has no largest entropy and no link" \
    grep -q '"entropy":0,"share_of_largest":null,"strongest":null' seen

# --- the same numbers from trf translate, classify and tag ----------------------------------------
# means: the mean of the heads of the last of the layers, of each matrix 4 deep on standard input, a number a line.
numbers() { sed 's/.*"attention":\(\[.*\]\)[^]]*/\1/' | tr -d '[]' | tr , '\n'; }
near() { paste "$1" "$2" | awk '{ if (NF != 2 || !(($1 - $2) ^ 2 < 1e-6)) exit 1 } END { exit NR == 0 }'; }
echo '3 1 4' >three
"$trf" translate --model translator three --json --attention --output mean 2>/dev/null
"$trf" translate --model translator three --json --attention mean --output same.mean 2>/dev/null
"$trf" translate --model translator three --json --attention all --output all 2>/dev/null
check "mean is the option alone" same mean same.mean
check "all: two layers" \
    eval '[ "$(grep -o "\]\]\],\[\[\[" all | wc -l)" -eq 1 ] && grep -q "\"attention\":\[\[\[\[" all'
target=$("$trf" translate --model translator three 2>/dev/null)
"$trf" attention translator --source '3 1 4' --target "$target" --layer all --json 2>/dev/null | tr '{' '\n' |
    sed -n 's/.*"attention":\(\[\[.*\]\]\)}.*/\1/p' | tr -d '[]' | tr , '\n' >heads.numbers
sed 's/}\]}$//' all | numbers >all.numbers
check "all of trf translate is that of trf attention" near all.numbers heads.numbers
sed 's/}\]}$//' mean | numbers >mean.numbers
awk '{ x[NR] = $1 } END { n = NR / 4; for (i = 1; i <= n; i++) print (x[2 * n + i] + x[3 * n + i]) / 2 }' all.numbers \
    >mean.wanted
check "the mean is that of the last layer's heads" near mean.numbers mean.wanted
expect 0 "alignments beside all" '"alignment":\[.*"attention":\[\[\[\[' \
    "$trf" translate --model translator three --json --alignments --attention all
expect 0 "the value in one word" '"attention":\[\[\[\[' \
    "$trf" translate --model translator three --json --attention=all
expect 0 "a file behind the option alone" '"attention":\[\[0' \
    "$trf" translate --model translator --json --attention three
expect 2 "neither" "takes mean|all, or nothing, got 'some'" \
    "$trf" translate --model translator three --json --attention=some
expect 2 "attention without --json" "need --json" \
    "$trf" translate --model translator three --attention all
expect 2 "attention of a language model" "need source tokens" \
    "$trf" translate --model speaker three --json --attention all

echo 'a good film' >film
"$trf" attention classifier --source 'a good film' --layer all --json 2>/dev/null | tr '{' '\n' |
    sed -n 's/.*"attention":\(\[\[.*\]\]\)}.*/\1/p' | tr -d '[]' | tr , '\n' >heads.numbers
printf 'bad song\n\na good film\n' >films
"$trf" classify --model classifier films --json --attention all >all 2>/dev/null
check "an object a line" lines_are 3 all
check "an empty line has none" \
    eval 'sed -n 2p all | grep -q "\"labels\":\[\],\"tokens\":\[\],\"attention\":\[\]}"'
check "its tokens" \
    eval 'sed -n 3p all | grep -q "\"tokens\":\[\"a\",\"good\",\"film\"\],\"attention\":\[\[\[\["'
sed -n '3{s/}$//;p;}' all | numbers >all.numbers
check "classify is trf attention" near all.numbers heads.numbers
"$trf" classify --model classifier films --json >plain 2>/dev/null
check "labels stay the same" eval 'sed "s/,\"tokens\":.*/}/" all | cmp -s - plain'
expect 0 "the mean" '"attention":\[\[0' "$trf" classify --model classifier film --json --attention
expect 0 "of words" '"words":.*"tokens":\["a","good","film"\],"attention":\[\[\[\[' \
    "$trf" tag --model tagger film --json --attention all
expect 2 "labels without --json" "--attention needs --json" \
    "$trf" classify --model classifier film --attention
expect 2 "parts of a line" "--split labels a line in parts" \
    "$trf" tag --model tagger film --json --attention --split

# --- text and pictures ----------------------------------------------------------------------------
expect 0 "maps in the terminal" "^layer 1, head 1$" "$trf" attention translator --source '3 1 4'
check "with a table" grep -q "^layer  head  entropy  of the largest  strongest link$" out
check "tokens are counted" grep -q "^columns: the source, 4 tokens: 3 1 4 </s>$" out
expect 0 "SVG" "^    1     0  " \
    "$trf" attention translator --source '3 1 4' --target 'four one' --output heads.svg
check "the table alone" eval '! grep -q "^layer 1, head" out'
check "begins as SVG" grep -q '^<svg ' heads.svg
check "a value on each square" \
    test "$(grep -c '<title>target .*, source .*: [0-9]' heads.svg)" -eq 24
check "both heads" \
    eval 'grep -q ">layer 1, head 0<" heads.svg && grep -q ">layer 1, head 1<" heads.svg'
cp heads.svg before.svg
expect 1 "a picture that is there" "exists: --overwrite replaces it" \
    "$real" attention translator --source '3 1 4' --output heads.svg
check "stays" same heads.svg before.svg
expect 1 "the model as output" "is the file that --model reads" \
    sh -c "cp translator t.svg; '$trf' attention t.svg --source '3 1 4' --output t.svg"
check "stays a model" same translator t.svg
expect 1 "no such folder" "cannot write 'no/such/a.svg'" \
    "$trf" attention translator --source '3 1 4' --output no/such/a.svg
expect 2 "no picture" "takes an .svg, .png or .pdf, got 'a.txt'" \
    "$trf" attention translator --source '3 1 4' --output a.txt
expect 2 "standard output is none" "takes an .svg, .png or .pdf, got '-'" \
    "$trf" attention translator --source '3 1 4' --output -
mkdir -p nothing
expect 1 "without gnuplot" "gnuplot, which draws .png, is not installed" env PATH="$here/nothing" \
    "$real" attention translator --source '3 1 4' --output no.png
check "no file is left" test ! -e no.png
expect 0 "SVG needs none" "" env PATH="$here/nothing" \
    "$real" attention translator --source '3 1 4' --output yes.svg
if command -v gnuplot >/dev/null; then
    expect 0 "PNG" "" "$trf" attention translator --source '3 1 4' --layer all --output heads.png
    check "is one" eval '[ "$(head -c 4 heads.png | tail -c 3)" = PNG ]'
    check "gnuplot says nothing" test ! -s err
    expect 0 "PDF" "" "$trf" attention translator --source '3 1 4' --output heads.pdf
    check "is one too" eval '[ "$(head -c 4 heads.pdf)" = %PDF ]'
fi
if [ -w /dev/full ]; then expect 1 "a full disk" "cannot write standard output" sh -c "'$trf' attention translator --source '3 1 4' --json >/dev/full"; fi

# --- hostile tokens -------------------------------------------------------------------------------
printf 'a "<script>alert(1)</script>\tone\n&amp; \047x\047 \\\\ ]]>\ttwo\n\001\033[31m \302\233m e\314\201\tthree\n\360\237\231\202 $(id) `id` %%s\tfour\n' >hostile.lines
for i in 1 2 3 4 5 6 7 8 9 10; do cat hostile.lines; done >hostile.tsv
quietly --tsv hostile.tsv $small --encoder-layers 1 --decoder-layers 1 --tokens words --updates 4 --model hostile
cut -f1 hostile.lines >hostile.sources
n=0
while IFS= read -r line; do
    n=$((n + 1))
    expect 0 "hostile line $n" "" "$trf" attention hostile --source "$line" --output hostile$n.svg
    check "no tag of its own" \
        eval '! grep -q "<script\|&amp;amp;amp" hostile$n.svg && grep -q "</svg>" hostile$n.svg'
    check "nothing that drives a terminal" \
        eval '! LC_ALL=C grep -q "$(printf "[\001\033]")" out hostile$n.svg'
    expect 0 "in the terminal" "" "$trf" attention hostile --source "$line"
    check "and nothing there ($n)" eval '! LC_ALL=C grep -q "$(printf "[\001\033]")" out'
    "$trf" attention hostile --source "$line" --json >hostile.json 2>/dev/null
    if command -v python3 >/dev/null; then
        check "JSON and XML ($n)" python3 -c 'import json, sys, xml.dom.minidom
seen = json.load(open("hostile.json"))
assert len(seen["columns"]) == 1 + len(open("hostile.sources", encoding="utf-8", newline="\n").read().split("\n")[int(sys.argv[1]) - 1].split(" "))
xml.dom.minidom.parse("hostile%s.svg" % sys.argv[1])' $n
    fi
    ! command -v gnuplot >/dev/null || { expect 0 "gnuplot ($n)" "" "$trf" attention hostile --source "$line" \
        --output hostile.png; check "draws it" test ! -s err; }
done <hostile.sources
mkdir pretends
printf '#!/bin/sh\ncat >%s/script\n' "$here" >pretends/gnuplot
chmod +x pretends/gnuplot
expect 0 "a gnuplot that writes down what it gets" "" env PATH="$here/pretends:$PATH" \
    "$real" attention hostile --source "%s 'x' $(sed -n 4p hostile.sources)" --kind encoder \
    --output no.pdf
check "labels are texts, and none begins with a quote" \
    eval 'grep -q "^set label .%s. at screen [0-9.]*,[0-9.]* right\$" script &&
    ! grep -q "\x27\x27" script && ! grep -q "$(printf "\360\237")" script'
expect 1 "broken UTF-8" "^trf attention: --source: expected UTF-8, got the byte 0xE9 at offset 3" \
    "$trf" attention translator --source "$(printf 'nin\351')"
expect 1 "in the target" "^trf attention: --target: expected UTF-8" \
    "$trf" attention translator --source 3 --target "$(printf '\377')"
long=$(awk 'BEGIN { for (i = 0; i < 500; i++) printf "%d ", i * 7 % 10 }')
expect 0 "500 tokens" "" \
    "$trf" attention translator --source "$long" --kind encoder --output long.svg
check "are an image" grep -q '<image ' long.svg
check "of moderate size" test "$(wc -c <long.svg)" -lt 8000000
! command -v gnuplot >/dev/null || { expect 0 "as PNG" "" "$trf" attention translator --source "$long" --kind encoder \
    --head 0 --output long.png
    check "of a thousand pixels" test "$(wc -c <long.png)" -gt 50000; }
expect 0 "500 tokens in the terminal" "501 tokens" \
    "$trf" attention translator --source "$long" --kind encoder --head 0
check "as means" grep -q "^Each cell is the mean of" out
expect 1 "600 tokens" "--source: 600 tokens, at most 511" \
    "$trf" attention translator --source "$long $(echo "$long" | cut -c 1-200)"
expect 0 "unknown words" "1 of 2 tokens of --source is unknown to the model" \
    "$trf" attention translator --source '3 eleven' --target one

# --- what is refused ------------------------------------------------------------------------------
expect 2 "no model" "give a model" "$trf" attention --source 3
expect 2 "no source" "give --source TEXT" "$trf" attention translator
expect 2 "a text without quotation marks" "quotation marks" \
    "$trf" attention translator --source 3 1 4
expect 2 "two models" "one model" "$trf" attention translator --model translator --source 3
expect 0 "a model by its option" "" "$trf" attention --model translator --source 3
expect 1 "an empty source" "--source has no token" "$trf" attention translator --source ''
expect 1 "blanks alone" "--source has no token" "$trf" attention speaker --source '  '
expect 1 "no such file" "no such model\|nowhere" "$trf" attention nowhere --source 3
expect 1 "no model file" "safetensors" "$trf" attention train.tsv --source 3
for wrong in 2 -1 1x '' mean 99999999999999999999; do
    expect 2 "--layer '$wrong'" "--layer takes a number from 0 to 1 or all, got '$wrong'" \
        "$trf" attention translator --source 3 --layer "$wrong"
done
for wrong in 2 -1 1x '' All 99999999999999999999; do
    expect 2 "--head '$wrong'" "--head takes a number from 0 to 1, all or mean, got '$wrong'" \
        "$trf" attention translator --source 3 --head "$wrong"
done
expect 2 "cross of a language model" "--kind cross needs an encoder and a decoder; 'speaker' has only a decoder" \
    "$trf" attention speaker --source a --kind cross
expect 2 "encoder of a language model" "--kind encoder needs an encoder" \
    "$trf" attention speaker --source a --kind encoder
expect 2 "decoder of a classifier" "--kind decoder needs a decoder; 'classifier' has only an encoder" \
    "$trf" attention classifier --source a --kind decoder
expect 2 "a target of a language model" "reads only one text, --source" \
    "$trf" attention speaker --source a --target b
expect 2 "a target of the encoder" "the encoder does not read it" \
    "$trf" attention translator --source 3 --target one --kind encoder
expect 2 "another kind" "--kind takes auto|cross|encoder|decoder" \
    "$trf" attention translator --source 3 --kind self

# --- inspect without a file -----------------------------------------------------------------------
weights() { "$trf" inspect "$@" --json | sed 's/.*"weights":\([0-9]*\),"parts".*/\1/'; }
check "the paper's base model" test "$(weights --shape paper-base)" -eq 63082496
check "the same by options" test "$(weights --recipe paper --vocab-size 37000)" -eq 63082496
check "GPT-2, exactly" test "$(weights --shape gpt2)" -eq 124439808
for shape in gpt2 gpt2-medium gpt2-large gpt2-xl t5-small t5-base t5-large llama-2-7b; do
    expect 0 "$shape" "the count here is the published one" "$trf" inspect --shape $shape
done
for shape in bert-base bert-large opus-mt; do
    expect 0 "$shape" "with these differences the count here is the published one" \
        "$trf" inspect --shape $shape
done
for shape in paper-base paper-big; do
    expect 0 "$shape" "is not explained: the paper rounds" "$trf" inspect --shape $shape
done
expect 0 "a changed shape" "comes from other options" "$trf" inspect --shape gpt2 --vocab-size 50000
check "other options win" grep -q "^weights: 124242432$" out
expect 2 "another objective" "--shape gpt2 sets what the model learns" \
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
    check "$model: options say what the file says" \
        eval '[ -s file.parts ] && same file.parts options.parts'
done
total=$("$trf" inspect --size base --json | sed 's/,"bytes".*//; s/.*"parts":{\([^}]*\)}.*/\1/' | tr ',' '\n' |
    sed 's/.*://' | awk '{ n += $1 } END { printf "%d", n }')
check "parts sum to the whole" test "$total" = "$(weights --size base)"
flops=$("$trf" inspect --size base --json --source-length 9 --target-length 7 | sed 's/.*"flops":{\(.*\)}}.*/\1/')
check "FLOPs sum to the whole" \
    eval 'echo "$flops" | sed "s/.*\"total\":\([0-9.e+]*\),\"parts\":{/\1,/; s/\"[^\"]*\"://g" | tr "," "\n" |
    awk "NR == 1 { all = \$1; next } { n += \$1 } END { exit !(NR > 5 && (n - all) ^ 2 < 1e-6 * all) }"'
# As trf train says it.
"$trf" train --tsv train.tsv $narrow $layers --batch-tokens 4096 --threads 1 --valid-size 0 --updates 0 \
    --model planned 2>told >/dev/null
"$trf" inspect $narrow $layers --source-vocab-size 14 --target-vocab-size 14 --batch-tokens 4096 \
    --threads 1 --source-length 5 --target-length 5 --json >out
check "memory of training" test "$(sed -n 's/.* weights; \([0-9]*\) MB of memory.*/\1/p' told)" -eq \
    "$(sed 's/.*"training":\([0-9]*\),.*/\1/' out | awk '{ printf "%.0f", $1 / 1e6 }')"
# A file in 8 bits: what it takes is told of the file that it was made from, and what stays floats is counted.
"$trf" quantize translator --weights int8 --output small8 --overwrite
bytes() { "$trf" inspect $2 --json --threads 1 | sed 's/.*"bytes":{\([^}]*\)}.*/\1/' | tr ',' '\n' |
    sed -n "s/^\"$1\"://p"; }
for what in model translating; do
    check "$what: an 8-bit file says what its source says of 8 bits" \
        test "$(bytes $what small8)" = "$(bytes ${what}_in_8_bits translator)"
done
check "an 8-bit model is not trained" test -z "$(bytes training small8)$(bytes file small8)$(bytes checkpoint small8)"
expect 0 "as text" "^  model  *[0-9.]* kB  its matrices in 8 bits" "$trf" inspect small8
wide="--d-model 64 --n-heads 2 --d-ff 64 --encoder-layers 1 --decoder-layers 1 --vocab-size 16 --positions learned"
for what in model translating; do
    check "$what in 8 and 16 bits: less than in 32" test "$(bytes ${what}_in_8_bits "--size base")" \
        -lt "$(bytes ${what}_in_16_bits "--size base")" \
        -a "$(bytes ${what}_in_16_bits "--size base")" -lt "$(bytes $what "--size base")"
done
check "learned positions stay floats" test $(($(bytes model_in_8_bits "$wide --max-length 2064") - $(bytes model_in_8_bits "$wide --max-length 1040"))) -eq $((2 * 1024 * 64 * 4))
check "and in 16 bits" test $(($(bytes model_in_16_bits "$wide --max-length 2064") - $(bytes model_in_16_bits "$wide --max-length 1040"))) -eq $((2 * 1024 * 64 * 4))
# By hand: 10 source and 8 target rows of d 512, d_ff 2048, 6 layers.
check "feed-forward of the encoder" \
    eval 'echo "$flops" | grep -q "\"encoder feed-forward\":251658240[,}]"'
check "causal attention" eval 'echo "$flops" | grep -q "\"decoder attention\":442368[,}]"'
expect 0 "it costs no memory" "^weights: [0-9]\{11,\}$" \
    sh -c "ulimit -v 300000; '$trf' inspect --d-model 65536 --n-heads 1024 --d-ff 1048576 --encoder-layers 256 --decoder-layers 256 --vocab-size 1000000"
expect 0 "trace" "q k^T / sqrt(64), softmax, causal  *(8, 8, 8)" \
    "$trf" inspect --size base --trace --source-length 9 --target-length 7
check "of both sides" grep -q "q k^T / sqrt(64), softmax  *(8, 8, 10)" out
check "ends with probabilities" grep -q "softmax: probabilities .*(8, 32000)" out
expect 0 "of a file" "self_attn.in_proj_weight (48, 16)" \
    "$trf" inspect translator --trace --source-length 3
expect 0 "as JSON" '"trace":\[{"stack":"encoder","layers":1,"step":"ids","shape":\[10\]}' \
    "$trf" inspect --size base --trace --source-length 9 --json
# Each matrix that a trace names is in the file, with its shape.
for model in translator classifier tagger speaker masker; do
    "$trf" inspect $model --trace --json | sed 's/.*"trace"://' | tr '{' '\n' |
        sed -n 's/.*"weights":"\([a-z_A-Z0-9.]*\) \(([0-9, ]*)\).*/\1  F32  \2/p' | sort -u >traced
    "$trf" inspect $model >file
    check "$model: matrices of a trace" test "$(wc -l <traced)" -ge 8
    while read -r line; do
        check "$model has $line" grep -q "^  \(\(en\|de\)coder\.layers\.1\.\)\{0,1\}$line  " file
    done <traced
done
if command -v python3 >/dev/null; then
    for arguments in "translator --trace" "classifier --trace" "masker --trace" "--shape bert-base --trace" "--shape t5-small" "--objective tag --labels 7"; do
        check "inspect $arguments is JSON" \
            sh -c "'$trf' inspect $arguments --json | python3 -c 'import json, sys; json.load(sys.stdin)'"
    done
fi
expect 2 "a file and options" "the file 'translator' describes its model: --d-model does not work with a file" \
    "$trf" inspect translator --d-model 8
expect 2 "neither" "give one file, or options" "$trf" inspect
expect 0 "trace alone is that of the base model" "(33, 2048)" "$trf" inspect --trace
expect 2 "too wide a beam" "--beam must be between 1 and 1024, got 5000" "$trf" inspect --size tiny --beam 5000
expect 2 "of a file too" "--beam must be between 1 and 1024, got 5000" "$trf" inspect translator --beam 5000
printf '\70\0\0\0\0\0\0\0{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}   ' >other
expect 0 "a file of another program" "^total: 1 tensors, 0 numbers" "$trf" inspect other
expect 1 "has no trace" "--trace: 'other' is not a model of transformer.h" "$trf" inspect other --trace
expect 2 "batches too large" "--batch-tokens must be between 1 and 16777216" \
    "$trf" inspect --size tiny --batch-tokens 2000000000
expect 2 "heads that do not divide" "n-heads must divide" "$trf" inspect --d-model 10 --n-heads 3
expect 2 "a layer too many" "--encoder-layers must be between 1 and 256, got 300" \
    "$trf" inspect --encoder-layers 300
expect 2 "two vocabularies and one matrix" "needs vocabularies of the same size" \
    "$trf" inspect --tying all --source-vocab-size 100 --target-vocab-size 200
expect 2 "a vocabulary too small" "--vocab-size must be between 5 and 16777216, got 3" \
    "$trf" inspect --vocab-size 3
expect 2 "a vocabulary too large" "--target-vocab-size must be between 5 and 16777216, got 2147483647" \
    "$trf" inspect --target-vocab-size 2147483647
expect 2 "one label" "--labels must be between 2 and 16777216, got 1" \
    "$trf" inspect --objective tag --labels 1
expect 2 "longer than the model" "--source-length must be between 1 and 511 for this model, got 512" \
    "$trf" inspect --size tiny --source-length 512
expect 2 "a source of a language model" "--source-length: this model has no source" \
    "$trf" inspect --shape gpt2 --source-length 5
expect 2 "labels of a translator" "--labels is for --objective classify, tag and pretrain" \
    "$trf" inspect --size tiny --labels 3
expect 2 "pooling of a tagger" "--pooling is for --objective classify" \
    "$trf" inspect --objective tag --pooling first
expect 2 "an unknown shape" "--shape takes none|paper-base" "$trf" inspect --shape gpt5

finish

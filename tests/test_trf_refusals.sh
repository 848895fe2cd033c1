#!/bin/sh
# What trf refuses, and in which words: sh tests/test_trf_refusals.sh build/trf
#
# A refusal names the option, not a field of the library; it comes before any file is read; what a file lacks is named.

. "$(dirname "$0")/trf.sh"

# --- every option with the values that it cannot have ----------------------------------------------------------------
# refuses COMMAND OPTION VALUE MESSAGE [OPTIONS]: one line that names the option, exit 2, and no file is opened: there
# is none of these names
refuses()
{
    case $1 in
    train) files="--tsv no-such --model no" ;;
    text) files="--text no-such --model no" ;;
    *) files="--model no-such" ;;
    esac
    begin=$(echo "$1" | sed s/text/train/)
    expect 2 "$begin${5:+ $5} --$2 '$3' is refused" "^trf [a-z]*: --$2 $4" "$trf" $begin $files $5 "--$2" "$3"
    check "$begin${5:+ $5} --$2 '$3' is refused in one line" test "$(wc -l <err)" -eq 1
    check "$begin${5:+ $5} --$2 '$3' is refused without a name of C" \
        eval '! grep -q "[a-z]_[a-z]\|TRF_\|TRF__" err'
}
while IFS='|' read -r command option value message more; do
    refuses "$command" "$option" "$value" "$message" "$more"
done <<'END'
train|device|cuda|cuda: this trf was built for the CPU alone|
translate|device|cuda:3|cuda:3: this trf was built for the CPU alone|
train|device|gpu|takes cpu|
train|precision|f16|takes float32|
train|threads|5000|must be between 1 and 4096, got 5000$|
generate|threads|2147483647|must be between 1 and 4096, got 2147483647$|
train|threads|0|takes a whole number from 1|
train|batch-tokens|2147483647|takes 1 to 16777216, got 2147483647$|
train|batch-tokens|0|takes a whole number from 1|
train|batch-sentences|-1|takes a whole number from 1|
train|d-model|0|takes a whole number from 1|
train|d-model|2147483647|must be between 1 and 65536, got 2147483647$|
train|n-heads|0|takes a whole number from 1|
train|n-heads|2147483647|must divide --d-model, which is at most 65536|
train|n-heads|3|must divide --d-model = 8, got 3$|--d-model 8
train|d-ff|0|takes a whole number from 1|
train|encoder-layers|257|must be between 1 and 256, got 257$|
train|decoder-layers|0|must be between 1 and 256, got 0$|
train|max-length|1|must be between 2 and 1048576, got 1$|
train|position-offset|1048577|must be between 0 and 1048576, got 1048577$|
train|norm-epsilon|0|must be between 1e-30 and 1, got 0$|
train|norm-epsilon|nan|takes a number, got 'nan'|
train|learning-rate|inf|takes a number, got 'inf'|
train|learning-rate|-1|must be between 1e-30 and 1000000, got -1$|
train|learning-rate||takes a number, got ''|
train|warmup|1e3|takes a whole number from 0 on, got '1e3'|
train|warmup|99999999999999999999|takes a whole number|
train|beta1|1|must be 0 or more and below 1, got 1$|
train|beta2|-0.1|must be 0 or more and below 1, got -0.1$|
train|label-smoothing|1|must be 0 or more and below 1|
train|dropout|1|must be 0 or more and below 1, got 1$|
train|embedding-dropout|1|must be 0 or more and below 1|
train|residual-dropout|-1|must be 0 or more and below 1|
train|weight-decay|-1|must be between 0 and|
train|consistency|-1|must be between 0 and 1000000, got -1$|
train|clip-norm|0|must be between|
train|epsilon|-1|must be between|
train|initial-rate|-1|must be between 0 and|
train|ema|1|takes the fraction that an update adds, from 0 to 0.5, got 1 |
train|minutes|0|takes a time above 0, got 0$|
train|subword-alpha|1.5|takes a number from 0 to 1, got 1.5$|--subword-samples 2
train|valid-beam|1025|must be between 1 and 1024, got 1025$|
train|vocab-size|4|must be 5 or more, four special tokens included, got 4$|
train|columns|2,2|takes the numbers of two columns|
train|updates|-1|takes a whole number from 0|
train|epochs|0|takes a whole number from 1|
train|seed|-1|takes a whole number from 0 to 2^64 - 1, got '-1'|
train|shuffle|maybe|takes no|
train|schedule|cosin|takes noam|
train|metric|accuracy|accuracy does not work with this --objective|
text|chunk|1|takes 2 to 511 tokens|--objective causal
text|chunk|512|takes 2 to 511 tokens (--max-length minus 1), got 512$|--objective causal
text|chunk|9|takes 2 to 8 tokens|--objective causal --max-length 9
text|max-length|2|must be 3 or more for a text, got 2|--objective mask
text|noise-density|1.5|must be between 0 and 1, got 1.5$|--objective mask
text|noise-density|-1|must be|--objective mask
text|masked-share|-1|must be between 0 and 1, got -1$|--objective mask
text|masked-share|1|and --random-share must have a sum of at most 1|--objective mask
text|random-share|-1|must be between 0 and 1, got -1$|--objective mask
text|mean-span|0|must be between 1 and|--objective span
text|mean-span|nan|takes a number|--objective span
score|columns|1,x|takes the numbers of two columns, as in 1,2; got|--tsv no-such
translate|n-best|2000|takes 1 to 1024, got 2000$|
translate|n-best|5|5 needs a --beam of 5 or more, got 2$|--beam 2
translate|stop-rule|none|takes bound|
translate|max-length-a|x|takes a number|
generate|top-k|-1|takes a whole number from 0|
generate|count|0|takes a whole number from 1|
classify|buffer|0|takes a whole number from 1|
END
"$trf" train --tsv train.tsv $small --updates 2 --valid-size 0 --model m >/dev/null 2>&1
while IFS='|' read -r option value message; do
    expect 2 "translate --$option $value is refused" "^trf translate: --$option $message" \
        "$trf" translate test.digits --model m --$option $value
done <<'END'
beam|2147483647|must be between 1 and 1024, got 2147483647$
candidates|17|must be between 1 and 16, got 17$
alpha|-1|must be between 0 and 10, got -1$
word-penalty|1e30|must be between -1000000 and 1000000, got 1e+30$
END
expect 2 "translate --model '' is refused" "^trf translate: give --model FILE" "$trf" translate --model '' test.digits

# --- what a model lacks is named -------------------------------------------------------------------------------------
# without NAME FROM TO: a copy of a file without this text, and without this tensor if there is one
cat >without.py <<'END'
import json, struct, sys, zlib
name, path, to = sys.argv[1:]
raw = open(path, "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
header, data, out = json.loads(raw[8:8 + n]), raw[8 + n:], b""
header["__metadata__"].pop(name, None)
header["__metadata__"].pop("trf.header_crc32", None)
header.pop(name, None)
for key in sorted((k for k in header if k != "__metadata__"), key=lambda k: header[k]["data_offsets"][0]):
    begin, end = header[key]["data_offsets"]
    header[key]["data_offsets"] = [len(out), len(out) + end - begin]
    out += data[begin:end]
if "trf.crc32" in header["__metadata__"]: header["__metadata__"]["trf.crc32"] = "%08x" % zlib.crc32(out)
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
open(to, "wb").write(struct.pack("<Q", len(text)) + text + out)
END
without() { python3 without.py "$@"; }
if command -v python3 >/dev/null; then
without trf.source_vocab m no-source
expect 1 "translate refuses a model without its source vocabulary" \
    "no-source: it has no source vocabulary, so it knows ids, but no text: trf train stores vocabularies "\
".* trf_model_set_vocabs" "$trf" translate --model no-source test.digits
expect 1 "attention refuses a model without its source vocabulary" "no-source: it has no source vocabulary" \
    "$trf" attention no-source --source-text 3
without trf.target_vocab m no-target
for command in translate "score --tsv test.tsv" generate; do
    expect 1 "$command refuses a model without its target vocabulary" "no-target: it has no target vocabulary" \
        "$trf" $command --model no-target
done
without trf.target_vocab no-source neither
expect 1 "translate refuses a model without vocabularies" "neither: it has no source and no target vocabulary" \
    "$trf" translate --model neither test.digits
expect 0 "inspect tells that a model has no source vocabulary" "^source vocabulary: none in the file$" \
    "$trf" inspect no-source
"$trf" train --tsv train.tsv $small --updates 2 --model logged --log logged.json >/dev/null 2>&1
expect 1 "report --data refuses a model without its source vocabulary" "no-source: it has no source vocabulary" \
    "$trf" report logged.json --model no-source --data test.tsv --output page.html
check "report that refuses a model writes no page" test ! -e page.html
expect 0 "report without --data takes a model without vocabularies" "" \
    "$trf" report logged.json --model neither --output page.html
check "report without --data tells that the model has no vocabularies" \
    test "$(grep -c '<p>The file has no vocabulary.</p>' page.html)" -eq 2
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" (n > 2 ? "long" : "short") }' train.tsv >long.tsv
tagged()
{
    awk -F '\t' '{
        gsub(/[0-9]/, "d", $2); n = split($1, d, " "); s = ""
        for (i = 1; i <= n; i++) s = s (i > 1 ? " " : "") (d[i] > 4 ? "high" : "low")
        print $1 "\t" s
    }' train.tsv
}
tagged >tags.tsv
tiny="--d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --batch-tokens 256 --warmup 2 --threads 1 \
    --updates 2 --valid-size 0"
for kind in classify tag; do
    "$trf" train --objective $kind --tsv $(test $kind = tag && echo tags || echo long).tsv $tiny \
        --model $kind.m >/dev/null 2>&1
    without labels $kind.m $kind.no
    expect 1 "$kind refuses a model without labels" \
        "$kind.no: the metadata entry 'labels' is missing; it has the texts of the model's 2 labels, one per line: "\
".*trf_model_set_metadata(model, \"labels\"" "$trf" $kind --model $kind.no test.digits
    expect 1 "report --data refuses a model of $kind without labels" \
        "$kind.no: the metadata entry 'labels' is missing" \
        "$trf" report logged.json --model $kind.no --data test.tsv --output page-$kind.html
    without trf.source_vocab $kind.m $kind.no
    expect 1 "$kind refuses a model without its vocabulary" "$kind.no: it has no source vocabulary" \
        "$trf" $kind --model $kind.no test.digits
done
without labels classify.m classify.no
expect 0 "inspect tells that a model has no texts of labels" \
    "^2 labels; the file has no texts of labels (the metadata entry 'labels')$" "$trf" inspect classify.no
without trf.train.beta1 m.checkpoint half.checkpoint
expect 1 "train --resume refuses a checkpoint without beta1" "half.checkpoint: the metadata lack trf.train.beta1" \
    "$trf" train --tsv train.tsv $small --valid-size 0 --model half --resume --updates 4
without trf.source_vocab m.checkpoint blind.checkpoint
expect 1 "train --resume refuses a checkpoint without its source vocabulary" \
    "blind.checkpoint: it has no source vocabulary" \
    "$trf" train --tsv train.tsv $small --valid-size 0 --model blind --resume --updates 4
fi

# --- one of a thing --------------------------------------------------------------------------------------------------
expect 0 "train tells of 1 update, not of 1 updates" "^done: 1 update, [0-9]* tokens in " \
    "$trf" train --tsv train.tsv $small --updates 1 --valid-size 0 --model single
check "train tells of 1 layer and writes no plural behind any 1" \
    eval 'grep -q "^model: 1 encoder and 1 decoder layer, " err && ! grep -q "[^0-9.]1 [a-z]*s[ ,;:.]" err'
expect 0 "inspect tells of 1 update in a checkpoint" "^training: 1 update so far$" "$trf" inspect single.checkpoint
echo 'one two' >one
expect 0 "eval tells of 1 line" "^exact.* (1 of 1 line)$" "$trf" eval one one
check "eval writes the error rates of 1 line" grep -q "^WER.* (0 errors, 2 words)$" out
echo three | cat one - >two
expect 1 "eval refuses a file of 1 line beside one of 2" "one has 1 line, but two has 2: line n" "$trf" eval two one

# --- lists with blanks -----------------------------------------------------------------------------------------------
"$trf" eval test.names test.names --metrics "wer,chrf" >wanted
expect 0 "eval takes --metrics with blanks" "^WER" "$trf" eval test.names test.names --metrics " wer , chrf "
check "blanks in --metrics change nothing" same out wanted
expect 0 "eval ranks the worst lines by the first of --metrics with blanks" "^worst lines by WER$" \
    "$trf" eval test.names test.digits --metrics " wer, cer" --worst 1
expect 2 "eval refuses --metrics with an empty place" "--metrics takes some of .*, got ''" \
    "$trf" eval one one --metrics "wer,"
awk -F '\t' '{ print "x\t" $1 "\t" $2 }' test.tsv >three.tsv
expect 0 "score takes --columns with blanks" "^40 pairs" "$trf" score --model m --tsv three.tsv --columns " 2 , 3 "

# --- unknown tokens of a SentencePiece model; a piece that is one NUL ------------------------------------------------
piece() { printf '\012'"$(printf '\\%03o' $((${#1} + 9)))"'\012'"$(printf '\\%03o' ${#1})"'%s\025\0\0\0\0\030'"$2" \
    "$1"; }
pieces() { piece '<unk>' '\002'; printf '\012\014\012\003\342\226\201\025\0\0\0\0\030\001'; piece a '\001'; piece b \
    '\001'; }
{ pieces; printf '\022\002\030\001\032\006\030\001\040\001\050\001'; } >ab.model
i=0
while [ $i -lt 20 ]; do printf 'ab\tba\n'; i=$((i + 1)); done >ab.tsv
expect 0 "train takes a SentencePiece model of two letters" "^done" \
    "$trf" train --tsv ab.tsv --sentencepiece ab.model $small --updates 2 --valid-size 0 --model pieces
printf 'ab\naZb\nb Q\n' >asked
expect 0 "translate counts unknown subwords" \
    "^trf translate: 2 of [0-9]* tokens of the input are unknown to the model, the first one in line 2$" \
    "$trf" translate asked --model pieces
expect 0 "translate --unknown report names unknown subwords" "asked:3: unknown to the model: 'Q'" \
    "$trf" translate asked --model pieces --unknown report
expect 0 "translate --json lists words with unknown subwords" '"unknown_words":\["aZb"\]' \
    "$trf" translate asked --model pieces --json
paste asked asked >asked.tsv
expect 0 "score counts the unknown subwords of targets" "^trf score: 2 of [0-9]* tokens of the targets are unknown" \
    "$trf" score asked.tsv --model pieces
{
    pieces
    i=0
    while [ $i -lt 256 ]; do piece "$(printf '<0x%02X>' $i)" '\006'; i=$((i + 1)); done
    printf '\012\012\012\001\000\025\0\0\0\0\030\001'
    printf '\022\005\030\001\230\002\001\032\006\030\001\040\001\050\001'
} >nul.model
expect 0 "train takes a SentencePiece model with a piece that is one NUL" "^done" \
    "$trf" train --tsv ab.tsv --sentencepiece nul.model $small --updates 2 --valid-size 0 --model nul
expect 0 "inspect --json shows a piece that is one NUL" '"<0xFF>","\\u0000"\]}' "$trf" inspect --json nul

# --- scores of what is too long, and of bad lines --------------------------------------------------------------------
# few texts are cut, so that parts are read behind BOS alone
awk 'BEGIN { for (i = 0; i < 40; i++) print "a b c" (i < 2 ? " a b c a b c a b" : "") }' >letters
expect 0 "train makes a language model of seven tokens" "^done" "$trf" train --objective causal --text letters \
    --tokens words --max-length 8 --decoder-layers 1 --d-model 8 --n-heads 1 --d-ff 8 --updates 3 --warmup 1 \
    --threads 1 --model seven
printf 'a b c a b c a b\na b c a b c a\nb\n\n' >texts
expect 1 "score tells that a text is too long to be scored" "^trf score: texts:1: not scored: 8 tokens, at most 7$" \
    "$trf" score --model seven texts
check "a text that is too long has no score" test "$(head -n 1 out)" = "nan	0"
expect 0 "score --split scores a text that is too long in parts" \
    "^trf score: 2 of 4 texts had more than 7 tokens: scored in parts (--split)$" \
    "$trf" score --model seven texts --split
# its first part is the second text's, its second part the third text; the second part of the second text is the fourth
check "the score of a text that is too long is the sum of its parts" awk '{ s[NR] = $1; n[NR] = $2 }
    END { d = s[1] - s[3] - s[2] + s[4]; exit !(d < 1e-5 && d > -1e-5 && n[1] == 9 && n[2] == 8 && NR == 4) }' out
expect 2 "score refuses --split for pairs" "--split needs a language model" \
    "$trf" score --model m --tsv test.tsv --split
{ head -n 2 test.tsv; printf 'no tab\n'; printf '1\t\377\n'; printf '1\000\tone\n'; \
    awk 'BEGIN { for (i = 0; i < 600; i++) printf "1 "; print "\tone"; for (i = 0; i < 5; i++) print "none" }'; } \
    >bad.tsv
expect 1 "score tells of a pair without a tab" "^trf score: bad.tsv:3: not scored: no tab between source and target$" \
    "$trf" score --model m --tsv bad.tsv
for line in "4: not scored: expected UTF-8, got the byte 0xFF" "5: not scored: a NUL byte" \
    "6: not scored: 600 tokens, at most 511" "7: not scored: no tab .*; further ones are only counted"; do
    check "score tells what is wrong in line ${line%%:*}" grep -q "^trf score: bad.tsv:$line" err
done
check "score tells of five bad pairs and counts all nine" eval 'test "$(grep -c "not scored" err)" -eq 5 &&
    grep -q "^trf score: 9 of 11 pairs could not be scored$" err && lines_are 11 out'

# --- a checkpoint of before, whose labels have blanks around them ----------------------------------------------------
awk 'BEGIN { for (i = 0; i < 60; i++) print "good film\tpos\nbad film\tneg\ngood song\tposX\nbad song\tneg" }' \
    >marked.tsv
sed 's/posX/pos /' marked.tsv >blank.tsv
tiny="--d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --batch-tokens 64 --warmup 2 --threads 1 \
    --valid-size 0 --ema 0"
"$trf" train --objective classify --tsv marked.tsv $tiny --updates 8 --model whole >/dev/null 2>&1
expect 0 "train makes a classifier with three labels" "3 labels" \
    "$trf" train --objective classify --tsv marked.tsv $tiny --updates 4 --model before
LC_ALL=C sed -i 's/posX/pos /' before.checkpoint
expect 0 "train --resume knows labels with blanks around them" "resumed from update 5" \
    "$trf" train --objective classify --tsv blank.tsv $tiny --updates 8 --model before --resume
check "train --resume leaves out no line for blanks around labels" eval '! grep -q "left out" err'
"$trf" inspect whole | sed -n '/^tensors/,/^total/p' >wanted
"$trf" inspect before | sed -n '/^tensors/,/^total/p' >got
check "train --resume makes the same model whether labels have blanks around them or not" same got wanted

finish

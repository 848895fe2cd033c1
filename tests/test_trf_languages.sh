#!/bin/sh
# Fine-tuning models of many languages: sh tests/test_trf_languages.sh PATH_OF_TRF
#
# loss.txt has what transformers computes for lines.txt with reversed words as targets (tools/parity/make_languages.py).

. "$(dirname "$0")/trf.sh"
golden=$source/tests/golden/import
alone="--precision float32 --threads 1 --valid-size 0 --dropout 0 --label-smoothing 0"

# reversed: the words of each line from the last to the first
reversed() { awk '{ for (i = NF; i > 0; i--) printf("%s%s", $i, (i > 1) ? " " : "\n") }'; }
# loss_of LOG: the loss of the first update
loss_of() { sed -n 's/.*"update":1,.*"loss":\([0-9.]*\).*/\1/p' "$1" | head -n 1; }
# near A B TOLERANCE: two numbers that agree
near() { awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { exit !(a != "" && b != "" && a - b < t && b - a < t) }'; }

for kind in m2m_100 nllb mbart mbart50 nllb.legacy; do
    folder=${kind%.legacy}
    rm -rf from; cp -R "$golden/$folder" from
    [ $kind = $folder ] || sed -i 's/"legacy_behaviour": false/"legacy_behaviour": true/' from/tokenizer_config.json
    sed -i '/"src_lang"/d' from/tokenizer_config.json
    read -r from to <from/languages.txt
    read -r loss tokens <"$golden/$folder/loss${kind#"$folder"}.txt"
    cp from/lines.txt source; reversed <source >target
    expect 0 "$kind: import takes a folder without src_lang" "" "$trf" import from --output $kind.model
    pair="--source-language $from --target-language $to"
    expect 2 "$kind: train refuses to begin without --source-language" \
        "give --source-language, one of those that '$kind.model' knows" \
        "$trf" train --init-from $kind.model --source source --target target --updates 1 $alone --model no
    expect 0 "$kind: train makes one update for a pair of languages" "done: 1 update" \
        "$trf" train --init-from $kind.model --source source --target target $pair --updates 1 $alone --log-every 1 \
        --log $kind.log --model $kind.one
    check "$kind: the loss of the first update is that of transformers, $loss" near "$(loss_of $kind.log)" "$loss" 1e-4
    expect 0 "$kind: score counts $tokens target tokens" "$tokens target tokens" \
        "$trf" score --model $kind.model --source source --target target $pair
    check "$kind: the mean of the scores is the loss of transformers" \
        near "$(awk '{ a -= $1; n += $2 } END { print a / n }' out)" "$loss" 1e-4
    "$trf" translate --model $kind.one $pair source >want 2>err
    "$trf" translate --model $kind.one source >got 2>err
    check "$kind: a model that train makes remembers its languages" sh -c "test -s want && cmp got want"

    # a validation translates as trf translate does, and its best model is kept
    expect 0 "$kind: train validates by chrF" "done: 6 updates" "$trf" train --init-from $kind.model --source source \
        --target target $pair --threads 1 --precision float32 \
        --valid-source source --valid-target target --metric chrf --updates 6 --valid-every 3 --log $kind.valid \
        --model $kind.best
    best=$(sed -n 's/.*"event":"validation".*"score":\([0-9.]*\).*/\1/p' $kind.valid | sort -n | tail -n 1)
    "$trf" translate --model $kind.best --beam 1 source >answers 2>err
    "$trf" eval --metrics chrf target answers >out 2>err
    check "$kind: translate and eval give chrF $best of the best validation" near "$best" "$(sed 's/.*= //' out)" 0.006

    expect 0 "$kind: train validates by loss" "done: 6 updates" "$trf" train --init-from $kind.model --source source \
        --target target $pair \
        --threads 1 --valid-source source --valid-target target --metric loss --updates 6 --valid-every 6 --ema 0 \
        --model $kind.loss
    sed -n 's/.* -> \(.*\)  ([r].*/\1/p' err | sed 's/\.\.\.$//' >shown
    "$trf" translate --model $kind.loss --beam 1 source >answers 2>err
    check "$kind: the samples of a validation are answers of translate" \
        sh -c 'test -s shown && while read -r line; do grep -qF -e "$line" answers || exit 1; done <shown'

    # tokens that are prepared, and a training that goes on, give the same model
    steps="--init-from $kind.model --batch-sentences 2 --warmup 2 --learning-rate 0.01 $alone"
    expect 0 "$kind: train makes four updates" "" \
        "$trf" train $steps --source source --target target $pair --updates 4 --model $kind.four
    expect 0 "$kind: train makes two updates" "" \
        "$trf" train $steps --source source --target target $pair --updates 2 --model $kind.two
    expect 0 "$kind: train --resume makes two more updates" "" \
        "$trf" train $steps --source source --target target --updates 4 --resume --model $kind.two
    check "$kind: two updates and two more make the model of four" same $kind.four $kind.two
    expect 0 "$kind: prepare makes tokens of a pair of languages" "" \
        "$trf" prepare --model $kind.model --source source --target target $pair --output $kind.tokens
    expect 0 "$kind: train takes prepared tokens" "" "$trf" train $steps --token-file $kind.tokens $pair --updates 4 \
        --model $kind.prepared
    check "$kind: prepared tokens make the same model as texts" same $kind.four $kind.prepared
done

# --- what goes wrong -------------------------------------------------------------------------------------------------
begin="--source source --target target --updates 1 $alone --model no"
expect 2 "train refuses an unknown --target-language" "target-language xx: 'm2m_100.model' knows af am" \
    "$trf" train --init-from m2m_100.model $begin --source-language en --target-language xx
expect 2 "train refuses --source-language without --target-language" "give --target-language" "$trf" train \
    --init-from m2m_100.model $begin --source-language en
expect 2 "train refuses --source-language without --init-from" "language is for --init-from" "$trf" train \
    --tsv train.tsv --updates 1 --model no --source-language en
expect 2 "train refuses mBART-25 with a --target-language that does not begin its targets" \
    "can begin the targets of 'mbart.model' with de_DE: give another --target-language, or set" \
    "$trf" train --init-from mbart.model $begin --source-language en_XX --target-language de_DE
expect 2 "score refuses mBART-25 with a --target-language that does not begin its targets" \
    "can begin the targets of 'mbart.model' with de_DE" \
    "$trf" score --model mbart.model --source source --target target --source-language en_XX --target-language de_DE
expect 2 "train refuses languages for --objective causal" "are for models that translate" \
    "$trf" train --objective causal --text source --init-from m2m_100.model --updates 1 --model no \
    --source-language en --target-language fr
expect 1 "train --resume refuses another --target-language than before" \
    "was made for the language fr, now --target-language is de" "$trf" train --init-from m2m_100.model --source source \
    --target target --updates 9 $alone --resume --model m2m_100.two --source-language en --target-language de
expect 2 "prepare refuses M2M-100 without --source-language" "give --source-language" "$trf" prepare \
    --model m2m_100.model --source source --target target --output bare.tokens
expect 0 "prepare makes tokens of another pair of languages" "" \
    "$trf" prepare --model m2m_100.model --source source --target target --source-language en --target-language de \
    --output bare.tokens
expect 1 "train refuses tokens of another pair of languages" "its pairs lack the tags of __en__ and __fr__: give" \
    "$trf" train --init-from m2m_100.model --token-file bare.tokens --source-language en --target-language fr \
    --updates 1 $alone --model no
check "train that refuses languages writes no model" [ ! -e no ]

expect 1 "average refuses models for different languages" "translate different languages" sh -c "
    '$trf' train --init-from m2m_100.model --source source --target target --updates 1 $alone --model german \
        --source-language en --target-language de &&
    '$trf' average m2m_100.one german --output no"
expect 0 "train makes a language model" "" "$trf" train --objective causal --text source --tokens words --size tiny \
    --updates 1 $alone --model causal
expect 2 "score refuses --source-language for a language model" "are for models that translate" \
    "$trf" score --model causal --target source --source-language en
expect 2 "prepare refuses --source-language for a language model" "are for models that translate" \
    "$trf" prepare --model causal source --source-language en --output no
check "average and prepare that refuse languages write nothing" [ ! -e no ]

# --- looking inside: the tags are there -----------------------------------------------------------------------------
expect 0 "attention shows the tag of a source" '"__en__"' "$trf" attention m2m_100.one --source-text "the man walks" \
    --json
expect 0 "attention shows the tag of a target" '"__fr__"' \
    "$trf" attention m2m_100.one --source-text "the man walks" --target-text man --kind decoder --json
expect 0 "attention shows a tag behind EOS" '"</s>","eng_Latn"\]' \
    "$trf" attention nllb.legacy.one --source-text "the man walks" --kind encoder --json
paste source target >data.tsv
expect 0 "report takes a model with languages" "" \
    "$trf" report m2m_100.log --model m2m_100.one --data data.tsv --beam 1 --output page.html
"$trf" translate --model m2m_100.one --beam 1 source >answers 2>err
check "the report has the answers of translate" sh -c 'head -n 1 answers | cut -c 1-12 | grep -qFf - page.html'
check "the report has the tag of the source" grep -q '__en__' page.html

# --- Marian: tags are words of the texts ------------------------------------------------------------------------------
rm -rf from; cp -R "$golden/marian" from; sed 's/"f": 17/">>fra<<": 17/' "$golden/marian/vocab.json" >from/vocab.json
expect 0 "import takes Marian with a language" "" "$trf" import from --output marian.model
sed 's/^/>>fra<< /' source >tagged
step="--init-from marian.model --target target --warmup 2 --learning-rate 0.01 $alone"
expect 0 "train takes Marian's tags in the texts" "" "$trf" train $step --source tagged --updates 4 --model in.text
expect 0 "train takes Marian's tag as --target-language" "" \
    "$trf" train $step --source source --target-language fra --updates 2 --model by.option
expect 0 "train --resume goes on with Marian's --target-language" "target language: fra" \
    "$trf" train $step --source source --updates 4 --resume --model by.option
"$trf" translate --model in.text tagged >want 2>err
expect 0 "train takes Marian's tags in the texts, beginning with a model that has a language" "" \
    "$trf" train ${step#--init-from marian.model} --init-from by.option --source tagged --updates 1 --model after
expect 0 "train --resume takes Marian's tags in the texts without an option" "" \
    "$trf" train ${step#--init-from marian.model} --source tagged --updates 2 --resume --model after
check "train --resume adds no tag to texts that have Marian's tags" sh -c '! grep -q "target language" err'
for how in "by.option tagged" "by.option source --target-language fra" "in.text source --target-language fra"; do
    "$trf" translate --model $how >got 2>err
    check "Marian's tags in texts and as an option give the same answers: $how" sh -c "test -s want && cmp got want"
done

# Tags need room.
printf 'the man\n' >short
awk 'BEGIN { for (i = 0; i < 63; i++) printf "man "; print "" }' >long
expect 1 "train --strict refuses a text that leaves no room for a tag" \
    "63 tokens, at most 62, because tags take 1 of 63 places" "$trf" train --init-from m2m_100.model --source long \
    --target short --source-language en --target-language fr --strict --updates 1 $alone --model no

# --- languages that a folder names -----------------------------------------------------------------------------------
expect 0 "import takes NLLB with a src_lang" "" "$trf" import "$golden/nllb" --output english.model
expect 0 "translate tells the source language that the folder of NLLB names" \
    "source language: eng_Latn, as in english.model" \
    "$trf" translate --model english.model --target-language fra_Latn source
rm -rf from; cp -R "$golden/mbart" from
sed -i 's/"tokenizer_class"/"tgt_lang": "de_DE", "tokenizer_class"/' from/tokenizer_config.json
expect 0 "import takes mBART-25 with another tgt_lang than its start" "" "$trf" import from --output start.model
expect 0 "score begins the targets of mBART-25 as the model does, not with tgt_lang" "31 target tokens" \
    "$trf" score --model start.model --source source --target target --source-language en_XX
rm -rf from; cp -R "$golden/bert" from; echo '{' >from/generation_config.json
expect 0 "import reads no generation_config.json of an encoder" "" "$trf" import from --output encoder.model
rm -rf from; cp -R "$golden/m2m_100" from
sed -i 's/"tokenizer_class"/"src_lang": "en", "tgt_lang": "de", "tokenizer_class"/' from/tokenizer_config.json
cp from/lines.txt source
expect 0 "import takes a folder with src_lang and tgt_lang" "" "$trf" import from --output named.model
"$trf" translate --model named.model source >got 2>err
"$trf" translate --model m2m_100.model --source-language en --target-language de source >want 2>err
check "translate uses the src_lang and tgt_lang of the folder" sh -c "test -s want && cmp got want"
"$trf" translate --model named.model --target-language fr source >got 2>err
"$trf" translate --model m2m_100.model --source-language en --target-language fr source >want 2>err
check "translate --target-language goes before the tgt_lang of the folder" sh -c "test -s want && cmp got want"
expect 0 "export takes a model with the languages of its folder" "" "$trf" export named.model --output exported
check "the exported folder names the source language of the model" \
    grep -q '"src_lang":.*"en"' exported/tokenizer_config.json
check "the exported folder names the token that begins answers" \
    grep -q '"forced_bos_token_id"' exported/generation_config.json
expect 0 "import takes the exported folder of a model with languages" "" "$trf" import exported --output again.model
"$trf" translate --model again.model source >got 2>err
"$trf" translate --model named.model source >want 2>err
check "export and import keep the languages of a model" sh -c "test -s want && cmp got want"
expect 0 "export takes a model that was trained for a pair of languages" "" "$trf" export m2m_100.one --output trained
check "the exported folder names the target language of the training" \
    grep -q '"tgt_lang":.*"fr"' trained/tokenizer_config.json
expect 0 "translate writes alignments beside tags of languages" '"alignment":\[' \
    "$trf" translate --model named.model --json --alignments source
expect 2 "translate refuses --alignments beside another start token" \
    "cannot be combined with another start token (de_DE)" \
    "$trf" translate --model mbart.model --json --alignments --source-language en_XX --target-language de_DE source

finish

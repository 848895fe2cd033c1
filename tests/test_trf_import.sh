#!/bin/sh
# trf import: folders of Hugging Face, what transformers computes with them, and folders that are damaged.
# sh tests/test_trf_import.sh build/trf

. "$(dirname "$0")/trf.sh"

golden=$source/tests/golden/import
if "$trf" import "$golden/bert" --output probe 2>&1 | grep -q "built without cJSON"; then
    echo "left out: trf was built without cJSON"
    check "says so" true
    finish
    exit
fi
rm -f probe

# near FILE FILE: whether both have the same numbers, within 2e-6 of their size
near()
{
    paste -d ' ' "$1" "$2" |
        awk '{ n = NF / 2; for (i = 1; i <= n; i++) { a = $i; b = $(i + n); d = a - b; if (d < 0) d = -d; if (b < 0) b = -b
        if (!(d <= 2e-6 * (1 + b))) { print "line " NR ", number " i ": " a " and " $(i + n); bad = 1 } } if (NF % 2) bad = 1 }
        END { exit bad || !NR }'
}

for folder in bert bert_shards byte_bpe; do
    [ $folder = byte_bpe ] && tokens=300 || tokens=47
    expect 0 "import of $folder" "bert, [0-9]* weights, $tokens tokens" "$trf" import "$golden/$folder" \
        --output $folder.model
    for row in mean first max; do
        "$trf" embed --model $folder.model --pooling $row --normalize no <"$golden/$folder/lines.txt" >$row.numbers
    done
    paste -d '\n' mean.numbers first.numbers max.numbers >got
    check "$folder computes what transformers computes" near got "$golden/$folder/expected.txt"
done
expect 0 "it tells what it leaves out" "left out: 'pooler.dense.weight'" "$trf" import "$golden/bert" \
    --output again.model
expect 0 "inspect knows the model" "47 subwords of WordPiece" "$trf" inspect bert.model
check "the same file twice" cmp -s bert.model again.model
expect 1 "an existing file" "exists: --overwrite replaces it" "$trf" import "$golden/bert" --output again.model
expect 0 "unless told so" "47 tokens" "$trf" import "$golden/bert" --output again.model --overwrite
expect 0 "in 8 bits" "47 tokens" "$trf" import "$golden/bert" --output small.model --weights int8
expect 0 "which embeds" "^-*[0-9.]*e*-*[0-9]* " sh -c "'$trf' embed --model small.model <'$golden/bert/lines.txt'"
expect 0 "special tokens in a text are text" "." sh -c "echo '[MASK] [SEP]' | '$trf' embed --model bert.model"

# --- heads: labels of lines and of pairs, and of words, with their probabilities -----------------------
for folder in bert_first bert_next bert_both roberta_first; do
    expect 0 "import of $folder" ", 47 tokens" "$trf" import "$golden/$folder" --output $folder.model
    cat "$golden/$folder/lines.txt" "$golden/$folder/pairs.tsv" | "$trf" classify --model $folder.model --scores >got
    cut -f 2 got >labels; cut -f 2 "$golden/$folder/scores.txt" | cmp -s - labels
    check "$folder: the labels of transformers" test $? -eq 0
    cut -f 1 got >scores; cut -f 1 "$golden/$folder/scores.txt" >wanted
    check "$folder: their probabilities" near scores wanted
done
expect 0 "import of a tagger" "47 tokens" "$trf" import "$golden/bert_tokens" --output tagger
"$trf" tag --model tagger <"$golden/bert_tokens/lines.txt" >got
check "a tagger: the labels of transformers" cmp -s got "$golden/bert_tokens/scores.txt"
expect 0 "a long pair is cut" "cut\|first tokens" \
    sh -c "printf 'a a a a a a a a a a a a a a a a a a a a a a a a a a a a\tthe the the the the the\n' | '$trf' classify --model bert_first.model --truncate"
expect 1 "or refused" "35 tokens, at most 30" \
    sh -c "printf 'a a a a a a a a a a a a a a a a a a a a a a a a a a a a\tthe the the the the the\n' | '$trf' classify --model bert_first.model"
expect 0 "a tab is a blank without segments" "." sh -c "printf 'a man\tthe dog\n' | '$trf' tag --model tagger"

# tensor FILE NAME: the bytes of a tensor of a safetensors file
tensor()
{
    header=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    offsets=$(dd if="$1" bs=1 skip=8 count="$header" 2>dd.log |
        sed 's/.*"'"$2"'":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/')
    dd if="$1" bs=1 skip=$((8 + header + ${offsets% *})) count=$((${offsets#* } - ${offsets% *})) 2>dd.log
}
masked()        # FOLDER; then pairs: OURS THEIRS
{
    folder=$1; shift
    expect 0 "import of $folder" ", 47 tokens" "$trf" import "$golden/$folder" --output masked.model --overwrite
    while [ $# -gt 0 ]; do
        tensor masked.model "$1" >ours; tensor "$golden/$folder/model.safetensors" "$2" >theirs
        check "$folder: $1" test -s ours
        check "$folder: $1 is $2" cmp -s ours theirs
        shift 2
    done
}
masked bert_masked head.layer.weight cls.predictions.transform.dense.weight head.layer.bias \
    cls.predictions.transform.dense.bias \
    head.norm.weight cls.predictions.transform.LayerNorm.weight head.norm.bias \
    cls.predictions.transform.LayerNorm.bias \
    head.bias cls.predictions.bias src_segments.weight bert.embeddings.token_type_embeddings.weight \
    src_positions.weight bert.embeddings.position_embeddings.weight
expect 0 "its mask is [MASK]" '"mask":4' sh -c "tr -d '\\\\' <masked.model | grep -a -o '.trf.config.mask.:.[0-9-]*' | sed 's/.*:./\"mask\":/'"
masked roberta_masked head.layer.weight lm_head.dense.weight head.layer.bias lm_head.dense.bias head.norm.weight \
    lm_head.layer_norm.weight \
    head.norm.bias lm_head.layer_norm.bias head.bias lm_head.bias src_positions.weight \
    roberta.embeddings.position_embeddings.weight
masked bert_both head.layer.weight cls.predictions.transform.dense.weight head.norm.bias \
    cls.predictions.transform.LayerNorm.bias \
    head.bias cls.predictions.bias sequence.layer.weight bert.pooler.dense.weight sequence.layer.bias \
    bert.pooler.dense.bias \
    sequence.weight cls.seq_relationship.weight sequence.bias cls.seq_relationship.bias
expect 0 "both heads, with labels" "2 labels: next | random" "$trf" inspect masked.model
fresh() { rm -rf folder out.model; cp -R "$golden/${1:-bert}" folder; }
refuses() { expect 1 "$1" "$2" "$trf" import folder --output out.model; check "$1: nothing is written" \
    test ! -e out.model; }
change() { sed "$1" "folder/$2" >changed && mv changed "folder/$2"; }
fresh bert_both; change 's/"1": "random"/"1": "random", "2": "more"/' config.json; refuses "three labels" \
    "BertForPreTraining has 2 labels of sequences, but \"id2label\" has 3"
fresh bert_masked; change 's/BertForMaskedLM/BertForPreTraining/' config.json; refuses "a second head that is missing" \
    "tensor 'bert.pooler.dense.weight' is missing"
fresh bert_both; change 's/BertForPreTraining/BertForMaskedLM/' config.json
expect 0 "one of both heads" "left out: 'bert.pooler.dense.weight'" "$trf" import folder --output half.model
printf 'a man is playing\ntwo dogs run\nthe woman is on the street\na dog , a dog\n' >text
expect 0 "a masked model learns on" "" "$trf" train --objective mask --text text --init-from masked.model --model on \
    --updates 3 --valid-size 0 --threads 1

# --- byte-level BPE ----------------------------------------------------------------------------------
# --- models that write: the answers of transformers, from text to text ---------------------------------
for folder in marian bart t5 gpt2 llama; do
    expect 0 "import of $folder" "$folder, [0-9]* weights, [1-9][0-9]* tokens" "$trf" import "$golden/$folder" \
        --output texts.model --overwrite
    case $folder in
    gpt2|llama) "$trf" generate --model texts.model --temperature 0 --max-tokens 8 --input "$golden/$folder/lines.txt" \
        >got 2>err ;;
    *) "$trf" translate --model texts.model --beam 1 --max-length-a 0 --max-length-b 8 \
        --ban-unk yes "$golden/$folder/lines.txt" 2>err |
           sed 's/<extra_id_[0-9]*>//g' >got ;;       # sentinels, which transformers leaves out of a text
    esac
    check "$folder: the answers of transformers" cmp got "$golden/$folder/answers.txt"
done
# BART begins answers and targets with <s>, which its generation_config.json names
rm texts.model; "$trf" import "$golden/bart" --output texts.model 2>err
bart="--model texts.model --beam 1 --max-length-a 0 --max-length-b 8 --ban-unk yes"
expect 0 "a special token by its name" "" "$trf" translate $bart --forced-first "<s>" "$golden/bart/lines.txt"
check "as without the option" cmp out "$golden/bart/answers.txt"
expect 0 "another first token" "" "$trf" translate $bart --forced-first "<mask>" "$golden/bart/lines.txt"
check "changes answers" sh -c "! cmp -s out '$golden/bart/answers.txt'"
head -n 2 "$golden/bart/lines.txt" >line; printf 'the\n\n' >prefix
expect 0 "a prefix behind the first token" "\"text\":\"the" "$trf" translate $bart --prefixes prefix \
    --json --token-scores line
check "the answer shows only the prefix" sh -c "grep -q '\"text\":\"the.*\"tokens\":.\"the' out && ! grep -q '<s>' out"
expect 0 "the source as target" "" "$trf" score --model texts.model --source "$golden/bart/lines.txt" \
    --target "$golden/bart/lines.txt"
check "has the loss of transformers" sh -c "read -r loss tokens <'$golden/bart/loss.txt'; awk -v loss=\$loss -v tokens=\$tokens '{ s -= \$1; n += \$2 }
    END { d = s / tokens - loss; exit !(n == tokens && d < 1e-4 && d > -1e-4) }' out"
expect 0 "training goes on" "" "$trf" train --source "$golden/bart/lines.txt" --target "$golden/bart/lines.txt" \
    --init-from texts.model --updates 1 --model on.model \
    --valid-size 0 --dropout 0 --label-smoothing 0 --threads 1 --log-every 1 --log on.log
check "from this loss" sh -c "read -r loss tokens <'$golden/bart/loss.txt'; sed -n 's/.*\"update\":1,.*\"loss\":\([0-9.]*\).*/\1/p' on.log |
    awk -v loss=\$loss '{ d = \$1 - loss; exit !(d < 1e-4 && d > -1e-4) }'"
expect 0 "its export" "bart" "$trf" export on.model --output bart.tuned
check "names the token" grep -q '"forced_bos_token_id":.0' bart.tuned/generation_config.json
expect 0 "texts that trf generate draws" "" "$trf" generate --model texts.model --temperature 0 --max-tokens 7 \
    --input "$golden/bart/lines.txt"
check "begin with it too" sh -c "[ \"\$(head -c 6 out)\" = \"\$(head -c 6 '$golden/bart/answers.txt')\" ]"
fresh bart; rm folder/generation_config.json
expect 0 "a folder that names no first token" "bart" "$trf" import folder --output plain.model
expect 0 "its answers" "" "$trf" translate ${bart#--model texts.model} --model plain.model "$golden/bart/lines.txt"
check "are others" sh -c "! cmp -s out '$golden/bart/answers.txt'"
fresh bart; change 's/"forced_bos_token_id": 0/"forced_bos_token_id": 2/' generation_config.json
refuses "answers that begin with eos" "\"forced_bos_token_id\" to be an id below 320 that is not eos, got 2"
fresh marian; change 's/"decoder_start_token_id": 69/"decoder_start_token_id": 5/' config.json; refuses \
    "a start of its own" "tokenizer's pad, eos or bos, 69, 0 or -1, got 5"
fresh marian; change 's/"decoder_attention_heads": 2/"decoder_attention_heads": 4/' config.json; refuses \
    "heads that differ" "\"encoder_attention_heads\" is 2 and \"decoder_attention_heads\" is 4"
fresh marian; change 's/"activation_function": "swish"/"activation_function": "tanh"/' config.json; refuses \
    "another activation" "gelu, gelu_new, relu or silu, got tanh"
fresh t5; change 's/"feed_forward_proj": "relu"/"feed_forward_proj": "gated-relu6"/' config.json; refuses \
    "another gate" "gated-gelu or gated-silu"
fresh t5; change 's/"num_layers": 2/"num_layers": 3/' config.json; refuses "a layer too many" \
    "tensor 'encoder.block.2.layer.0.SelfAttention.q.weight' is missing"
fresh gpt2; change 's/"scale_attn_weights": true/"scale_attn_weights": false/' config.json; refuses \
    "scores without a scale" "builds only the scale"
for rule in dynamic yarn longrope; do
    fresh llama; change "s/\"rope_type\": \"default\"/\"rope_type\": \"$rule\"/" config.json; refuses \
        "positions scaled by $rule" "scaled by the rule \"$rule\", but trf builds only linear and llama3"
done
llama3() { fresh llama; change "s/\"rope_type\": \"default\"/\"rope_type\": \"llama3\", $1/" config.json; }
llama3 '"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4'; expect 0 "Llama 3.1" "llama" "$trf" import folder \
    --output out.model
expect 0 "positions trained on are max_position_embeddings" "--rotary-trained 64" "$trf" inspect out.model
llama3 '"factor": 8, "high_freq_factor": 4, "original_max_position_embeddings": 16'; refuses \
    "Llama 3.1 without a factor" "expected a number \"low_freq_factor\", got none"
llama3 '"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1.5'; refuses \
    "half a position" "expected a whole number \"original_max_position_embeddings\""
llama3 '"factor": 8, "low_freq_factor": 4, "high_freq_factor": 1'; refuses "factors in the wrong order" \
    "rotary_high must be more than rotary_low = 4, got 1"
fresh llama; change 's/"num_key_value_heads": 2/"num_key_value_heads": 3/' config.json; refuses "keys for no heads" \
    "kv_heads must divide n_heads = 4, got 3"
fresh llama; change 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' config.json
refuses "an output projection of its own" \
    "'lm_head.weight' differs from the embedding, but config.json says that they are tied"
# Qwen 2's tokenizers have no bos, and BART's summarizers no row for the last token
"$trf" import "$golden/gpt2" --output gpt2.kept 2>err; "$trf" generate --model gpt2.kept --temperature 0 \
    --max-tokens 8 --input "$golden/gpt2/lines.txt" >want 2>err
fresh gpt2; change 's/"bos_token": "[^"]*"/"bos_token": null/' tokenizer_config.json
expect 0 "a tokenizer without bos" "gpt2" "$trf" import folder --output out.model
"$trf" generate --model out.model --temperature 0 --max-tokens 8 --input "$golden/gpt2/lines.txt" >got 2>err
check "begins with the one of config.json" cmp -s got want
fresh gpt2; change 's/"bos_token": "[^"]*"/"bos_token": null/' tokenizer_config.json; change \
    's/"bos_token_id": 0/"bos_token_id": null/' config.json
refuses "no bos anywhere" "needs bos"
# how a sentence encoder pools: what its folder says, and --pooling before that
sentences() { fresh bert; mkdir -p "folder/${2:-1_Pooling}"; printf '%s\n' "$1" >"folder/${2:-1_Pooling}/config.json"; \
    rm -f out.model; }
pools() { expect 0 "$2" "" "$trf" import folder --output out.model; "$trf" embed --model out.model \
    --normalize no <"$golden/bert/lines.txt" >got; check "$2: $1" cmp -s got "$1.numbers"; }
for row in mean first max; do
    "$trf" embed --model bert.model --pooling $row --normalize no <"$golden/bert/lines.txt" >$row.numbers
done
sentences '{"word_embedding_dimension": 16, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'; pools \
    first "the first row"
"$trf" embed --model out.model --normalize no --pooling max <"$golden/bert/lines.txt" >got; check \
    "an option says another one" cmp -s got max.numbers
expect 0 "export writes it" "bert" "$trf" export out.model --output pooled
expect 0 "import reads it again" "bert" "$trf" import pooled --output pooled.model; check "the same model" cmp \
    -s out.model pooled.model
"$trf" quantize out.model --weights bf16 --output half.pooled 2>err; "$trf" embed --model half.pooled \
    --normalize no <"$golden/bert/lines.txt" >got; "$trf" embed --model half.pooled --normalize no \
    --pooling first <"$golden/bert/lines.txt" >want
check "16 bits remember it" cmp -s got want
expect 0 "a model without it takes its place" "bert" "$trf" export bert.model --output pooled --overwrite
check "and its files are gone" [ ! -e pooled/modules.json ] && [ ! -e pooled/1_Pooling/config.json ]
sentences '{"pooling_mode_mean_tokens": true}'; pools mean "the mean"
sentences '{"pooling_mode_max_tokens": true}'; pools max "the maximum"
sentences '{"pooling_mode": "cls"}'; pools first "one word"
sentences '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}'; pools mean "two at once"
check "it says so" grep -q "1_Pooling/config.json: left out: another pooling" err
sentences '{"pooling_mode_lasttoken": true}'; pools mean "the last row"
sentences '[]'; refuses "a list" "1_Pooling/config.json: expected an object of JSON"
sentences '{"pooling_mode_cls_token": true}' pools; printf \
    '[{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "pools", "type": "sentence_transformers.models.Pooling"}, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]' >folder/modules.json; pools first "another folder"
check "a step that trf lacks" grep -q "modules.json: left out: Dense, which trf does not build" err
sentences '{"pooling_mode_cls_token": true}'; echo '[]' >folder/modules.json; pools mean "no pooling"
sentences 'hello'; refuses "a pooling that is no JSON" "1_Pooling/config.json"
sentences '{"pooling_mode_cls_token": true}'; echo '{' >folder/modules.json; refuses "steps that are no JSON" \
    "modules.json: expected JSON"
sentences '{"pooling_mode_cls_token": true}'; echo '{}' >folder/modules.json; refuses "steps that are no list" \
    "modules.json: expected a list of JSON"
# whether BOS stands before a prompt: a model's "bare_prompts" is NUMBER
bare() { expect 0 "$2" "" "$trf" import folder --output out.model --overwrite; check "$2: $1" \
    sh -c "head -c 9000 out.model | tr -d '\\000' | grep -q '\"trf.config.bare_prompts\":\"$1\"'"; }
token='{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}' text='{"Sequence": {"id": "A", "type_id": 0}}'
template() { fresh gpt2; change "s/\"post_processor\": null/\"post_processor\": $1/" tokenizer.json; }
fresh gpt2; bare 1 "GPT-2"
template "{\"type\": \"TemplateProcessing\", \"single\": [$token, $text], \"pair\": []}"; bare 0 "a template with BOS"
template "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, {\"type\": \"TemplateProcessing\", \"single\": [$token, $text]}]}"; bare 0 "one in a list"
template "{\"type\": \"TemplateProcessing\", \"single\": [$text, $token]}"; bare 1 "a token at the end"
template '{"type": "TemplateProcessing"}'; bare 1 "a template of nothing"
template '[1]'; bare 1 "no post-processor"
fresh gpt2; change 's/"bos_token"/"add_bos_token": true, "bos_token"/' tokenizer_config.json; bare 1 \
    "tokenizer.json goes first"
fresh llama; bare 0 "Llama"
fresh llama; change 's/"add_bos_token": true/"add_bos_token": false/' tokenizer_config.json; bare 1 "Llama without BOS"
fresh llama; change 's/"add_bos_token": true, //' tokenizer_config.json; bare 0 "Llama that says nothing"
fresh byte_bpe; rm folder/tokenizer.json; change 's/, "st": 299//' vocab.json; change '/^s t$/d' merges.txt
expect 0 "more rows than subwords" "ids without a token: 1 of 300" "$trf" import folder --output out.model
check "texts without them have the same vectors" \
    sh -c "echo 'the man' >line; '$trf' embed --model out.model line >got; '$trf' embed --model byte_bpe.model line >want; cmp got want"
fresh byte_bpe; change 's/"added_tokens": \[/&{"id": 300, "content": "<last>", "special": true},/' tokenizer.json
expect 0 "a last token without a row" "left out: the token \"<last>\", for which the model has no row" \
    "$trf" import folder --output out.model
check "changes nothing" cmp -s out.model byte_bpe.model
fresh byte_bpe; change 's/"added_tokens": \[/&{"id": 300, "content": "<last>"},/' tokenizer.json; refuses \
    "unless texts have it" "the tokenizer has 301 tokens, but \"vocab_size\" is 300"
for folder in gpt2 bert; do
    fresh $folder; change 's/"vocab_size": [0-9]*/"vocab_size": 1000000000/' config.json; refuses \
        "$folder: a billion rows" "tokens, but \"vocab_size\" is 1000000000"
done
fresh bert_shards; change '$d' vocab.txt
expect 0 "more rows than words" "ids without a token: 1 of 47" "$trf" import folder --output out.model
fresh roberta_masked; change 's/"hidden_act": "gelu"/"hidden_act": "relu"/' config.json; refuses \
    "a head with another activation" "RobertaForMaskedLM has the activation gelu"
fresh bert_first; change 's/"model_type": "bert"/"model_type": "bert", "problem_type": "regression"/' config.json; \
    refuses "no classes" "\"problem_type\" is regression"
fresh marian; change 's/"d_model": 16/"d_model": 15/' config.json; refuses "half a sine" \
    "expected an even \"d_model\" of a model with sines, got 15"
fresh t5; change 's/T5ForConditionalGeneration/T5EncoderModel/' config.json; refuses "half a T5" \
    "T5EncoderModel is an encoder alone"
fresh llama; : >folder/tokenizer.model; refuses "an empty file of pieces" \
    "folder/tokenizer.model: byte 0: expected a piece of SentencePiece, got the end"
fresh llama; echo hello >folder/tokenizer.model; refuses "a text for pieces" \
    "folder/tokenizer.model: byte 4: expected a piece of SentencePiece, got something else"
fresh bert_shards
expect 1 "one file of several" "if it is one of several files, give their folder" \
    "$trf" import folder/model-00001-of-00002.safetensors --output out.model
cat folder/model-00001-of-00002.safetensors >folder/third.safetensors; change \
    '0,/00002-of/s/model-00002-of-00002.safetensors/third.safetensors/' model.safetensors.index.json
refuses "a tensor twice" "' is in two files, folder/"
fresh llama; change 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": null/' config.json; \
    "$trf" import folder --output mistral.model 2>err
expect 0 "a model that is trained on" "" "$trf" train --objective causal --text "$golden/llama/lines.txt" \
    --init-from mistral.model --updates 1 --valid-size 0 --threads 1 --model mistral.tuned
expect 0 "keeps its type" "mistral" "$trf" export mistral.tuned --output mistral.folder
fresh bart; change 's/BartForConditionalGeneration/BartForSequenceClassification/' config.json; refuses \
    "a BART that judges" "does not build the head of BartForSequenceClassification"
fresh; change 's/BertModel/BertForQuestionAnswering/' config.json; refuses "answers to questions" \
    "does not build the head of BertForQuestionAnswering"
fresh bart; change 's/"bos_token_id": 0/&, "num_beams": 4, "no_repeat_ngram_size": 3, "length_penalty": 2.0, "min_length": 56, "early_stopping": true/' generation_config.json
expect 0 "what generate does" "trf translate --search-rule hugging-face --beam 4 --no-repeat-ngram 3 --alpha 2 --min-length 55 --stop finished$" "$trf" import folder --output out.model
fresh t5; change 's/"model_type": "t5"/"model_type": "mt5"/; s/T5ForC/MT5ForC/' config.json
expect 0 "mT5" "mt5" "$trf" import folder --output out.model
expect 0 "is exported as mT5" "mt5, MT5ForConditionalGeneration" "$trf" export out.model --output mt5.folder
fresh; change 's/BertModel/BertForMaskedLM/' config.json
expect 0 "a sentence encoder that names a masked head" "but its head is in no file" "$trf" import folder \
    --output out.model
check "is the encoder alone" same out.model bert.model
fresh bert_shards; echo '{"tokenizer_class": "BertJapaneseTokenizer"}' >folder/tokenizer_config.json
refuses "vocab.txt of another class" "none that trf reads for the tokenizer_class BertJapaneseTokenizer"
fresh bart; rm folder/generation_config.json; change 's/"model_type"/"force_bos_token_to_be_generated": true, &/' \
    config.json
expect 0 "an old BART" "bart" "$trf" import folder --output old.model
"$trf" translate --model old.model --beam 1 --max-length-a 0 --max-length-b 8 --ban-unk yes "$golden/bart/lines.txt" \
    >got 2>err
check "begins its answers with bos" cmp -s got "$golden/bart/answers.txt"
fresh t5; change 's/T5Tokenizer/PegasusTokenizer/' tokenizer_config.json; refuses "a class that trf does not read" \
    "none that trf reads for the tokenizer_class PegasusTokenizer"
fresh llama; LC_ALL=C sed 's/q_proj/x_proj/g; s/k_proj/q_proj/g; s/x_proj/k_proj/g' folder/model.safetensors >changed \
    && mv changed folder/model.safetensors
refuses "queries and keys exchanged" "tensor 'model.layers.0.self_attn.q_proj.weight' has shape (8, 16), but part 1 of decoder.layers.0.self_attn.in_proj_weight needs (16, 16)"
fresh llama; change 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": 16/' config.json; refuses \
    "a window" "is 16, shorter than \"max_position_embeddings\" = 64"
fresh llama; change 's/"model_type": "llama"/"model_type": "mistral"/; s/"max_position_embeddings": 64/"max_position_embeddings": 8192/' config.json
refuses "the window that transformers takes" "is 4096, shorter than \"max_position_embeddings\" = 8192"
fresh llama; change 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": null/; s/"max_position_embeddings": 64/"max_position_embeddings": 8192/' config.json
expect 0 "a model without one" "mistral" "$trf" import folder --output out.model
fresh llama; change 's/"model_type": "llama"/"model_type": "mamba"/' config.json; refuses "another architecture" \
    "it knows bert, .*roberta, marian, .*qwen2"
expect 0 "inspect knows byte-level BPE" "300 subwords of byte-level BPE" "$trf" inspect byte_bpe.model
fresh byte_bpe; rm folder/tokenizer.json
expect 0 "vocab.json and merges.txt" "300 tokens" "$trf" import folder --output out.model
check "they make the same model" cmp -s byte_bpe.model out.model
tr '\n' '@' <folder/merges.txt | sed 's/@/\r@/g' | tr '@' '\n' >crlf && mv crlf folder/merges.txt
expect 0 "lines that end with CR LF" "300 tokens" "$trf" import folder --output out.model --overwrite
check "they make the same model too" cmp -s byte_bpe.model out.model
fresh byte_bpe; awk '/^    "merges": / { on = 1 } on && /^      \[$/ { getline a; getline b; getline end; sub(/^ *"/, "", a); sub(/",$/, "", a); sub(/^ *"/, "", b); sub(/"$/, "", b)
    print "      \"" a " " b "\"" (end ~ /,/ ? "," : ""); next } { print }' folder/tokenizer.json >changed &&
        mv changed folder/tokenizer.json
check "merges as texts" grep -q '^      "\(.\|..\) .*",$' folder/tokenizer.json
expect 0 "which are read" "300 tokens" "$trf" import folder --output out.model
check "they make the same model as lists" cmp -s byte_bpe.model out.model
fresh byte_bpe; change 's/"special": true/"special": false/' tokenizer.json; echo \
    '{"bos_token": "<s>", "pad_token": {"content": "<pad>"}, "eos_token": "</s>", "unk_token": "<unk>"}' \
    >folder/special_tokens_map.json; echo '{}' >folder/tokenizer_config.json
expect 0 "an added token that is not special" "1 added token is not special" "$trf" import folder --output out.model
fresh byte_bpe; echo '{"bos_token": "</s>", "pad_token": "</s>", "eos_token": "</s>", "unk_token": "</s>"}' \
    >folder/tokenizer_config.json
expect 0 "one special token, as GPT-2 has" "300 tokens" "$trf" import folder --output gpt2.model
expect 0 "which has no pad and no unk" "trf.config.pad\":\"-1\".*trf.config.unk\":\"-1\"" \
    sh -c "head -c 9000 gpt2.model | tr -d '\\000'"
# Llama 3's rule cuts numbers
llama='"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'"'s|'t|'re|'ve|'m|'ll|'d"')|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},'
split() { fresh byte_bpe; printf '%s\n' "$llama" |
    sed "$1" >rule; awk '/^  "pre_tokenizer": / { while ((getline line <"rule") > 0) print line; on = 1 } on && /^  },$/ { on = 0; next } !on { print }' folder/tokenizer.json >changed && mv changed folder/tokenizer.json; }
split ''; expect 0 "Llama 3's rule" "300 tokens" "$trf" import folder --output llama.model
check "which is another vocabulary" sh -c "! cmp -s byte_bpe.model llama.model"
# Qwen 2's has numbers one by one, and composes characters
split 's/\\\\p{N}{1,3}/\\\\p{N}/'; change 's/"normalizer": null/"normalizer": {"type": "NFC"}/' tokenizer.json
expect 0 "Qwen 2's rule" "300 tokens" "$trf" import folder --output qwen.model
check "is another one again" sh -c "! cmp -s qwen.model llama.model"
embedded() { printf "$2\n" | "$trf" embed --model $1.model 2>err; }
check "a letter and its mark are one" [ "$(embedded qwen 'cafe\314\201')" = "$(embedded qwen 'caf\303\251')" ]
check "but not without the form" [ "$(embedded llama 'cafe\314\201')" != "$(embedded llama 'caf\303\251')" ]
cp "$golden/byte_bpe/vocab.json" "$golden/byte_bpe/merges.txt" folder; rm folder/tokenizer.json
echo '{"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": false}' >folder/tokenizer_config.json
expect 0 "vocab.json and merges.txt of Qwen 2" "300 tokens" "$trf" import folder --output two.model
check "the same vocabulary" [ "$(embedded two 'a 12 cafe\314\201')" = "$(embedded qwen 'a 12 cafe\314\201')" ]

# --- training goes on ------------------------------------------------------------------------------
printf 'a man is playing\tgood\ntwo dogs run\tbad\nthe woman is on the street\tgood\na dog , a dog\tbad\n' >labels.tsv
expect 0 "training from it" "" "$trf" train --objective classify --tsv labels.tsv --init-from bert.model --model tuned \
    --updates 3 --valid-size 0 --threads 1
expect 0 "and labels" "good\|bad" sh -c "echo 'a dog' | '$trf' classify --model tuned"

# --- damaged folders --------------------------------------------------------------------------------
fresh; rm folder/config.json; refuses "no config.json" "config.json: No such file"
fresh; echo '{"model_type": "bert"' >folder/config.json; refuses "half a config.json" \
    "expected JSON, got something else at byte"
fresh; echo '[1]' >folder/config.json; refuses "a list" "expected an object of JSON"
fresh; change 's/"bert"/"gpt9"/' config.json; refuses "an unknown type" "knows no model_type \"gpt9\""
expect 0 "as another type" "47 tokens" "$trf" import folder --as bert --output out.model
fresh; change '/model_type/d' config.json; refuses "no type" "expected \"model_type\", got none"
fresh; change 's/"use_cache": true/"quantization_config": {}/' config.json; refuses "quantised weights" "are quantised"
fresh; change 's/"hidden_size": 16/"hidden_size": "x"/' config.json; refuses "a text for a number" \
    "a whole number \"hidden_size\""
fresh; change '/"hidden_size"/d' config.json; refuses "no width" "a whole number \"hidden_size\", got none"
fresh; change 's/"hidden_size": 16/"hidden_size": 20/' config.json; refuses "another width" \
    "src_embed.weight needs (47, 20)"
fresh; change 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' config.json; refuses "a layer too many" \
    "tensor 'encoder.layer.2.attention.self.query.weight' is missing"
fresh; change 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' config.json; refuses "a layer too few" \
    "'encoder.layer.1.[a-zA-Z.]*' belongs to no part"
fresh; change 's/"num_attention_heads": 4/"num_attention_heads": 5/' config.json; refuses "heads that do not divide" \
    "n_heads must divide"
fresh; change 's/"hidden_act": "gelu"/"hidden_act": "tanh"/' config.json; refuses "an activation" \
    "\"hidden_act\" to be gelu"
fresh; change 's/"layer_norm_eps": 1e-12/"layer_norm_eps": null/' config.json; refuses "no epsilon" \
    "a number \"layer_norm_eps\""
fresh; change 's/"use_cache": true/"position_embedding_type": "relative_key"/' config.json; refuses \
    "relative positions" "builds only absolute"
fresh; change 's/"is_decoder": false/"is_decoder": true/' config.json; refuses "a decoder" "only BERT as an encoder"
fresh; change 's/"vocab_size": 47/"vocab_size": 48/' config.json; refuses "another vocabulary" \
    "src_embed.weight needs (48, 16)"
fresh bert_first; change 's/"neutral"/"entailment"/' config.json; refuses "a label twice" "labels that differ"
fresh bert_first; change 's/"0": "neutral",//' config.json; refuses "a label without a name" \
    "the name of a label for \"0\""
fresh bert_first; change 's/"id2label": {/"id2label": 3, "x": {/' config.json; refuses "a number for labels" \
    "an object \"id2label\""
fresh bert_first; change 's/"id2label": {/"id2label": {"0": "one"}, "x": {/' config.json; refuses "one label" \
    "has 1 label, but trf builds only"
fresh bert_first; change 's/"id2label": {/"x": {/' config.json; refuses "labels that weights contradict" \
    "tensor 'classifier.weight' has shape (3, 16), but head.weight needs (2, 16)"
fresh bert_masked; change 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' config.json; refuses \
    "a masked head of its own" "only a masked head that is tied"
fresh bert_first; change 's/BertForSequenceClassification/BertForMaskedLM/' config.json
expect 0 "another head" "left out: 'classifier.weight'" "$trf" import folder --output out.model
fresh bert_masked; LC_ALL=C sed 's/cls.predictions.transform.dense.weight/cls.predictions.transform.dense.waight/' \
    folder/model.safetensors >changed && mv changed folder/model.safetensors
refuses "half a head" "tensor 'cls.predictions.transform.dense.weight' is missing"
fresh; change 's/"type_vocab_size": 2/"type_vocab_size": 3/' config.json; refuses "more segments" "src_segments.weight"
fresh roberta_first; change 's/"pad_token_id": 1/"pad_token_id": 40/' config.json; refuses "pad behind the positions" \
    "\"pad_token_id\" to be 0 or more"
fresh; rm folder/model.safetensors; refuses "no weights" \
    "expected model.safetensors, pytorch_model.bin, or one of them with"
fresh; mv folder/model.safetensors folder/pytorch_model.bin; refuses "safetensors by another name" \
    "begins with PK (a zip file) or 0x80 (a pickle), got 0x"
fresh; head -c 9000 folder/model.safetensors >cut; mv cut folder/model.safetensors; refuses "half the weights" \
    "model.safetensors:"
fresh bert_shards; rm folder/model-00002-of-00002.safetensors; refuses "a file that is missing" \
    "model-00002-of-00002.safetensors"
fresh bert_shards; change 's/model-00002-of-00002/..\/bert\/model/' model.safetensors.index.json; refuses \
    "a file of another folder" "a file of the same folder"
fresh bert_shards; echo '{}' >folder/model.safetensors.index.json; refuses "an index without a map" \
    "an object \"weight_map\""
fresh; rm folder/tokenizer.json; refuses "no tokenizer" \
    "expected tokenizer.json, vocab.txt, vocab.json and merges.txt, or files of SentencePiece"
fresh; change 's/"WordPiece"/"Unigram"/' tokenizer.json; refuses "another tokenizer" \
    "normalizer: expected a type Precompiled, .* got BertNormalizer"
fresh; change 's/"BertNormalizer"/"Lowercase"/' tokenizer.json; refuses "another normalizer" \
    "a normalizer of type BertNormalizer, got Lowercase"
fresh; change 's/"the": *5/"the": 6/' tokenizer.json; refuses "an id twice" "both have the id 6"
fresh; change 's/"the": *5/"the": -1/' tokenizer.json; refuses "an id below 0" "an id of 0 to"
fresh; change 's/"the": *5/"the": 99/' tokenizer.json; refuses "an id without a token" "no token has the id 5"
fresh; change 's/"the": *5/"the": "x"/' tokenizer.json; refuses "a text for an id" \
    "expected a number for the token \"the\""
fresh bert_shards; change 's/^the$/a/' vocab.txt; refuses "a token twice" "expected every token once"
fresh bert_shards; change '/CLS/d' vocab.txt; refuses "no [CLS]" "special token \"\[CLS\]\" among the tokens"
bpe() { fresh byte_bpe; change "$1" "$2"; refuses "$3" "$4"; }
merge() { fresh byte_bpe; rm folder/tokenizer.json; change "$1" merges.txt; refuses "$2" "$3"; }
bpe 's/"normalizer": null/"normalizer": {"type": "NFD"}/' tokenizer.json "a normalizer" \
    "expected no normalizer or NFC, got NFD"
bpe 's/"use_regex": true/"use_regex": false/' tokenizer.json "no rule" "\"use_regex\" to be true"
bpe '/^  "decoder": {$/,/^  },$/s/"type": "ByteLevel"/"type": "Metaspace"/' tokenizer.json "another decoder" \
    "a decoder of type ByteLevel"
bpe 's/"dropout": null/"dropout": 0.1/' tokenizer.json "dropout" "no \"dropout\", got 0.1"
bpe 's/"end_of_word_suffix": null/"end_of_word_suffix": "<\/w>"/' tokenizer.json "a suffix" \
    "expected no \"end_of_word_suffix\", got \"</w>\""
bpe 's/"a": *[0-9]*,/"a": "x",/' tokenizer.json "a text for an id of BPE" "expected a number for the token \"a\""
bpe 's/"a": *[0-9]*,/"a": 1e9,/' tokenizer.json "an id too large" "an id of 0 to 16777215 for \"a\""
bpe 's/"a": *[0-9]*,/"a": 5,/' tokenizer.json "an id of BPE twice" "both have the id 5"
bpe 's/"content": "<mask>"/"contents": "<mask>"/' tokenizer.json "an added token without a text" \
    "\"id\" and \"content\" of each added token"
bpe 's/"vocab": {/"words": {/' tokenizer.json "no tokens" "an object \"vocab\""
bpe 's/"merges": \[/"merged": [/' tokenizer.json "no merges" "a list \"merges\""
bpe '/^    "merges": \[$/,/^      \]/s/^        ".*",$/        "zzz",/' tokenizer.json "a merge of no token" \
    "merge [0-9]*: \"zzz\" is not a token"
split 's/\\\\p{N}{1,3}/\\\\p{N}{1,2}/'; refuses "another rule" "this Split has another one: (?i:"
split 's/"Isolated"/"Removed"/'; refuses "another behavior" "the behavior Isolated"
split 's/"add_prefix_space": false/"add_prefix_space": true/'; refuses "a blank after a Split" \
    "to be false after a Split"
split 's/"use_regex": false/"use_regex": true/'; refuses "two rules" "to be false after a Split"
split 's/"type": "Split"/"type": "Digits"/'; refuses "another part" "a Sequence of ByteLevel behind Split or Digits"
split 's/"type": "Split"/"type": "Digits", "individual_digits": true/'; refuses "a part without a rule" \
    "expected \"use_regex\" to be true"
split 's/"type": "Split"/"type": "Digits", "individual_digits": true/; s/"use_regex": false/"use_regex": true/; s/"add_prefix_space": false/"add_prefix_space": true/'
refuses "a blank after numbers" "to be false after a Split"
split 's/"type": "Split"/"type": "Digits", "individual_digits": true/; s/"use_regex": false/"use_regex": true/'
expect 0 "SmolLM's rule" "300 tokens" "$trf" import folder --output smollm.model
check "which is another vocabulary" sh -c "! cmp -s smollm.model byte_bpe.model && ! cmp -s smollm.model llama.model"
expect 0 "is exported" "bert" "$trf" export smollm.model --output smollm.folder
check "without files that lack it" test ! -e smollm.folder/merges.txt
expect 0 "and imported again" "300 tokens" "$trf" import smollm.folder --output smollm.again
check "as it was" same smollm.model smollm.again
merge '3s/.*/zzz a/' "no token in merges.txt" "merges.txt: line 3: \"zzz\" is not a token"
merge '4s/.*/abc/' "one token" "merges.txt: line 4: expected two tokens with a blank between them, got \"abc\""
merge '4s/$/ a/' "three tokens" "merges.txt: line 4: expected two tokens"
merge '4s/^/ /' "a blank in front" "merges.txt: line 4: expected two tokens"
merge '4s/.*//' "an empty line" "merges.txt: line 4: expected two tokens"
merge '4s/.*/q q/' "no token from a merge" "merge 2, byte [0-9]*: expected tokens that form a third one"
merge '4{p;}' "a merge twice" "merge 3, byte [0-9]*: expected every merge once"
fresh byte_bpe; rm folder/tokenizer.json folder/merges.txt; refuses "no merges.txt" \
    "vocab.json and merges.txt, or files of SentencePiece"
fresh byte_bpe; rm folder/tokenizer.json; change 's/"a": *[0-9]*, //' vocab.json; refuses "a token that is missing" \
    "is not a token\|no token has the id"
fresh byte_bpe; echo '{"pad_token": "<nothing>"}' >folder/tokenizer_config.json; refuses \
    "a special token that is none" "special token \"<nothing>\" among the tokens"

# --- files of PyTorch ------------------------------------------------------------------------------
# torchs NAME: a folder with one of the files that have the weights of bert/
torchs() { fresh; rm folder/model.safetensors; cp "$golden/pytorch/$1" folder/pytorch_model.bin; }
zips=yes
torchs zip.bin
if "$trf" import folder --output probe.model 2>&1 | grep -q "built without libzip"; then
    echo "left out: trf was built without libzip"
    zips=no
fi
for file in zip pickles pickles4 views big_endian_deflated; do
    case $zips$file in nopickles*) ;; no*) continue ;; esac
    torchs $file.bin
    expect 0 "import of pytorch/$file.bin" "47 tokens; it took at most [0-9]* MB" "$trf" import folder \
        --output $file.model
    check "$file.bin: the same model as from safetensors" cmp -s bert.model $file.model
done
if [ $zips = yes ]; then
    fresh bert_shards; rm folder/*.safetensors*
    expect 0 "import of two files of PyTorch" "47 tokens" "$trf" import folder --output shards.model
    check "the same model as from safetensors" cmp -s bert_shards.model shards.model
    fresh bert_shards; rm folder/*.safetensors* folder/pytorch_model-00002-of-00002.bin
    refuses "a file that is missing" "pytorch_model-00002-of-00002.bin: No such file"
fi
# changed FILE: the weights' fourth number with other bytes
changed() { torchs $1; printf "$2" | dd of=folder/pytorch_model.bin bs=1 \
    seek="$(sed -n "s/^$1 //p" "$golden/pytorch/offsets.txt")" conv=notrunc 2>dd.txt; }
changed pickles.bin '\000\000\300\177'
refuses "a number that is not one" "'embeddings.word_embeddings.weight': number 3 is infinite or not a number"
changed pickles.bin '\000\000\200\177'; refuses "an infinite number" \
    "'embeddings.word_embeddings.weight': number 3 is infinite or not a number"
changed pickles.bin '\000\000\200\077'
expect 0 "another number" "47 tokens" "$trf" import folder --output one.model
check "is in the model" [ "$(cmp -l bert.model one.model | wc -l)" -ge 1 ]
torchs pickles.bin; LC_ALL=C sed 's/^FloatStorage$/IntStorage/' folder/pytorch_model.bin >changed; mv changed \
    folder/pytorch_model.bin
refuses "whole numbers as weights" "expected F32, F64, F16 or BF16, got I32"
if [ $zips = yes ]; then
    changed zip.bin '\001\002\003\004'; refuses "a damaged zip file" \
        "tensor 'embeddings.word_embeddings.weight': CRC error"
fi
fresh
while IFS='	' read -r file message; do
    cp "$golden/hostile/$file" folder
    case $zips$(head -c 2 "folder/$file") in noPK) message="built without libzip" ;; esac
    expect 1 "hostile/$file" "$message" "$trf" import "folder/$file" --output out.model
    rm "folder/$file"
done <"$golden/hostile/messages.txt"
check "hostile files: nothing is written or run" [ ! -e out.model ] && [ ! -e hacked ]
bytes=$(wc -c <"$golden/hostile/sound.bin")
n=0
while [ $n -lt "$bytes" ]; do
    head -c $n "$golden/hostile/sound.bin" >folder/cut.bin
    "$trf" import folder/cut.bin --output out.model >out 2>err
    [ $? -eq 1 ] && grep -q "^trf import: folder/cut.bin[,:]" err || { echo "$n bytes"; cat err; }
    n=$((n + 1))
done >cuts
check "a file of pickles that is cut anywhere: $(head -n 1 cuts)" [ ! -s cuts ]
check "is there to cut" [ "$bytes" -gt 190 ]

# --- models of fairseq and Marian (tools/convert): the answers and scores of these programs -------------------------
scores_agree() { paste got "$golden/$1/answers.txt" |
    awk -F '\t' '{ d = $3 - $7; if (!(d < 5e-5 && d > -5e-5) || $4 != $8) exit 1; n++ } END { exit !n }'; }
for program in "fairseq --n-best 1 --alpha 1 --min-length 1 --max-length-a 0 --max-length-b 40" \
    "marian_nmt --n-best 5 --alpha 1 --word-penalty 0.3 --max-length-a 3 --max-length-b 3"; do
    folder=${program%% *}
    expect 0 "import of $folder" "[1-9][0-9]* tokens" "$trf" import "$golden/$folder" --output $folder.model
    "$trf" translate --model $folder.model --search-rule ${folder%_nmt} --beam 5 ${program#* } \
        --scores "$golden/$folder/lines.txt" >got 2>err
    check "$folder: as many answers" lines_are "$(wc -l <"$golden/$folder/answers.txt")" got
    check "$folder: the answers of the program" scores_agree $folder
done
expect 1 "transformers has no such model" "fits no architecture" "$trf" export marian_nmt.model --output no
expect 2 "nor such a type" "trf knows no such model_type" "$trf" export marian_nmt.model --output no --as marian-nmt

# --- models of several languages: tags of sources and answers -------------------------------------------
for folder in m2m_100 nllb mbart mbart50; do
    expect 0 "import of $folder" "[1-9][0-9]* tokens" "$trf" import "$golden/$folder" --output $folder.model
    read -r from to <"$golden/$folder/languages.txt"
    to="--target-language $to"
    "$trf" translate --model $folder.model --source-language "$from" $to --beam 1 --max-length-a 0 --max-length-b 8 \
        --ban-unk yes \
        "$golden/$folder/lines.txt" >got 2>err
    check "$folder: the answers of transformers" cmp got "$golden/$folder/answers.txt"
done
echo "a green street with a river" >line
"$trf" translate --model m2m_100.model --source-language en --target-language fr line >want 2>err
"$trf" translate --model m2m_100.model --source-first __en__ --forced-first __fr__ line >got 2>err
check "a language stands for a token" cmp got want
"$trf" translate --model m2m_100.model --source-language en --target-language de line >other 2>err
check "another language" sh -c "! cmp -s other want"
expect 2 "no language" "give --source-language, one of those that 'm2m_100.model' knows: af am ar .* zu$" \
    "$trf" translate --model m2m_100.model line
expect 2 "no language of answers" "give --target-language, one of those" "$trf" translate --model m2m_100.model \
    --source-language en line
expect 2 "an unknown language" "target-language xx: 'm2m_100.model' knows af am" "$trf" translate \
    --model m2m_100.model --source-language en --target-language xx line
expect 2 "a tag twice" "source-language and --source-first cannot be combined: both" "$trf" translate \
    --model m2m_100.model --source-language en --source-first 5 line
read -r from to <"$golden/mbart/languages.txt"
"$trf" translate --model mbart.model --source-language "$from" --target-language "$to" line >got 2>err
"$trf" translate --model mbart.model --source-language "$from" line >want 2>err
check "mBART-25 answers in its own language" sh -c "test -s want && cmp got want"
"$trf" translate --model mbart.model --source-language "$from" --target-language "$from" line >got 2>err
"$trf" translate --model mbart.model --source-language "$from" --start "$from" line >want 2>err
check "mBART-25 begins with the tag of another" sh -c "test -s want && cmp got want"
expect 2 "an unknown language of answers" "target-language xx: 'mbart.model' knows ar_AR" "$trf" translate \
    --model mbart.model --source-language "$from" --target-language xx line
expect 2 "no languages" "'texts.model' has no tokens for the languages of its sources" "$trf" translate \
    --model texts.model --source-language en line
pair="--source-language eng_Latn --target-language fra_Latn"
expect 0 "alignments beside tags" '"alignment":\[' "$trf" translate --model nllb.model \
    --json --alignments --attention $pair line
echo the >prefix
expect 0 "prefixes behind a tag" "^the" "$trf" translate --model nllb.model $pair --prefixes prefix line
"$trf" translate --model nllb.model --json --token-scores $pair --prefixes prefix line >out 2>err
check "the answer does not show the tag" sh -c "! grep -q '\"tokens\":.\"fra_Latn' out && grep -q '\"tokens\":.\"[^\"]*the\"' out"
expect 2 "prefixes need it" "give --target-language" "$trf" translate --model nllb.model --source-language eng_Latn \
    --prefixes prefix line
expect 0 "trf generate needs no languages" "" sh -c "'$trf' generate --model m2m_100.model --max-tokens 4 --input line"
fresh nllb; change 's/"legacy_behaviour": false/"legacy_behaviour": true/' tokenizer_config.json
expect 0 "NLLB with the tag behind" "272 tokens" "$trf" import folder --output out.model
check "which is in the file" sh -c "head -c 9000 out.model | grep -q 'source-last \*'"
fresh m2m_100; rm folder/tokenizer_config.json
expect 0 "the files tell M2M-100" "169 tokens" "$trf" import folder --output out.model
check "the same model" cmp -s m2m_100.model out.model
fresh mbart50; rm folder/tokenizer_config.json
expect 0 "the number of rows tells mBART-50" "tokens" "$trf" import folder --output out.model
check "the same model" cmp -s mbart50.model out.model
fresh mbart; rm folder/tokenizer_config.json
expect 0 "or mBART-25" "tokens" "$trf" import folder --output out.model
check "the same model" cmp -s mbart.model out.model
fresh m2m_100; rm folder/vocab.json; refuses "M2M-100 without vocab.json" "got none that trf reads"
fresh m2m_100; change 's/"language_codes": "m2m100"/"language_codes": "wmt21"/; s/^{/{"language_codes": "wmt21", /' \
    tokenizer_config.json
expect 0 "the eight languages of WMT 21" "169 tokens" "$trf" import folder --output out.model
expect 2 "are others" "knows en ha is ja cs ru zh de$" "$trf" translate --model out.model --source-language fr line
rm out.model
fresh m2m_100; change 's/"vocab_size": 169/"vocab_size": 160/' config.json; refuses "too few rows for the languages" \
    "the tokenizer has 161 ids, but the model has only 160"
fresh mbart50; change 's/^{/{"added_tokens_decoder": {"91": {"content": "<mask>"}, "39": {"content": "ar_AR"}},/' \
    tokenizer_config.json
expect 0 "added tokens that are known" "92 tokens" "$trf" import folder --output out.model
check "change nothing" cmp -s mbart50.model out.model
fresh mbart50; change 's/^{/{"added_tokens_decoder": {"38": {"content": "ar_AR"}},/' tokenizer_config.json
refuses "a language with another id" "\"ar_AR\" has the id 38, but by the order of pieces, languages and special tokens it has the id 39"
fresh mbart; change 's/"decoder_start_token_id": 58/"decoder_start_token_id": 30/' config.json; refuses \
    "a start that is no language" "tokenizer's pad, eos or bos"
fresh roberta_first; change 's/"roberta"/"xlm-roberta"/; s/RobertaFor/XLMRobertaFor/' config.json
expect 0 "XLM-R is RoBERTa" "xlm-roberta, " "$trf" import folder --output out.model
cat "$golden/roberta_first/lines.txt" "$golden/roberta_first/pairs.tsv" | "$trf" classify --model out.model \
    --scores 2>err | cut -f 1 >got
cut -f 1 "$golden/roberta_first/scores.txt" >want
check "with its head" near got want

# --- tokenizer.json of SentencePiece's kind -------------------------------------------------------------
json() { fresh "$1"; rm -f folder/spiece.model folder/tokenizer.model; cp "$golden/json/$1.json" \
    folder/tokenizer.json; }
for folder in t5 llama; do
    json $folder
    expect 0 "$folder with tokenizer.json alone" "tokens" "$trf" import folder --output out.model
    case $folder in
    llama) "$trf" generate --model out.model --temperature 0 --max-tokens 8 --input "$golden/$folder/lines.txt" >got \
        2>err ;;
    *) "$trf" translate --model out.model --beam 1 --max-length-a 0 --max-length-b 8 \
        --ban-unk yes "$golden/$folder/lines.txt" 2>err |
           sed 's/<extra_id_[0-9]*>//g' >got ;;
    esac
    check "$folder: the answers of transformers again" cmp got "$golden/$folder/answers.txt"
    rm out.model
done
# by NAME SED WHAT MESSAGE: a changed tokenizer.json, by sed or by awk
by() { json "$1"; change "$2" tokenizer.json; refuses "$3" "$4"; }
nllb() { fresh nllb; change "$1" tokenizer.json; refuses "$2" "$3"; }
by t5 's/"type": "Metaspace"/"type": "Metaspaces"/' "no Metaspace" \
    "tokenizer.json: pre_tokenizer.pretokenizers\[1\]: expected a type Metaspace, or .* got Metaspaces"
by t5 's/"type": "WhitespaceSplit"/"type": "Punctuation"/' "another splitting" \
    "pre_tokenizer.pretokenizers\[0\]: expected a type Metaspace, .* got Punctuation"
by t5 's/"replacement": "[^"]*"/"replacement": "_"/' "another blank" \
    "pre_tokenizer.pretokenizers\[1\]: expected the replacement U+2581, got _"
by t5 's/"normalizer": null/"normalizer": {"type": "Lowercase"}/' "lower case" \
    "normalizer: expected a type Precompiled, Replace, .* got Lowercase"
by t5 's/"normalizer": null/"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip"}, {"type": "NFKC"}]}/' \
    "a part of a Sequence" "normalizer.normalizers\[1\]: .* got NFKC"
by t5 's/"normalizer": null/"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AA"}/' "half of base64" \
    "one \"precompiled_charsmap\" in base64, got AA"
by t5 's/"normalizer": null/"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AA*A"}/' "no base64" \
    "got something else at character 2 of the map"
by t5 's/"normalizer": null/"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}/' \
    "a map that is none" "tokenizer.json: .*byte"
by t5 's/"normalizer": null/"normalizer": {"type": "Replace", "pattern": {"String": "``"}, "content": "\\""}/' \
    "another Replace" "normalizer: expected a Replace of \" \" by U+2581 or .* got \`\`"
by t5 '/^  "decoder": {$/,/^  },$/s/"type": "Metaspace"/"type": "WordPiece"/' "another way back" \
    "decoder: expected a type Metaspace, .* got WordPiece"
by t5 's/"vocab": \[/"words": [/' "no tokens" "model.vocab: expected a list"
by t5 's/"unk_id": 2/"unk_id": 2000/' "no unknown token" "model.unk_id: expected the unknown token"
by t5 's/^        -[2-9][0-9.]*$/        "x"/' "a text for a score" \
    "model.vocab: entry [0-9]*: expected a list of a text and a number"
by t5 's/"content": "<extra_id_0>"/"contents": "<extra_id_0>"/' "a token without a text" \
    "added_tokens: expected \"id\" and \"content\" of each"
by t5 's/"id": 0,/"id": 7,/' "another id" "added_tokens: \"<pad>\" has the id 7, but 0 in the model"
by t5 's/"content": "<extra_id_0>"/"content": "<extra_id_1>"/' "a token twice" \
    "added_tokens: \"<extra_id_1>\" has the id\|the token \"<extra_id_1>\" occurs twice"
by llama 's/"<0x41>": [0-9]*/"<0x4G>": 68/' "255 bytes" \
    "model.byte_fallback: expected a token for each of 256 bytes, got fewer"
by llama 's/"dropout": null/"dropout": 0.5/' "random ids" "model.dropout: expected none: its ids would be random"
by llama 's/"ignore_merges": false/"ignore_merges": true/' "whole words" "model.ignore_merges: expected false, got true"
by llama 's/"end_of_word_suffix": null/"end_of_word_suffix": "<\/w>"/' "ends of words" \
    "model.end_of_word_suffix: expected none, got </w>"
by llama 's/"unk_token": "<unk>"/"unk_token": "<unknown>"/' "an unknown token that is none" \
    "model.unk_token: expected a token of the model, got <unknown>"
by llama 's/"merges": \[/"merged": [/' "no merges" "model.merges: expected a list"
by llama 's/^        "r",$/        "rr",/' "a merge of no token" \
    "model.merges\[0\]: expected two tokens that form a third one, got \"rr\" and \"e\""
nllb 's/"fuse_unk": true/"fuse_unk": false/' "unknown characters one by one" "model.fuse_unk: expected true, got false"
# merges N...: keeps these merges, in this order; "re" with a blank has the merges 8 and 9
merges()
{
    fresh nllb
    awk -v order="$*" '/"merges": \[/ { print; on = 1; next }
        on && /^    \]/ { n = split(order, k, " "); for (i = 1; i <= n; i++) printf "%s      ]%s\n", at[k[i]], i < n ? "," : ""; on = 0 }
        on && /^      \]/ { m++; next } on { at[m + 0] = at[m + 0] $0 "\n"; next } { print }' folder/tokenizer.json \
            >changed && mv changed folder/tokenizer.json
}
all() { seq 0 37; }
merges $(all)
expect 0 "all merges" "272 tokens" "$trf" import folder --output out.model
check "the same model" cmp -s nllb.model out.model; rm out.model
merges $(all | grep -v -x 9); refuses "a merge that is missing" \
    "model.merges: expected a merge for each pair that forms a piece, as SentencePiece has it; \".*re\" has 1 of 2"
merges $(all | sed 's/^9$/9 9/'); refuses "a merge twice" "model.merges\[10\]: expected every merge once"
merges $(all | sed -e '/^8$/d' -e 's/^20$/20 8/'); refuses "merges of a piece apart" \
    "model.merges\[20\]: expected the merges that form \".*re\" in a row"
merges $(all | sed -e '/^[89]$/d'); expect 0 "a token that no merge forms" "272 tokens" "$trf" import folder \
    --output out.model
tokens() { "$trf" translate --model "$1" --source-language eng_Latn --target-language fra_Latn \
    --json "$golden/nllb/lines.txt" 2>err; }
tokens out.model >got; tokens nllb.model >want
check "is no piece, nor are those that begin with it" sh -c "! grep -q 'reads\",' got"
check "as they are with its merges" grep -q 'reads",' want
rm -f out.model

# --- one file ----------------------------------------------------------------------------------------
fresh
expect 0 "a file of safetensors in its folder" "47 tokens" "$trf" import folder/model.safetensors --output file.model
check "the same as its folder" cmp -s bert.model file.model
cp "$golden/pytorch/pickles.bin" folder/other.bin
expect 0 "a file of PyTorch beside another one" "47 tokens" "$trf" import folder/other.bin --output file.model \
    --overwrite
check "the same as its folder" cmp -s bert.model file.model
expect 0 "a file of the current folder" "47 tokens" sh -c "cd folder && '$trf' import other.bin --output ../here.model"
cp "$golden/pytorch/pickles.bin" alone.bin
expect 1 "a file alone" "alone.bin: expected config.json and the tokenizer's files beside it, but there is no ./config.json" "$trf" import alone.bin --output out.model
expect 1 "a file that is not there" "folder/nothing.bin: No such file" "$trf" import folder/nothing.bin \
    --output out.model
# --- SentencePiece: the words of a vocabulary as pieces, which have the same ids ----------------------
piece() { printf '\012'"$(printf '\\%03o' $((${#1} + 9)))"'\012'"$(printf '\\%03o' ${#1})"'%s\025\0\0\0\0\030'"$2" \
    "$1"; }
word() { printf '\012'"$(printf '\\%03o' $((${#1} + 12)))"'\012'"$(printf '\\%03o' $((${#1} + 3)))"'\342\226\201%s\025\0\0\0\0\030\001' "$1"; }
normal() { printf '\032\006\030\001\040\001\050\001'; }        # a blank in front, none twice, blanks are U+2581
marian()
{
    fresh; rm folder/tokenizer.json
    {
        piece '<unk>' '\002'; piece '<s>' '\003'; piece '</s>' '\003'
        for w in dog the man woman are play; do word $w; done
        word zz                                         # vocab.json lacks it
        normal
    } >folder/source.spm
    { piece '<unk>' '\002'; word man; word the; normal; } >folder/target.spm
    awk '/"vocab": \{/ { on = 1; print "{"; next } on && /\}/ { print "}"; exit } on' "$golden/bert/tokenizer.json" |
        sed -e 's/"\(the\|man\|woman\|dog\|are\|play\)"/"\xe2\x96\x81\1"/' >folder/vocab.json
    cat >folder/tokenizer_config.json <<'JSON'
{"tokenizer_class": "MarianTokenizer", "pad_token": "[PAD]", "unk_token": {"content": "[UNK]"}, "eos_token": "[SEP]", "cls_token": "[CLS]",
 "sep_token": "[SEP]"}
JSON
}
same() { echo "$1" | "$trf" embed --model bert.model >want; echo "$2" |
    "$trf" embed --model out.model >got; cmp -s want got; }
marian
expect 0 "source.spm, target.spm and vocab.json" "47 tokens" "$trf" import folder --output out.model
check "pieces have the ids of vocab.json" same "the man are play" "the man are play"
check "pieces that vocab.json lacks, and unknown characters" same "the zzzzzz dog" "the zz dog"
check "a code that is no token" same "zzzzzz the dog" ">>fr<< the dog"
check "no special token is in a text" same "zzzzzz" "[MASK]"
marian; rm folder/tokenizer_config.json; change 's/\[SEP\]/<\/s>/; s/\[UNK\]/<unk>/; s/\[PAD\]/<pad>/' vocab.json
refuses "the files tell the class; but BERT needs [CLS]" "source_bos needs bos"
marian; rm folder/vocab.json; refuses "no vocab.json" "vocab.json: No such file"
marian; rm folder/target.spm; refuses "no target.spm" "target.spm: No such file"
marian; change 's/"the": *5/"the": 6/; s/the": *5/the": 6/' vocab.json; refuses "an id twice" "both have the id 6"
marian; change 's/the": *5/the": -1/' vocab.json; refuses "an id below 0" "vocab.json: expected an id of 0 to"
marian; change 's/the": *5/the": 5.5/' vocab.json; refuses "half an id" "got 5.5"
marian; change 's/the": *5/the": "x"/' vocab.json; refuses "a text for an id" "vocab.json: expected an id of 0 to"
marian; change 's/the": *5/the": 99/' vocab.json; refuses "an id beyond the others" \
    "has the id 99, but there are only 47 tokens"
marian; change '/\[SEP\]/d' vocab.json; refuses "an id is missing" "but there are only 46 tokens"
marian; change 's/"\[SEP\]"/"none"/' vocab.json; refuses "no end" \
    "expected the special token \"\[SEP\]\" among the tokens"
marian; change 's/\[UNK\]/\xe2\x96\x81the/' tokenizer_config.json; refuses "a special token that is a word" \
    "special\[3\]: expected the id of no piece of text, got 5"
marian; head -c 60 folder/source.spm >cut; mv cut folder/source.spm; refuses "half a source.spm" "source.spm: .*byte"
marian; change 's/"vocab_size": 47/"vocab_size": 46/' config.json; refuses "too few rows" \
    "the tokenizer has 47 ids, but the model has only 46"
marian; change 's/Marian/Pegasus/' tokenizer_config.json; refuses "another class" "got none that trf reads"

numbered()
{
    fresh; rm folder/tokenizer.json
    { piece '<pad>' '\003'; piece '<unk>' '\002'; piece '<s>' '\003'; piece '</s>' '\003'; piece '[MASK]' '\003'; word \
        the; word a; word man; normal; } >folder/$1
    echo '{"tokenizer_class": "'$2'", "bos_token": "<s>", "pad_token": "<pad>"'"$3}" >folder/tokenizer_config.json
}
numbered tokenizer.model LlamaTokenizer ''
expect 0 "tokenizer.model, and rows that are no tokens" "47 tokens" "$trf" import folder --output out.model
check "piece i has id i" same "the a man" "the a man"
numbered tokenizer.model LlamaTokenizerFast \
    ', "added_tokens_decoder": {"5": {"content": "\u2581the"}, "8": {"content": "<new>"}}'
expect 0 "tokens that are added" "47 tokens" "$trf" import folder --output out.model
check "pieces stay" same "the a man" "the a man"
numbered tokenizer.model LlamaTokenizer ', "added_tokens_decoder": {"6": {"content": "<new>"}}'
refuses "an id of a piece" "the id 6 is \"<new>\", but piece 6"
numbered tokenizer.model LlamaTokenizer ', "added_tokens_decoder": {"8": {"content": "<new>"}, "9": {"content": "<new>"}}'
refuses "a token twice" "more\[1\]: expected every token once"
numbered tokenizer.model LlamaTokenizer ', "added_tokens_decoder": {"x": {"content": "<new>"}}'
refuses "no number" "expected an id and its \"content\""
numbered tokenizer.model LlamaTokenizer ', "added_tokens_decoder": {"47": {"content": "<new>"}}'
refuses "an id beyond the model" "the tokenizer has 48 ids, but the model has only 47"
numbered spiece.model T5Tokenizer ', "extra_ids": 30'
expect 0 "spiece.model" "47 tokens" "$trf" import folder --output out.model
check "piece i has id i there too" same "the a man" "the a man"
numbered spiece.model T5Tokenizer ''
refuses "a hundred sentinels" "the tokenizer has 108 ids, but the model has only 47"

# --- a new model with the tokens of an imported one ------------------------------------------------------------------
small="--d-model 32 --n-heads 2 --d-ff 64 --decoder-layers 1 --dropout 0 --label-smoothing 0 --learning-rate 0.01 --warmup 20 --schedule constant"
for folder in m2m_100 mbart t5 marian bart; do
    head -n 4 "$golden/$folder/lines.txt" >lines
    "$trf" import "$golden/$folder" --output tokens.model --overwrite >out 2>err
    train="--vocab-from tokens.model --source lines --target lines --valid-size 0 --encoder-layers 1 $small --threads 1"
    expect 0 "$folder: half of the updates" "done: 100 updates" "$trf" train $train --updates 100 --model new.model \
        --overwrite
    expect 0 "$folder: the other half" "resumed from update 101" "$trf" train $train --updates 200 --model new.model \
        --resume
    "$trf" translate --model new.model lines >got 2>err
    check "$folder: a new model has its special ids, and learns" cmp -s got lines
done
for folder in gpt2 llama; do
    "$trf" import "$golden/$folder" --output tokens.model --overwrite >out 2>err
    expect 0 "$folder: a new model" "done: 20 updates" "$trf" train --objective causal --vocab-from tokens.model \
        --text lines --valid-size 0 $small \
        --threads 1 --updates 20 --model new.model --overwrite
    expect 0 "$folder: it generates" "" "$trf" generate --model new.model --prompt "the man"
    check "$folder: there is a text" test -s out
done

expect 2 "no folder" "give one folder" "$trf" import --output out.model
expect 2 "no output" "give --output FILE" "$trf" import "$golden/bert"

finish

#!/bin/sh
# trf import: folders of Hugging Face, what transformers computes with them, and folders that are damaged.
# sh tests/test_trf_import.sh build/trf

. "$(dirname "$0")/trf.sh"

golden=$source/tests/golden/import
if "$trf" import "$golden/bert" --output probe 2>&1 | grep -q "built without cJSON"; then
    echo "left out: trf was built without cJSON"
    check "import says that trf was built without cJSON" true
    finish
    exit
fi
rm -f probe

# near FILE FILE: whether both have the same numbers, within 2e-6 of their size
near()
{
    paste -d ' ' "$1" "$2" |
        awk '{
            n = NF / 2
            for (i = 1; i <= n; i++) {
                a = $i; b = $(i + n); d = a - b
                if (d < 0) d = -d
                if (b < 0) b = -b
                if (!(d <= 2e-6 * (1 + b))) { print "line " NR ", number " i ": " a " and " $(i + n); bad = 1 }
            }
            if (NF % 2) bad = 1
        }
        END { exit bad || !NR }'
}

for folder in bert bert_shards byte_bpe; do
    [ $folder = byte_bpe ] && tokens=300 || tokens=47
    expect 0 "import takes $folder" "bert, [0-9]* weights, $tokens tokens" "$trf" import "$golden/$folder" \
        --output $folder.model
    for row in mean first max; do
        "$trf" embed --model $folder.model --pooling $row --normalize no <"$golden/$folder/lines.txt" >$row.numbers
    done
    paste -d '\n' mean.numbers first.numbers max.numbers >got
    check "$folder: embed gives the numbers of transformers" near got "$golden/$folder/expected.txt"
done
expect 0 "import tells the tensors that it leaves out" "left out: tensor 'pooler.dense.weight'" \
    "$trf" import "$golden/bert" \
    --output again.model
expect 0 "inspect tells the subwords of an imported BERT" "47 subwords of WordPiece" "$trf" inspect bert.model
check "a second import makes the same file" cmp -s bert.model again.model
expect 1 "import refuses to replace a model file that exists" "exists: --overwrite replaces it" \
    "$trf" import "$golden/bert" --output again.model
expect 0 "import --overwrite replaces a model file that exists" "47 tokens" \
    "$trf" import "$golden/bert" --output again.model --overwrite
expect 0 "import --weights int8 makes a model of 8 bits" "47 tokens" \
    "$trf" import "$golden/bert" --output small.model --weights int8
expect 0 "an imported model of 8 bits embeds" "^-*[0-9.]*e*-*[0-9]* " \
    sh -c "'$trf' embed --model small.model <'$golden/bert/lines.txt'"
expect 0 "embed: special tokens in a text are text" "." sh -c "echo '[MASK] [SEP]' | '$trf' embed --model bert.model"

# --- heads: labels of lines and of pairs, and of words, with their probabilities -----------------------
for folder in bert_first bert_next bert_both roberta_first; do
    expect 0 "import takes $folder" ", 47 tokens" "$trf" import "$golden/$folder" --output $folder.model
    cat "$golden/$folder/lines.txt" "$golden/$folder/pairs.tsv" | "$trf" classify --model $folder.model --scores >got
    cut -f 2 got >labels; cut -f 2 "$golden/$folder/scores.txt" | cmp -s - labels
    check "$folder: classify gives the labels of transformers" test $? -eq 0
    cut -f 1 got >scores; cut -f 1 "$golden/$folder/scores.txt" >wanted
    check "$folder: classify gives the probabilities of transformers" near scores wanted
done
# labels that are numbers, and several at once: all outputs of transformers, and the order of a ranking
tab=$(printf '\t')
outputs() { cat "$golden/$1/lines.txt" "$golden/$1/pairs.tsv" | "$trf" classify --model "$1.model" --json; }
# probability LABEL: those of a label, from lines of JSON
probability() { sed 's/.*"label":"'"$1"'","probability":\([0-9.e+-]*\).*/\1/'; }
for folder in bert_rank roberta_rank bert_any bert_numbers; do
    expect 0 "import takes $folder" ", 47 tokens" "$trf" import "$golden/$folder" --output $folder.model
    outputs $folder >lines.json
    case $folder in
    roberta_rank) probability LABEL_0 <lines.json >got ;;
    bert_any) for label in joy anger fear; do probability $label <lines.json >$label; done
        paste -d ' ' joy anger fear >got ;;
    *) sed -e 's/.*"numbers":.//' -e 's/].*//' -e 's/,/ /g' <lines.json >got ;;
    esac
    check "$folder: classify gives the outputs of transformers" near got "$golden/$folder/scores.txt"
done
outputs bert_any | sed 's/.*"labels"://' >wanted
"$trf" classify --model bert_any.model --scores --input "$golden/bert_any/lines.txt" >got
check "classify gives the labels that hold, with commas between them, after all their probabilities" \
    awk -F '\t' '{
            n = split($1, p, ","); m = $2 == "" ? 0 : split($2, l, ","); if (n != m) bad = 1
            for (i = 1; i <= n; i++) if (p[i] < 0.5) bad = 1
            if (n > 1) several = 1
        }
                 END { exit bad || NF != 2 || !several || NR != 8 }' got
for folder in bert_rank roberta_rank; do
    tail -n 3 "$golden/$folder/scores.txt" >wanted
    while IFS=$tab read -r first second; do
        printf '%s\n' "$second" | "$trf" rerank $folder.model --query "$first"
    done <"$golden/$folder/pairs.tsv" | cut -f 1 >got
    check "$folder: rerank gives the scores of transformers" near got wanted
done
cut -f 2 "$golden/bert_rank/pairs.tsv" >passages
printf 'two dogs\n\nA man is playing a guitar.\n' >queries
"$trf" rerank bert_rank.model --queries queries passages >got
check "rerank --queries: each query has all lines, by falling scores, and an empty line ends them" \
    awk -F '\t' '$0 == "" { blocks++; n = 0; next }
        { if (n && $1 + 0 > before) bad = 1; before = $1 + 0; n++; rows++ }
        END { exit bad || blocks != 3 || rows != 9 }' got
expect 0 "rerank --top 1 --json: the best line, with its number" '^{"line":[1-3],"score":-*[0-9.]*,"text":"[^"]*"}$' \
    "$trf" rerank bert_rank.model --query 'two dogs' --top 1 --json passages
check "rerank --top 1 writes one line" test "$(wc -l <out)" -eq 1
expect 0 "rerank: lines with equal scores keep their order" "" \
    sh -c "printf 'a\nb\na\n' | '$trf' rerank bert_rank.model --query dog --json |
        grep '\"text\":\"a\"' >equal"
check "rerank: the first of two equal lines comes first" test "$(sed -n '1s/,.*//p' equal)" = '{"line":1'
long=$(printf 'the dog %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
expect 0 "rerank: a pair that is too long is shortened" "dog" \
    sh -c "echo '$long' | '$trf' rerank bert_rank.model --query '$long'"
expect 1 "rerank: a line that is not UTF-8 is left out" "1 of 2 lines could not be compared" \
    sh -c "printf 'a dog\n\377\n' | '$trf' rerank bert_rank.model --query dog"
check "rerank: the other lines are there" grep -q 'a dog' out
expect 0 "rerank: no lines" "" sh -c "'$trf' rerank bert_rank.model --query dog </dev/null"
expect 1 "rerank: a classifier is refused" "does not score texts" "$trf" rerank bert_first.model --query dog passages
expect 1 "rerank: a model with two numbers is refused" "has one output" \
    "$trf" rerank bert_numbers.model --query dog passages
expect 2 "rerank without a query" "give --query TEXT, or --queries FILE" "$trf" rerank bert_rank.model passages
expect 2 "classify: --scores is refused for numbers" "this model gives numbers" \
    "$trf" classify bert_rank.model passages --scores
printf 'a man\ta dog\t0.5\ntwo dogs\trun\t1\n' >grades
expect 0 "train goes on with an imported cross-encoder" "pearson -*1.0000" "$trf" train --objective classify \
    --tsv grades --valid-tsv grades --init-from bert_rank.model --model graded --updates 2 --threads 1
fresh() { rm -rf folder out.model; cp -R "$golden/${1:-bert}" folder; }
change() { sed "$1" "folder/$2" >changed && mv changed "folder/$2"; }
fresh bert_rank; change 's/linear.Identity/activation.Tanh/' config.json
expect 1 "import refuses another activation of a cross-encoder" "made by torch.nn.modules.activation.Tanh" \
    "$trf" import folder --output out.model
fresh bert_rank; change '/sentence_transformers/,/}/d' config.json
expect 0 "import takes one label for a number, as transformers does" "" "$trf" import folder --output out.model
check "a model of one label without an activation has the logit as its score" cmp -s out.model bert_rank.model
expect 0 "import takes a tagger" "47 tokens" "$trf" import "$golden/bert_tokens" --output tagger
"$trf" tag --model tagger <"$golden/bert_tokens/lines.txt" >got
check "tag gives the labels of transformers" cmp -s got "$golden/bert_tokens/scores.txt"
long='a a a a a a a a a a a a a a a a a a a a a a a a a a a a\tthe the the the the the\n'
expect 0 "classify --truncate cuts a pair that is too long" "cut\|first tokens" \
    sh -c "printf '$long' | '$trf' classify --model bert_first.model --truncate"
expect 1 "classify refuses a pair that is too long" "35 tokens, at most 30" \
    sh -c "printf '$long' | '$trf' classify --model bert_first.model"
expect 0 "a tab is a blank for a model without segments" "." \
    sh -c "printf 'a man\tthe dog\n' | '$trf' tag --model tagger"

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
    expect 0 "import --overwrite takes $folder" ", 47 tokens" \
        "$trf" import "$golden/$folder" --output masked.model --overwrite
    while [ $# -gt 0 ]; do
        tensor masked.model "$1" >ours; tensor "$golden/$folder/model.safetensors" "$2" >theirs
        check "$folder: the model file has the tensor $1" test -s ours
        check "$folder: the tensor $1 is the folder's $2" cmp -s ours theirs
        shift 2
    done
}
masked bert_masked head.layer.weight cls.predictions.transform.dense.weight head.layer.bias \
    cls.predictions.transform.dense.bias \
    head.norm.weight cls.predictions.transform.LayerNorm.weight head.norm.bias \
    cls.predictions.transform.LayerNorm.bias \
    head.bias cls.predictions.bias src_segments.weight bert.embeddings.token_type_embeddings.weight \
    src_positions.weight bert.embeddings.position_embeddings.weight
expect 0 "the mask of an imported model of masked words is [MASK]" '"mask":4' \
    sh -c "tr -d '\\\\' <masked.model | grep -a -o '.trf.config.mask.:.[0-9-]*' | sed 's/.*:./\"mask\":/'"
masked roberta_masked head.layer.weight lm_head.dense.weight head.layer.bias lm_head.dense.bias head.norm.weight \
    lm_head.layer_norm.weight \
    head.norm.bias lm_head.layer_norm.bias head.bias lm_head.bias src_positions.weight \
    roberta.embeddings.position_embeddings.weight
masked bert_both head.layer.weight cls.predictions.transform.dense.weight head.norm.bias \
    cls.predictions.transform.LayerNorm.bias \
    head.bias cls.predictions.bias sequence.layer.weight bert.pooler.dense.weight sequence.layer.bias \
    bert.pooler.dense.bias \
    sequence.weight cls.seq_relationship.weight sequence.bias cls.seq_relationship.bias
expect 0 "inspect tells the labels of a BERT with two heads" "2 labels: next | random" "$trf" inspect masked.model
refuses()
{
    expect 1 "import refuses $1" "$2" "$trf" import folder --output out.model
    check "import refuses $1 and leaves no model file" test ! -e out.model
}
fresh bert_both; change 's/"1": "random"/"1": "random", "2": "more"/' config.json
refuses "a BertForPreTraining with three labels" "BertForPreTraining has 2 labels of sequences, but \"id2label\" has 3"
fresh bert_masked; change 's/BertForMaskedLM/BertForPreTraining/' config.json
refuses "a BertForPreTraining without its second head" "tensor 'bert.pooler.dense.weight' is missing"
fresh bert_both; change 's/BertForPreTraining/BertForMaskedLM/' config.json
expect 0 "import leaves out the second head of a BertForMaskedLM" "left out: tensor 'bert.pooler.dense.weight'" \
    "$trf" import folder --output half.model
printf 'a man is playing\ntwo dogs run\nthe woman is on the street\na dog , a dog\n' >text
expect 0 "train goes on with an imported model of masked words" "" "$trf" train --objective mask --text text \
    --init-from masked.model --model on --updates 3 --valid-size 0 --threads 1

# --- byte-level BPE ----------------------------------------------------------------------------------
# --- models that write: the answers of transformers, from text to text ---------------------------------
for folder in marian bart t5 gpt2 llama; do
    expect 0 "import takes $folder" "$folder, [0-9]* weights, [1-9][0-9]* tokens" "$trf" import "$golden/$folder" \
        --output texts.model --overwrite
    case $folder in
    gpt2|llama) "$trf" generate --model texts.model --temperature 0 --max-tokens 8 --input "$golden/$folder/lines.txt" \
        >got 2>err ;;
    *) "$trf" translate --model texts.model --beam 1 --max-length-a 0 --max-length-b 8 \
        --allow-unk no "$golden/$folder/lines.txt" 2>err |
           sed 's/<extra_id_[0-9]*>//g' >got ;;       # sentinels, which transformers leaves out of a text
    esac
    check "$folder: trf gives the answers of transformers" cmp got "$golden/$folder/answers.txt"
done
# BART begins answers and targets with <s>, which its generation_config.json names
rm texts.model; "$trf" import "$golden/bart" --output texts.model 2>err
bart="--model texts.model --beam 1 --max-length-a 0 --max-length-b 8 --allow-unk no"
expect 0 "translate --forced-first takes a special token by its name" "" \
    "$trf" translate $bart --forced-first "<s>" "$golden/bart/lines.txt"
check "--forced-first <s> gives the answers that BART gives without the option" cmp out "$golden/bart/answers.txt"
expect 0 "translate --forced-first takes another special token" "" \
    "$trf" translate $bart --forced-first "<mask>" "$golden/bart/lines.txt"
check "another first token gives other answers of BART" sh -c "! cmp -s out '$golden/bart/answers.txt'"
head -n 2 "$golden/bart/lines.txt" >line; printf 'the\n\n' >prefix
expect 0 "translate takes --prefixes behind BART's first token" "\"text\":\"the" \
    "$trf" translate $bart --prefixes prefix --json --token-scores line
check "an answer with a prefix shows the prefix, but not BART's first token" \
    sh -c "grep -q '\"text\":\"the.*\"tokens\":.\"the' out && ! grep -q '<s>' out"
expect 0 "score takes BART's source as target" "" "$trf" score --model texts.model --source "$golden/bart/lines.txt" \
    --target "$golden/bart/lines.txt"
check "score gives BART's loss in transformers" \
    sh -c "read -r loss tokens <'$golden/bart/loss.txt'; awk -v loss=\$loss -v tokens=\$tokens '{ s -= \$1; n += \$2 }
    END { d = s / tokens - loss; exit !(n == tokens && d < 1e-4 && d > -1e-4) }' out"
expect 0 "train goes on with an imported BART" "" "$trf" train --source "$golden/bart/lines.txt" \
    --target "$golden/bart/lines.txt" --init-from texts.model --updates 1 --model on.model --valid-size 0 --dropout 0 \
    --label-smoothing 0 --precision float32 --threads 1 --log-every 1 --log on.log
check "the first loss of a BART that is trained on is that of transformers" \
    sh -c \
    "read -r loss tokens <'$golden/bart/loss.txt'; sed -n 's/.*\"update\":1,.*\"loss\":\([0-9.]*\).*/\1/p' on.log |
    awk -v loss=\$loss '{ d = \$1 - loss; exit !(d < 1e-4 && d > -1e-4) }'"
expect 0 "export takes a BART that was trained on" "bart" "$trf" export on.model --output bart.tuned
check "an exported BART names its first token as forced_bos_token_id" grep -q '"forced_bos_token_id":.0' \
    bart.tuned/generation_config.json
expect 0 "generate writes texts with an imported BART" "" \
    "$trf" generate --model texts.model --temperature 0 --max-tokens 7 --input "$golden/bart/lines.txt"
check "texts that a BART generates begin as its answers do" \
    sh -c "[ \"\$(head -c 6 out)\" = \"\$(head -c 6 '$golden/bart/answers.txt')\" ]"
# texts of special tokens; expected: what transformers generates
printf '%s\n' '<|endoftext|>the man' 'the man walks<|endoftext|>a dog' woman >prompts
"$trf" import "$golden/gpt2" --output special.model 2>err
expect 0 "generate --special" "" "$trf" generate --model special.model --special --temperature 0 --max-tokens 8 \
    --input prompts
printf '%s\n' '<|endoftext|>the man woman4V� and and and and' \
    'the man walks<|endoftext|>a dog<more7><more7>@�����' 'womanlayw!!woman!��' >wanted
check "generate --special: the texts of transformers" cmp out wanted
expect 0 "generate without --special" "" "$trf" generate --model special.model --temperature 0 --max-tokens 8 \
    --input prompts
check "generate without --special: special tokens in a text are text" sh -c "! cmp -s out wanted"
# lists of eos_token_id: any of its ids ends an answer. Expected: what transformers generates with min_new_tokens
ends() { fresh llama; echo "{\"bos_token_id\": 1, \"eos_token_id\": $1}" >folder/generation_config.json; }
greedy="--temperature 0 --max-tokens 8 --input $golden/llama/lines.txt"
ends '[2, 265, 278]'
expect 0 "three ends: the folder is imported" "llama" "$trf" import folder --output ends.model
expect 0 "three ends: generate" "" "$trf" generate --model ends.model $greedy
printf '%s\n' "the man walks" "a green street with a riveryra" woman "the dog plays in the street of the womanappppp" \
    "reads and walksg" >wanted
check "three ends: the texts of transformers" cmp out wanted
expect 0 "three ends: generate --min-tokens 4" "" "$trf" generate --model ends.model $greedy --min-tokens 4
printf '%s\n' "the man walkspnh rere" "a green street with a riveryrap" "womanttre " \
    "the dog plays in the street of the womanappppp" "reads and walksg amre" >wanted
check "three ends: the texts of transformers, each with four tokens or more" cmp out wanted
expect 0 "three ends: generate --end 2" "" "$trf" generate --model ends.model $greedy --end 2
check "three ends: an option replaces those of the folder" cmp out "$golden/llama/answers.txt"
expect 0 "three ends: translate" "" "$trf" translate --model ends.model --beam 4 "$golden/llama/lines.txt"
cp out wanted; "$trf" import "$golden/llama" --output one_end.model 2>err
expect 0 "three ends: translate --end" "" "$trf" translate --model one_end.model --beam 4 --end 265 --end f \
    "$golden/llama/lines.txt"
check "three ends: translate takes those of the folder" cmp out wanted
expect 2 "generate --special is refused for SentencePiece" \
    "^trf generate: --special needs byte-level BPE, but 'one_end.model' has subwords$" \
    "$trf" generate --model one_end.model --special x
expect 0 "three ends: export" "llama" "$trf" export ends.model --output ends.folder
check "three ends: export writes the list" grep -q '"eos_token_id":.\[2, 265, 278\]' ends.folder/generation_config.json
expect 0 "three ends: training goes on" "" "$trf" train --objective causal --text "$golden/llama/lines.txt" \
    --init-from ends.model --updates 1 --valid-size 0 --threads 1 --model ends.tuned
expect 0 "three ends: inspect" "target.ends: 2 265 278" "$trf" inspect ends.tuned
ends 265; expect 0 "another end than the tokenizer's is told" "lacks the tokenizer's eos, 2, which ends answers too" \
    "$trf" import folder --output out.model
ends '[2, 2]'; expect 0 "eos twice" "" "$trf" import folder --output out.model
check "eos twice: is the model of one end" cmp out.model one_end.model
for list in '[]' '[2, 280]' '[2, -1]' '[2, 2.5]' '[2, "x"]' '"</s>"' '{}' '[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]'; do
    ends "$list"; refuses "ends: $list" "\"eos_token_id\" to be an id below 280, or a list of 1 to 16"
done
fresh bart; rm folder/generation_config.json
expect 0 "import takes a BART without generation_config.json" "bart" "$trf" import folder --output plain.model
expect 0 "a BART without generation_config.json translates" "" \
    "$trf" translate ${bart#--model texts.model} --model plain.model "$golden/bart/lines.txt"
check "a BART without generation_config.json gives other answers" sh -c "! cmp -s out '$golden/bart/answers.txt'"
fresh bart; change 's/"forced_bos_token_id": 0/"forced_bos_token_id": 2/' generation_config.json
refuses "a forced_bos_token_id that is eos" "\"forced_bos_token_id\" to be an id below 320 that is not eos, got 2"
fresh marian; change 's/"decoder_start_token_id": 69/"decoder_start_token_id": 5/' config.json
refuses "a decoder_start_token_id of Marian that is not pad, eos or bos" \
    "tokenizer's pad, eos or bos, 69, 0 or -1, got 5"
fresh marian; change 's/"decoder_attention_heads": 2/"decoder_attention_heads": 4/' config.json
refuses "a Marian whose encoder and decoder have different numbers of heads" \
    "\"encoder_attention_heads\" is 2 and \"decoder_attention_heads\" is 4"
fresh marian; change 's/"activation_function": "swish"/"activation_function": "tanh"/' config.json
refuses "a Marian with the activation tanh" "gelu, gelu_new, relu or silu, got tanh"
fresh t5; change 's/"feed_forward_proj": "relu"/"feed_forward_proj": "gated-relu6"/' config.json
refuses "a T5 with the feed_forward_proj gated-relu6" "gated-gelu or gated-silu"
fresh t5; change 's/"num_layers": 2/"num_layers": 3/' config.json
refuses "a T5 with fewer layers than its num_layers" \
    "tensor 'encoder.block.2.layer.0.SelfAttention.q.weight' is missing"
fresh gpt2; change 's/"scale_attn_weights": true/"scale_attn_weights": false/' config.json
refuses "a GPT-2 with scale_attn_weights false" "builds only the scale"
for rule in dynamic yarn longrope; do
    fresh llama; change "s/\"rope_type\": \"default\"/\"rope_type\": \"$rule\"/" config.json
    refuses "a Llama with positions scaled by the rule $rule" \
        "scaled by the rule \"$rule\", but trf builds only linear and llama3"
done
llama3() { fresh llama; change "s/\"rope_type\": \"default\"/\"rope_type\": \"llama3\", $1/" config.json; }
llama3 '"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4'
expect 0 "import takes the rope_type llama3" "llama" "$trf" import folder --output out.model
expect 0 "rope_type llama3: positions trained on are max_position_embeddings unless config.json has others" \
    "--rotary-trained 64" "$trf" inspect out.model
llama3 '"factor": 8, "high_freq_factor": 4, "original_max_position_embeddings": 16'
refuses "the rope_type llama3 without low_freq_factor" "expected a number \"low_freq_factor\", got none"
llama3 '"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1.5'
refuses "an original_max_position_embeddings that is no whole number" \
    "expected a whole number \"original_max_position_embeddings\""
llama3 '"factor": 8, "low_freq_factor": 4, "high_freq_factor": 1'
refuses "a low_freq_factor above high_freq_factor" "rotary_high must be more than rotary_low = 4, got 1"
fresh llama; change 's/"num_key_value_heads": 2/"num_key_value_heads": 3/' config.json
refuses "a num_key_value_heads that does not divide the heads" "kv_heads must divide n_heads = 4, got 3"
fresh llama; change 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' config.json
refuses "a Llama with tied embeddings whose lm_head.weight differs" \
    "'lm_head.weight' differs from the embedding, but config.json says that they are tied"
# Qwen 2's tokenizers have no bos, and BART's summarizers no row for the last token
"$trf" import "$golden/gpt2" --output gpt2.kept 2>err; "$trf" generate --model gpt2.kept --temperature 0 \
    --max-tokens 8 --input "$golden/gpt2/lines.txt" >want 2>err
fresh gpt2; change 's/"bos_token": "[^"]*"/"bos_token": null/' tokenizer_config.json
expect 0 "import takes a GPT-2 whose tokenizer has no bos_token" "gpt2" "$trf" import folder --output out.model
"$trf" generate --model out.model --temperature 0 --max-tokens 8 --input "$golden/gpt2/lines.txt" >got 2>err
check "a GPT-2 whose tokenizer has no bos_token begins texts with the bos of config.json" cmp -s got want
fresh gpt2; change 's/"bos_token": "[^"]*"/"bos_token": null/' tokenizer_config.json; change \
    's/"bos_token_id": 0/"bos_token_id": null/' config.json
refuses "a GPT-2 without bos in its tokenizer and in config.json" "needs bos"
# how a sentence encoder pools: what its folder says, and --pooling before that
sentences() { fresh bert; mkdir -p "folder/${2:-1_Pooling}"; printf '%s\n' "$1" >"folder/${2:-1_Pooling}/config.json"; \
    rm -f out.model; }
pools() { expect 0 "import takes $2" "" "$trf" import folder --output out.model; "$trf" embed --model out.model \
    --normalize no <"$golden/bert/lines.txt" >got; check "$2 makes a model that pools by $1" cmp -s got "$1.numbers"; }
for row in mean first max; do
    "$trf" embed --model bert.model --pooling $row --normalize no <"$golden/bert/lines.txt" >$row.numbers
done
sentences '{"word_embedding_dimension": 16, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
pools first "pooling_mode_cls_token true beside pooling_mode_mean_tokens false"
"$trf" embed --model out.model --normalize no --pooling max <"$golden/bert/lines.txt" >got
check "embed --pooling goes before the pooling of the model" cmp -s got max.numbers
expect 0 "export takes a model that pools by its first row" "bert" "$trf" export out.model --output pooled
expect 0 "import takes an exported model that pools by its first row" "bert" "$trf" import pooled --output pooled.model
check "export and import keep the pooling: the model is the same" cmp -s out.model pooled.model
"$trf" quantize out.model --weights bf16 --output half.pooled 2>err; "$trf" embed --model half.pooled \
    --normalize no <"$golden/bert/lines.txt" >got; "$trf" embed --model half.pooled --normalize no \
    --pooling first <"$golden/bert/lines.txt" >want
check "quantize to 16 bits keeps the pooling" cmp -s got want
expect 0 "export --overwrite puts a model without pooling in the place of one with it" "bert" \
    "$trf" export bert.model --output pooled --overwrite
check "export --overwrite deletes modules.json and 1_Pooling of the earlier model" \
    test ! -e pooled/modules.json -a ! -e pooled/1_Pooling/config.json
sentences '{"pooling_mode_mean_tokens": true}'
pools mean "pooling_mode_mean_tokens"
sentences '{"pooling_mode_max_tokens": true}'
pools max "pooling_mode_max_tokens"
sentences '{"pooling_mode": "cls"}'
pools first "the pooling_mode cls"
sentences '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}'
pools mean "pooling_mode_cls_token beside pooling_mode_mean_tokens"
check "import tells that it leaves out one of two poolings" grep -q "1_Pooling/config.json: left out: another pooling" \
    err
sentences '{"pooling_mode_lasttoken": true}'
pools mean "pooling_mode_lasttoken"
sentences '[]'
refuses "a 1_Pooling/config.json that is a list" "1_Pooling/config.json: expected an object of JSON"
sentences '{"pooling_mode_cls_token": true}' pools
cat >folder/modules.json <<'JSON'
[{"path": "", "type": "sentence_transformers.models.Transformer"},
 {"path": "pools", "type": "sentence_transformers.models.Pooling"},
 {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
JSON
pools first "a pooling in a folder that modules.json names"
check "import tells that it leaves out the step Dense of modules.json" \
    grep -q "modules.json: left out: Dense, which trf does not build" err
sentences '{"pooling_mode_cls_token": true}'; echo '[]' >folder/modules.json
pools mean "a modules.json without a pooling"
sentences 'hello'
refuses "a 1_Pooling/config.json that is no JSON" "1_Pooling/config.json"
sentences '{"pooling_mode_cls_token": true}'; echo '{' >folder/modules.json
refuses "a modules.json that is no JSON" "modules.json: line 2: expected JSON"
sentences '{"pooling_mode_cls_token": true}'; echo '{}' >folder/modules.json
refuses "a modules.json that is no list" "modules.json: expected a list of JSON"
# whether BOS stands before a prompt: a model's "bare_prompts" is NUMBER
bare()
{
    expect 0 "import takes $2" "" "$trf" import folder --output out.model --overwrite
    check "$2 makes a model with bare_prompts $1" \
        sh -c "head -c 9000 out.model | tr -d '\\000' | grep -q '\"trf.config.bare_prompts\":\"$1\"'"
}
token='{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}' text='{"Sequence": {"id": "A", "type_id": 0}}'
ids='"special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}'
template() { fresh gpt2; change "s/\"post_processor\": null/\"post_processor\": $1/" tokenizer.json; }
fresh gpt2
bare 1 "a GPT-2 without a template"
template "{\"type\": \"TemplateProcessing\", \"single\": [$token, $text], $ids}"
bare 0 "a template with BOS in front"
single="{\"type\": \"TemplateProcessing\", \"single\": [$token, $text], $ids}"
template "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, $single]}"
bare 0 "a template with BOS in a Sequence"
template "{\"type\": \"TemplateProcessing\", \"single\": [$text, $token], $ids}"
bare 1 "a template with BOS at the end"
check "import tells that it leaves out a token that stands behind a prompt" \
    grep -q "left out: eos, which the tokenizer puts behind a prompt" err
template '{"type": "TemplateProcessing"}'
bare 1 "a template without parts"
template '[1]'
refuses "a post_processor that is a list" "expected a post_processor of type TemplateProcessing, .* got none"
template "{\"type\": \"TemplateProcessing\", \"single\": [$token, $token, $text], $ids}"
refuses "a template with two tokens before a prompt" "at most one token with an id before a text"
template "{\"type\": \"TemplateProcessing\", \"single\": [$token, $text], $(echo "$ids" | sed 's/\[0\]/[5]/')}"
refuses "a template with another token than BOS before a prompt" \
    "puts the token 5 before a text, but trf can put only bos there, 0"
fresh gpt2; change 's/"bos_token"/"add_bos_token": true, "bos_token"/' tokenizer_config.json
bare 1 "a tokenizer.json without a template beside add_bos_token true"
fresh llama
bare 0 "a Llama with add_bos_token true"
fresh llama; change 's/"add_bos_token": true/"add_bos_token": false/' tokenizer_config.json
bare 1 "a Llama with add_bos_token false"
fresh llama; change 's/"add_bos_token": true, //' tokenizer_config.json
bare 0 "a Llama without add_bos_token"
fresh byte_bpe; rm folder/tokenizer.json; change 's/, "st": 299//' vocab.json; change '/^s t$/d' merges.txt
expect 0 "import tells that a row of byte-level BPE has no token" "ids without a token: 1 of 300" \
    "$trf" import folder --output out.model
check "a row of byte-level BPE without a token changes no vector" \
    sh -c "echo 'the man' >line; '$trf' embed --model out.model line >got
        '$trf' embed --model byte_bpe.model line >want; cmp got want"
fresh byte_bpe; change 's/"added_tokens": \[/&{"id": 300, "content": "<last>", "special": true},/' tokenizer.json
expect 0 "import leaves out a last special token that has no row" \
    "left out: the token \"<last>\", for which the model has no row" "$trf" import folder --output out.model
check "a last special token that has no row changes nothing in the model" cmp -s out.model byte_bpe.model
fresh byte_bpe; change 's/"added_tokens": \[/&{"id": 300, "content": "<last>"},/' tokenizer.json
expect 0 "import leaves out a last token that has no row and is not special" \
    "left out: the token \"<last>\", for which" "$trf" import folder --output out.model
check "a last token that has no row and is not special changes nothing in the model" cmp -s out.model byte_bpe.model
for folder in gpt2 bert; do
    fresh $folder; change 's/"vocab_size": [0-9]*/"vocab_size": 1000000000/' config.json
    refuses "a $folder with the vocab_size 1000000000" \
        "the model has 1000000000 tokens, but no tensor has more than"
done
fresh bert_shards; change '$d' vocab.txt
expect 0 "import tells that a row of WordPiece has no token" "ids without a token: 1 of 47" \
    "$trf" import folder --output out.model
fresh roberta_masked; change 's/"hidden_act": "gelu"/"hidden_act": "relu"/' config.json
refuses "a RobertaForMaskedLM with the activation relu" "RobertaForMaskedLM has the activation gelu"
fresh bert_first; change 's/"model_type": "bert"/"model_type": "bert", "problem_type": "ordinal"/' config.json
refuses "a classifier with the problem_type ordinal" "\"problem_type\" is ordinal"
fresh marian; change 's/"d_model": 16/"d_model": 15/' config.json
refuses "a Marian with sines and an odd d_model" "expected an even \"d_model\" of a model with sines, got 15"
fresh t5; change 's/T5ForConditionalGeneration/T5EncoderModel/' config.json
refuses "a T5EncoderModel" "T5EncoderModel is an encoder alone"
fresh llama; : >folder/tokenizer.model
refuses "an empty tokenizer.model" "folder/tokenizer.model: byte 0: expected a piece of SentencePiece, got the end"
fresh llama; echo hello >folder/tokenizer.model
refuses "a tokenizer.model that is a text" \
    "folder/tokenizer.model: byte 4: expected a piece of SentencePiece, got something else"
fresh bert_shards
expect 1 "import refuses one of several files of weights" "if it is one of several files, give their folder" \
    "$trf" import folder/model-00001-of-00002.safetensors --output out.model
cat folder/model-00001-of-00002.safetensors >folder/third.safetensors; change \
    '0,/00002-of/s/model-00002-of-00002.safetensors/third.safetensors/' model.safetensors.index.json
refuses "a tensor that is in two files" "' is in two files, folder/"
fresh llama; change 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": null/' config.json; \
    "$trf" import folder --output mistral.model 2>err
expect 0 "train goes on with an imported Mistral" "" "$trf" train --objective causal --text "$golden/llama/lines.txt" \
    --init-from mistral.model --updates 1 --valid-size 0 --threads 1 --model mistral.tuned
expect 0 "export keeps the type of a Mistral that was trained on" "mistral" \
    "$trf" export mistral.tuned --output mistral.folder
fresh bart; change 's/BartForConditionalGeneration/BartForSequenceClassification/' config.json
refuses "a BartForSequenceClassification" "does not build the head of BartForSequenceClassification"
fresh; change 's/BertModel/BertForQuestionAnswering/' config.json
refuses "a BertForQuestionAnswering" "does not build the head of BertForQuestionAnswering"
fresh bart
change 's/"bos_token_id": 0/&, "num_beams": 4, "no_repeat_ngram_size": 3, "length_penalty": 2.0/' generation_config.json
change 's/"num_beams"/"min_length": 56, "early_stopping": true, &/' generation_config.json
expect 0 "import tells the options that do what generate of transformers does" \
    "trf translate --search-rule hugging-face --beam 4 --no-repeat-ngram 3 --alpha 2 --min-length 55 "\
"--stop-rule finished "\
"--max-length-a 0 --max-length-b 20$" "$trf" import folder --output out.model
fresh t5; change 's/"model_type": "t5"/"model_type": "mt5"/; s/T5ForC/MT5ForC/' config.json
expect 0 "import takes an mT5" "mt5" "$trf" import folder --output out.model
expect 0 "export writes an mT5 as mT5" "mt5, MT5ForConditionalGeneration" "$trf" export out.model --output mt5.folder
fresh; change 's/BertModel/BertForMaskedLM/' config.json
expect 0 "import takes a BertForMaskedLM whose head is in no file" "but its head is in no file" "$trf" import folder \
    --output out.model
check "a BertForMaskedLM whose head is in no file becomes the encoder alone" same out.model bert.model
fresh bert_shards; echo '{"tokenizer_class": "BertJapaneseTokenizer"}' >folder/tokenizer_config.json
refuses "a vocab.txt of BertJapaneseTokenizer" "none that trf reads for the tokenizer_class BertJapaneseTokenizer"
fresh bart; rm folder/generation_config.json; change 's/"model_type"/"force_bos_token_to_be_generated": true, &/' \
    config.json
expect 0 "import takes an old BART with force_bos_token_to_be_generated" "bart" "$trf" import folder --output old.model
"$trf" translate --model old.model --beam 1 --max-length-a 0 --max-length-b 8 --allow-unk no "$golden/bart/lines.txt" \
    >got 2>err
check "an old BART with force_bos_token_to_be_generated begins its answers with bos" cmp -s got \
    "$golden/bart/answers.txt"
fresh t5; change 's/T5Tokenizer/PegasusTokenizer/' tokenizer_config.json
refuses "a T5 with the class PegasusTokenizer" "none that trf reads for the tokenizer_class PegasusTokenizer"
fresh llama; LC_ALL=C sed 's/q_proj/x_proj/g; s/k_proj/q_proj/g; s/x_proj/k_proj/g' folder/model.safetensors >changed \
    && mv changed folder/model.safetensors
refuses "a Llama whose queries and keys are exchanged" \
    "tensor 'model.layers.0.self_attn.q_proj.weight' has shape (8, 16), but part 1 of "\
"decoder.layers.0.self_attn.in_proj_weight needs (16, 16)"
fresh llama; change 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": 16/' config.json
refuses "a Mistral with a sliding_window below max_position_embeddings" \
    "is 16, shorter than \"max_position_embeddings\" = 64"
fresh llama; change 's/"max_position_embeddings": 64/"max_position_embeddings": 8192/' config.json
change 's/"model_type": "llama"/"model_type": "mistral"/' config.json
refuses "a Mistral with more positions than the sliding_window 4096 by default" \
    "is 4096, shorter than \"max_position_embeddings\" = 8192"
fresh llama; change 's/"max_position_embeddings": 64/"max_position_embeddings": 8192/' config.json
change 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": null/' config.json
expect 0 "import takes a Mistral with the sliding_window null" "mistral" "$trf" import folder --output out.model
fresh llama; change 's/"model_type": "llama"/"model_type": "mamba"/' config.json
refuses "the model_type mamba" "it knows bert, .*roberta, marian, .*qwen2"
expect 0 "inspect tells the subwords of byte-level BPE" "300 subwords of byte-level BPE" "$trf" inspect byte_bpe.model
fresh byte_bpe; rm folder/tokenizer.json
expect 0 "import takes vocab.json and merges.txt without tokenizer.json" "300 tokens" \
    "$trf" import folder --output out.model
check "vocab.json and merges.txt make the same model as tokenizer.json" cmp -s byte_bpe.model out.model
tr '\n' '@' <folder/merges.txt | sed 's/@/\r@/g' | tr '@' '\n' >crlf && mv crlf folder/merges.txt
expect 0 "import takes a merges.txt with lines that end with CR LF" "300 tokens" \
    "$trf" import folder --output out.model --overwrite
check "a merges.txt with lines that end with CR LF makes the same model" cmp -s byte_bpe.model out.model
fresh byte_bpe
awk '/^    "merges": / { on = 1 }
    on && /^      \[$/ {
        getline a; getline b; getline end
        sub(/^ *"/, "", a); sub(/",$/, "", a); sub(/^ *"/, "", b); sub(/"$/, "", b)
        print "      \"" a " " b "\"" (end ~ /,/ ? "," : ""); next
    }
    { print }' folder/tokenizer.json >changed && mv changed folder/tokenizer.json
check "a tokenizer.json with merges as texts is made" grep -q '^      "\(.\|..\) .*",$' \
    folder/tokenizer.json
expect 0 "import takes merges as texts" "300 tokens" "$trf" import folder --output out.model
check "merges as texts make the same model as merges as lists" cmp -s byte_bpe.model out.model
fresh byte_bpe; change 's/"special": true/"special": false/' tokenizer.json; echo \
    '{"bos_token": "<s>", "pad_token": {"content": "<pad>"}, "eos_token": "</s>", "unk_token": "<unk>"}' \
    >folder/special_tokens_map.json; echo '{}' >folder/tokenizer_config.json
expect 0 "import tells of an added token that is not special" "1 added token is not special" \
    "$trf" import folder --output out.model
fresh byte_bpe; echo '{"bos_token": "</s>", "pad_token": "</s>", "eos_token": "</s>", "unk_token": "</s>"}' \
    >folder/tokenizer_config.json
expect 0 "import takes one token for bos, eos, pad and unk, as GPT-2 has" "300 tokens" \
    "$trf" import folder --output gpt2.model
expect 0 "one token for bos, eos, pad and unk makes a model without pad and unk" \
    "trf.config.pad\":\"-1\".*trf.config.unk\":\"-1\"" sh -c "head -c 9000 gpt2.model | tr -d '\\000'"
# Llama 3's rule cuts numbers
llama='"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", '\
'"pattern": {"Regex": "(?i:'"'s|'t|'re|'ve|'m|'ll|'d"')|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| '\
'?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false}, '\
'{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},'
split()
{
    fresh byte_bpe
    printf '%s\n' "$llama" | sed "$1" >rule
    awk '/^  "pre_tokenizer": / { while ((getline line <"rule") > 0) print line; on = 1 }
        on && /^  },$/ { on = 0; next }
        !on { print }' folder/tokenizer.json >changed && mv changed folder/tokenizer.json
}
split ''
expect 0 "import takes Llama 3's rule of splitting" "300 tokens" "$trf" import folder --output llama.model
check "Llama 3's rule makes another model than that of ByteLevel" sh -c "! cmp -s byte_bpe.model llama.model"
# Qwen 2's has numbers one by one, and composes characters
split 's/\\\\p{N}{1,3}/\\\\p{N}/'; change 's/"normalizer": null/"normalizer": {"type": "NFC"}/' tokenizer.json
expect 0 "import takes Qwen 2's rule of splitting and NFC" "300 tokens" "$trf" import folder --output qwen.model
check "Qwen 2's rule makes another model than Llama 3's" sh -c "! cmp -s qwen.model llama.model"
embedded() { printf "$2\n" | "$trf" embed --model $1.model 2>err; }
check "with NFC, a letter and its mark embed as the composed letter" \
    [ "$(embedded qwen 'cafe\314\201')" = "$(embedded qwen 'caf\303\251')" ]
check "without NFC, a letter and its mark embed as two characters" [ "$(embedded llama 'cafe\314\201')" != \
    "$(embedded llama 'caf\303\251')" ]
cp "$golden/byte_bpe/vocab.json" "$golden/byte_bpe/merges.txt" folder; rm folder/tokenizer.json
echo '{"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": false}' >folder/tokenizer_config.json
expect 0 "import takes vocab.json and merges.txt of Qwen 2" "300 tokens" "$trf" import folder --output two.model
check "vocab.json and merges.txt of Qwen 2 make a model that embeds as that of tokenizer.json" \
    [ "$(embedded two 'a 12 cafe\314\201')" = "$(embedded qwen 'a 12 cafe\314\201')" ]

# --- training goes on ------------------------------------------------------------------------------
printf 'a man is playing\tgood\ntwo dogs run\tbad\nthe woman is on the street\tgood\na dog , a dog\tbad\n' >labels.tsv
expect 0 "train makes a classifier from an imported BERT" "" "$trf" train --objective classify --tsv labels.tsv \
    --init-from bert.model --model tuned --updates 3 --valid-size 0 --threads 1
expect 0 "a classifier from an imported BERT prints labels" "good\|bad" \
    sh -c "echo 'a dog' | '$trf' classify --model tuned"

# --- damaged folders --------------------------------------------------------------------------------
fresh; rm folder/config.json
refuses "a folder without config.json" "folder: expected config.json, got none$"
fresh; echo '{"model_type": "bert"' >folder/config.json
refuses "a config.json that is cut" "expected JSON, got something else at byte"
fresh; echo '[1]' >folder/config.json
refuses "a config.json that is a list" "expected an object of JSON"
fresh; change 's/"bert"/"gpt9"/' config.json
refuses "the model_type gpt9" "knows no model_type \"gpt9\""
expect 0 "import --as bert takes a folder of an unknown model_type" "47 tokens" \
    "$trf" import folder --as bert --output out.model
fresh; change '/model_type/d' config.json
refuses "a config.json without model_type" "expected \"model_type\", got none"
fresh; change 's/"use_cache": true/"quantization_config": {}/' config.json; refuses "quantised weights" "are quantised"
fresh; change 's/"hidden_size": 16/"hidden_size": "x"/' config.json
refuses "a hidden_size that is a text" "a whole number \"hidden_size\""
fresh; change '/"hidden_size"/d' config.json
refuses "a config.json without hidden_size whose weights are not 768 wide" \
    "(47, 16), but src_embed.weight needs (47, 768)"
fresh; change 's/"hidden_size": 16/"hidden_size": 20/' config.json
refuses "a hidden_size that the weights contradict" "src_embed.weight needs (47, 20)"
fresh; change 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' config.json
refuses "a BERT with fewer layers than its num_hidden_layers" \
    "tensor 'encoder.layer.2.attention.self.query.weight' is missing"
fresh; change 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' config.json
refuses "a BERT with more layers than its num_hidden_layers" "'encoder.layer.1.[a-zA-Z.]*' belongs to no part"
fresh; change 's/"num_attention_heads": 4/"num_attention_heads": 5/' config.json
refuses "a num_attention_heads that does not divide the hidden_size" "n_heads must divide"
fresh; change 's/"hidden_act": "gelu"/"hidden_act": "tanh"/' config.json
refuses "a BERT with the activation tanh" "\"hidden_act\" to be gelu"
fresh; change 's/"layer_norm_eps": 1e-12/"layer_norm_eps": null/' config.json
refuses "a layer_norm_eps that is null" "a number \"layer_norm_eps\""
fresh; change 's/"use_cache": true/"position_embedding_type": "relative_key"/' config.json
refuses "a BERT with relative positions" "builds only absolute"
fresh; change 's/"is_decoder": false/"is_decoder": true/' config.json
refuses "a BERT that is a decoder" "only BERT as an encoder"
fresh; change 's/"vocab_size": 47/"vocab_size": 48/' config.json
refuses "a vocab_size that the weights contradict" "src_embed.weight needs (48, 16)"
fresh bert_first; change 's/"neutral"/"entailment"/' config.json
refuses "an id2label with a label twice" "labels that differ"
fresh bert_first; change 's/"0": "neutral",//' config.json
refuses "an id2label without a name for 0" "the name of a label for \"0\""
fresh bert_first; change 's/"id2label": {/"id2label": 3, "x": {/' config.json
refuses "an id2label that is a number" "an object \"id2label\""
fresh bert_first
change 's/"id2label": {/"problem_type": "single_label_classification", "id2label": {"0": "one"}, "x": {/' config.json
refuses "an id2label with one label" "has 1 label, but trf builds only"
fresh bert_first; change 's/"id2label": {/"x": {/' config.json
refuses "a classifier with more labels in its weights than in config.json" \
    "tensor 'classifier.weight' has shape (3, 16), but head.weight needs (2, 16)"
fresh bert_masked; change 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' config.json
refuses "a BertForMaskedLM whose head is not tied" "only a masked head that is tied"
fresh bert_first; change 's/BertForSequenceClassification/BertForMaskedLM/' config.json
expect 0 "import leaves out the head of another class than that of config.json" "left out: tensor 'classifier.weight'" \
    "$trf" import folder --output out.model
fresh bert_masked; LC_ALL=C sed 's/cls.predictions.transform.dense.weight/cls.predictions.transform.dense.waight/' \
    folder/model.safetensors >changed && mv changed folder/model.safetensors
refuses "a masked head without its dense weight" "tensor 'cls.predictions.transform.dense.weight' is missing"
fresh; change 's/"type_vocab_size": 2/"type_vocab_size": 3/' config.json
refuses "a type_vocab_size that the weights contradict" "src_segments.weight"
fresh roberta_first; change 's/"pad_token_id": 1/"pad_token_id": 40/' config.json
refuses "a pad_token_id of RoBERTa that leaves no positions" "\"pad_token_id\" to be 0 or more"
fresh; rm folder/model.safetensors
refuses "a folder without weights" "expected model.safetensors, pytorch_model.bin, or one of them with"
fresh; mv folder/model.safetensors folder/pytorch_model.bin
refuses "a file of safetensors that is named pytorch_model.bin" "begins with PK (a zip file) or 0x80 (a pickle), got 0x"
fresh; head -c 9000 folder/model.safetensors >cut; mv cut folder/model.safetensors
refuses "a model.safetensors that is cut" "model.safetensors:"
fresh bert_shards; rm folder/model-00002-of-00002.safetensors
refuses "an index of safetensors that names a missing file" "model-00002-of-00002.safetensors"
fresh bert_shards; change 's/model-00002-of-00002/..\/bert\/model/' model.safetensors.index.json
refuses "an index that names a file of another folder" "a file of the same folder"
fresh bert_shards; echo '{}' >folder/model.safetensors.index.json
refuses "an index without weight_map" "an object \"weight_map\""
fresh; rm folder/tokenizer.json
refuses "a folder without a tokenizer" \
    "expected tokenizer.json, vocab.txt, vocab.json and merges.txt, or files of SentencePiece"
fresh; change 's/"WordPiece"/"Unigram"/' tokenizer.json
refuses "a tokenizer.json of BERT with the type Unigram" \
    "normalizer: expected a type Precompiled, .* got BertNormalizer"
fresh; change 's/"BertNormalizer"/"Lowercase"/' tokenizer.json
refuses "a tokenizer.json of BERT with the normalizer Lowercase" "a normalizer of type BertNormalizer, got Lowercase"
fresh; change 's/"the": *5/"the": 6/' tokenizer.json
refuses "a tokenizer.json of BERT with an id twice" "both have the id 6"
fresh; change 's/"the": *5/"the": -1/' tokenizer.json
refuses "a tokenizer.json of BERT with an id below 0" "an id of 0 to"
fresh; change 's/"the": *5/"the": 99/' tokenizer.json
refuses "a tokenizer.json of BERT with an id that no token has" "no token has the id 5"
fresh; change 's/"the": *5/"the": "x"/' tokenizer.json
refuses "a tokenizer.json of BERT with a text for an id" "expected a number for the token \"the\""
fresh bert_shards; change 's/^a$/the/' vocab.txt
expect 0 "import takes a vocab.txt with a token twice, and tells it" \
    "tokens that no text has (empty, with a blank, or equal to a later one): 1" \
    "$trf" import folder --output out.model
echo "a man" | "$trf" embed --model bert_shards.model --normalize no >want 2>err
echo "the man" | "$trf" embed --model out.model --normalize no >got 2>err
check "the last line counts of a token that vocab.txt has twice" cmp -s got want
fresh bert_shards; change 's/^the$//' vocab.txt; printf '\n\n' >>folder/vocab.txt
expect 0 "import leaves out the empty lines of vocab.txt that have no row" \
    "left out: 2 tokens from \"\" on, for which the model has no rows" \
    "$trf" import folder --output out.model --overwrite
check "import tells how many tokens of vocab.txt no text has" grep -q "tokens that no text has .*: 1$" err
fresh bert_shards; change '/CLS/d' vocab.txt
refuses "a vocab.txt without [CLS]" "special token \"\[CLS\]\" among the tokens"
bpe() { fresh byte_bpe; change "$1" "$2"; refuses "byte-level BPE with $3" "$4"; }
merge() { fresh byte_bpe; rm folder/tokenizer.json; change "$1" merges.txt; refuses "a merges.txt with $2" "$3"; }
bpe 's/"normalizer": null/"normalizer": {"type": "NFD"}/' tokenizer.json "the normalizer NFD" \
    "expected no normalizer or NFC, got NFD"
bpe 's/"use_regex": true/"use_regex": false/' tokenizer.json "use_regex false" "\"use_regex\" to be true"
bpe '/^  "decoder": {$/,/^  },$/s/"type": "ByteLevel"/"type": "Metaspace"/' tokenizer.json "the decoder Metaspace" \
    "a decoder of type ByteLevel"
bpe 's/"dropout": null/"dropout": 0.1/' tokenizer.json "dropout" "no \"dropout\", got 0.1"
bpe 's/"end_of_word_suffix": null/"end_of_word_suffix": "<\/w>"/' tokenizer.json "an end_of_word_suffix" \
    "expected no \"end_of_word_suffix\", got \"</w>\""
bpe 's/"a": *[0-9]*,/"a": "x",/' tokenizer.json "a text for an id" "expected a number for the token \"a\""
bpe 's/"a": *[0-9]*,/"a": 1e9,/' tokenizer.json "an id above 16777215" "an id of 0 to 16777215 for \"a\""
bpe 's/"a": *[0-9]*,/"a": 5,/' tokenizer.json "an id twice" "both have the id 5"
bpe 's/"content": "<mask>"/"contents": "<mask>"/' tokenizer.json "an added token without content" \
    "\"id\" and \"content\" of each added token"
bpe 's/"vocab": {/"words": {/' tokenizer.json "no vocab" "an object \"vocab\""
bpe 's/"merges": \[/"merged": [/' tokenizer.json "no merges" "a list \"merges\""
bpe '/^    "merges": \[$/,/^      \]/s/^        ".*",$/        "zzz",/' tokenizer.json "a merge of what is no token" \
    "merge [0-9]*: \"zzz\" is not a token"
split 's/\\\\p{N}{1,3}/\\\\p{N}{1,2}/'
refuses "a Split by an unknown rule" "this Split has another one: (?i:"
split 's/"Isolated"/"Removed"/'
refuses "a Split with the behavior Removed" "the behavior Isolated"
split 's/"add_prefix_space": false/"add_prefix_space": true/'
refuses "add_prefix_space true behind a Split" "to be false after a Split"
split 's/"use_regex": false/"use_regex": true/'
refuses "use_regex true behind a Split" "to be false after a Split"
split 's/"type": "Split"/"type": "Digits"/'
refuses "Digits without individual_digits" "a Sequence of ByteLevel behind Split or Digits"
split 's/"type": "Split"/"type": "Digits", "individual_digits": true/'
refuses "Digits in front of a ByteLevel with use_regex false" "expected \"use_regex\" to be true"
split 's/"type": "Split"/"type": "Digits", "individual_digits": true/; s/"use_regex": false/"use_regex": true/
    s/"add_prefix_space": false/"add_prefix_space": true/'
refuses "add_prefix_space true behind Digits" "to be false after a Split"
split 's/"type": "Split"/"type": "Digits", "individual_digits": true/; s/"use_regex": false/"use_regex": true/'
expect 0 "import takes SmolLM's rule of splitting" "300 tokens" "$trf" import folder --output smollm.model
check "SmolLM's rule makes another model than that of ByteLevel and Llama 3's" \
    sh -c "! cmp -s smollm.model byte_bpe.model && ! cmp -s smollm.model llama.model"
expect 0 "export takes a model with SmolLM's rule" "bert" "$trf" export smollm.model --output smollm.folder
check "export writes no merges.txt for SmolLM's rule, which it cannot tell" test ! -e smollm.folder/merges.txt
expect 0 "import takes an exported model with SmolLM's rule" "300 tokens" \
    "$trf" import smollm.folder --output smollm.again
check "export and import keep SmolLM's rule: the model is the same" same smollm.model smollm.again
merge '3s/.*/zzz a/' "what is no token" "merges.txt: line 3: \"zzz\" is not a token"
merge '4s/.*/abc/' "one token in a line" \
    "merges.txt: line 4: expected two tokens with a blank between them, got \"abc\""
merge '4s/$/ a/' "three tokens in a line" "merges.txt: line 4: expected two tokens"
merge '4s/^/ /' "a blank in front of a line" "merges.txt: line 4: expected two tokens"
merge '4s/.*//' "an empty line" "merges.txt: line 4: expected two tokens"
merge '4s/.*/q q/' "a merge that forms no token" "merge 2, byte [0-9]*: expected tokens that form a third one"
merge '4{p;}' "a merge twice" "merge 3, byte [0-9]*: expected every merge once"
fresh byte_bpe; rm folder/tokenizer.json folder/merges.txt
refuses "a vocab.json without merges.txt" "vocab.json and merges.txt, or files of SentencePiece"
fresh byte_bpe; rm folder/tokenizer.json; change 's/"a": *[0-9]*, //' vocab.json
refuses "a vocab.json without a token that merges.txt has" "is not a token\|no token has the id"
fresh byte_bpe; echo '{"pad_token": "<nothing>"}' >folder/tokenizer_config.json
refuses "a pad_token that is no token" "special token \"<nothing>\" among the tokens"

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
    expect 0 "import takes pytorch/$file.bin" "47 tokens; it took at most [0-9]* MB" "$trf" import folder \
        --output $file.model
    check "pytorch/$file.bin makes the same model as safetensors" cmp -s bert.model $file.model
done
if [ $zips = yes ]; then
    fresh bert_shards; rm folder/*.safetensors*
    expect 0 "import takes two files of PyTorch" "47 tokens" "$trf" import folder --output shards.model
    check "two files of PyTorch make the same model as safetensors" cmp -s bert_shards.model shards.model
    fresh bert_shards; rm folder/*.safetensors* folder/pytorch_model-00002-of-00002.bin
    refuses "an index of PyTorch that names a missing file" "pytorch_model-00002-of-00002.bin: No such file"
fi
# changed FILE: the weights' fourth number with other bytes
changed() { torchs $1; printf "$2" | dd of=folder/pytorch_model.bin bs=1 \
    seek="$(sed -n "s/^$1 //p" "$golden/pytorch/offsets.txt")" conv=notrunc 2>dd.txt; }
changed pickles.bin '\000\000\300\177'
refuses "a weight that is not a number" "'embeddings.word_embeddings.weight': number 3 is infinite or not a number"
changed pickles.bin '\000\000\200\177'
refuses "a weight that is infinite" "'embeddings.word_embeddings.weight': number 3 is infinite or not a number"
changed pickles.bin '\000\000\200\077'
expect 0 "import takes a file of PyTorch with another number" "47 tokens" "$trf" import folder --output one.model
check "another number in a file of PyTorch is in the model" [ "$(cmp -l bert.model one.model | wc -l)" -ge 1 ]
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
    expect 1 "import refuses hostile/$file" "$message" "$trf" import "folder/$file" --output out.model
    rm "folder/$file"
done <"$golden/hostile/messages.txt"
check "refused hostile files write no model and run nothing" test ! -e out.model -a ! -e hacked
bytes=$(wc -c <"$golden/hostile/sound.bin")
n=0
while [ $n -lt "$bytes" ]; do
    head -c $n "$golden/hostile/sound.bin" >folder/cut.bin
    "$trf" import folder/cut.bin --output out.model >out 2>err
    [ $? -eq 1 ] && grep -q "^trf import: folder/cut.bin[,:]" err || { echo "$n bytes"; cat err; }
    n=$((n + 1))
done >cuts
check "import refuses a file of pickles that is cut anywhere: $(head -n 1 cuts)" [ ! -s cuts ]
check "the file of pickles to cut has more than 190 bytes" [ "$bytes" -gt 190 ]

# --- models of fairseq and Marian (tools/convert): the answers and scores of these programs -------------------------
scores_agree() { paste got "$golden/$1/answers.txt" |
    awk -F '\t' '{ d = $3 - $7; sub(/ +$/, "", $4); bad += !(d < 5e-5 && d > -5e-5) || $4 != $8 }
        END { exit bad || !NR }'; }
of_fairseq="--n-best 1 --alpha 1 --min-length 1 --max-length-a 0 --max-length-b 40"
of_marian="--n-best 5 --alpha 1 --word-penalty 0.3 --allow-unk no --max-length-a 3 --max-length-b 3"
for program in "fairseq $of_fairseq" "fairseq_ensemble $of_fairseq --with fairseq.model" "marian_nmt $of_marian" \
    "marian_nmt_ensemble $of_marian --with marian_nmt.model --ensemble-weights 0.25,1.5"; do
    folder=${program%% *}
    expect 0 "import takes $folder" "[1-9][0-9]* tokens" "$trf" import "$golden/$folder" --output $folder.model
    "$trf" translate --model $folder.model --search-rule ${folder%%_*} --beam 5 ${program#* } \
        --scores "$golden/$folder/lines.txt" >got 2>err
    check "$folder: translate gives as many answers as the program of the model" lines_are \
        "$(wc -l <"$golden/$folder/answers.txt")" got
    check "$folder: translate gives the answers and scores of the program of the model" scores_agree $folder
done
expect 1 "export refuses a model of Marian NMT, which fits no architecture" "fits no architecture" \
    "$trf" export marian_nmt.model --output no
expect 2 "export refuses the unknown type --as marian-nmt" "trf knows no such model_type" \
    "$trf" export marian_nmt.model --output no --as marian-nmt

# --- models of several languages: tags of sources and answers -------------------------------------------
for folder in m2m_100 nllb mbart mbart50; do
    expect 0 "import takes $folder" "[1-9][0-9]* tokens" "$trf" import "$golden/$folder" --output $folder.model
    read -r from to <"$golden/$folder/languages.txt"
    to="--target-language $to"
    "$trf" translate --model $folder.model --source-language "$from" $to --beam 1 --max-length-a 0 --max-length-b 8 \
        --allow-unk no \
        "$golden/$folder/lines.txt" >got 2>err
    check "$folder: translate gives the answers of transformers" cmp got "$golden/$folder/answers.txt"
done
echo "a green street with a river" >line
"$trf" translate --model m2m_100.model --source-language en --target-language fr line >want 2>err
"$trf" translate --model m2m_100.model --source-first __en__ --forced-first __fr__ line >got 2>err
check "a pair of languages translates as their tokens do" cmp got want
"$trf" translate --model m2m_100.model --source-language en --target-language de line >other 2>err
check "another target language gives another translation" sh -c "! cmp -s other want"
expect 2 "translate refuses M2M-100 without --source-language" \
    "give --source-language, one of those that 'm2m_100.model' knows: af am ar .* zu$" \
    "$trf" translate --model m2m_100.model line
expect 2 "translate refuses M2M-100 without --target-language" "give --target-language, one of those" \
    "$trf" translate --model m2m_100.model --source-language en line
expect 2 "translate refuses an unknown --target-language of M2M-100" "target-language xx: 'm2m_100.model' knows af am" \
    "$trf" translate --model m2m_100.model --source-language en --target-language xx line
expect 2 "translate refuses --source-language beside --source-first" \
    "source-language and --source-first cannot be combined: both" \
    "$trf" translate --model m2m_100.model --source-language en --source-first 5 line
read -r from to <"$golden/mbart/languages.txt"
"$trf" translate --model mbart.model --source-language "$from" --target-language "$to" line >got 2>err
"$trf" translate --model mbart.model --source-language "$from" line >want 2>err
check "mBART-25 answers in its own language without --target-language" sh -c "test -s want && cmp got want"
"$trf" translate --model mbart.model --source-language "$from" --target-language "$from" line >got 2>err
"$trf" translate --model mbart.model --source-language "$from" --start "$from" line >want 2>err
check "mBART-25 begins an answer with --target-language as with --start" sh -c "test -s want && cmp got want"
expect 2 "translate refuses an unknown --target-language of mBART-25" "target-language xx: 'mbart.model' knows ar_AR" \
    "$trf" translate --model mbart.model --source-language "$from" --target-language xx line
expect 2 "translate refuses --source-language for a model without languages" \
    "'texts.model' has no tokens for the languages of its sources" \
    "$trf" translate --model texts.model --source-language en line
pair="--source-language eng_Latn --target-language fra_Latn"
expect 0 "translate writes alignments beside tags of languages" '"alignment":\[' "$trf" translate --model nllb.model \
    --json --alignments --attention $pair line
echo the >prefix
expect 0 "translate takes --prefixes behind the tag of a language" "^the" \
    "$trf" translate --model nllb.model $pair --prefixes prefix line
"$trf" translate --model nllb.model --json --token-scores $pair --prefixes prefix line >out 2>err
check "an answer with a prefix shows the prefix, but not the tag of its language" \
    sh -c "! grep -q '\"tokens\":.\"fra_Latn' out && grep -q '\"tokens\":.\"[^\"]*the\"' out"
expect 2 "translate refuses --prefixes without --target-language" "give --target-language" "$trf" translate \
    --model nllb.model --source-language eng_Latn --prefixes prefix line
expect 0 "generate needs no languages" "" sh -c "'$trf' generate --model m2m_100.model --max-tokens 4 --input line"
fresh nllb; change 's/"legacy_behaviour": false/"legacy_behaviour": true/' tokenizer_config.json
expect 0 "import takes NLLB with legacy_behaviour true" "272 tokens" "$trf" import folder --output out.model
check "NLLB with legacy_behaviour true has tags behind sources" \
    sh -c "head -c 9000 out.model | grep -q 'source-last \*'"
fresh m2m_100; rm folder/tokenizer_config.json
expect 0 "import knows M2M-100 by its files, without tokenizer_config.json" "169 tokens" \
    "$trf" import folder --output out.model
check "M2M-100 without tokenizer_config.json makes the same model" cmp -s m2m_100.model out.model
fresh mbart50; rm folder/tokenizer_config.json
expect 0 "import knows mBART-50 by its number of rows, without tokenizer_config.json" "tokens" \
    "$trf" import folder --output out.model
check "mBART-50 without tokenizer_config.json makes the same model" cmp -s mbart50.model out.model
fresh mbart; rm folder/tokenizer_config.json
expect 0 "import knows mBART-25 by its number of rows, without tokenizer_config.json" "tokens" \
    "$trf" import folder --output out.model
check "mBART-25 without tokenizer_config.json makes the same model" cmp -s mbart.model out.model
fresh m2m_100; rm folder/vocab.json; refuses "M2M-100 without vocab.json" "got none that trf reads"
fresh m2m_100; change 's/"language_codes": "m2m100"/"language_codes": "wmt21"/; s/^{/{"language_codes": "wmt21", /' \
    tokenizer_config.json
expect 0 "import takes M2M-100 with the languages of WMT 21" "169 tokens" "$trf" import folder --output out.model
expect 2 "M2M-100 with the languages of WMT 21 knows these alone" "knows en ha is ja cs ru zh de$" \
    "$trf" translate --model out.model --source-language fr line
rm out.model
fresh m2m_100; change 's/"vocab_size": 169/"vocab_size": 160/' config.json
refuses "M2M-100 with fewer rows than its tokens need" "the tokenizer has 161 ids, but the model has only 160"
fresh mbart50; change 's/^{/{"added_tokens_decoder": {"91": {"content": "<mask>"}, "39": {"content": "ar_AR"}},/' \
    tokenizer_config.json
expect 0 "import takes added tokens of mBART-50 that it has anyway" "92 tokens" "$trf" import folder --output out.model
check "added tokens of mBART-50 that it has anyway change nothing in the model" cmp -s mbart50.model out.model
fresh mbart50; change 's/^{/{"added_tokens_decoder": {"38": {"content": "ar_AR"}},/' tokenizer_config.json
refuses "a language of mBART-50 with another id" \
    "\"ar_AR\" has the id 38, but by the order of pieces, languages and special tokens it has the id 39"
fresh mbart; change 's/"decoder_start_token_id": 58/"decoder_start_token_id": 30/' config.json
refuses "a decoder_start_token_id of mBART-25 that is no language" "tokenizer's pad, eos or bos"
fresh roberta_first; change 's/"roberta"/"xlm-roberta"/; s/RobertaFor/XLMRobertaFor/' config.json
expect 0 "import takes XLM-R" "xlm-roberta, " "$trf" import folder --output out.model
cat "$golden/roberta_first/lines.txt" "$golden/roberta_first/pairs.tsv" | "$trf" classify --model out.model \
    --scores 2>err | cut -f 1 >got
cut -f 1 "$golden/roberta_first/scores.txt" >want
check "XLM-R gives the probabilities of RoBERTa with the same weights" near got want

# --- tokenizer.json of SentencePiece's kind -------------------------------------------------------------
json() { fresh "$1"; rm -f folder/spiece.model folder/tokenizer.model; cp "$golden/json/$1.json" \
    folder/tokenizer.json; }
for folder in t5 llama; do
    json $folder
    expect 0 "import takes $folder with tokenizer.json alone" "tokens" "$trf" import folder --output out.model
    case $folder in
    llama) "$trf" generate --model out.model --temperature 0 --max-tokens 8 --input "$golden/$folder/lines.txt" >got \
        2>err ;;
    *) "$trf" translate --model out.model --beam 1 --max-length-a 0 --max-length-b 8 \
        --allow-unk no "$golden/$folder/lines.txt" 2>err |
           sed 's/<extra_id_[0-9]*>//g' >got ;;
    esac
    check "$folder with tokenizer.json alone gives the answers of transformers" cmp got "$golden/$folder/answers.txt"
    rm out.model
done
# by NAME SED WHAT MESSAGE: a changed tokenizer.json, by sed or by awk
by() { json "$1"; change "$2" tokenizer.json; refuses "a tokenizer.json of $1 with $3" "$4"; }
nllb() { fresh nllb; change "$1" tokenizer.json; refuses "a tokenizer.json of nllb with $2" "$3"; }
by t5 's/"type": "Metaspace"/"type": "Metaspaces"/' "no Metaspace" \
    "tokenizer.json: pre_tokenizer.pretokenizers\[1\]: expected a type Metaspace, or .* got Metaspaces"
by t5 's/"type": "WhitespaceSplit"/"type": "Punctuation"/' "the pre_tokenizer Punctuation" \
    "pre_tokenizer.pretokenizers\[0\]: expected a type Metaspace, .* got Punctuation"
by t5 's/"replacement": "[^"]*"/"replacement": "_"/' "the replacement _" \
    "pre_tokenizer.pretokenizers\[1\]: expected the replacement U+2581, got _"
by t5 's/"normalizer": null/"normalizer": {"type": "Lowercase"}/' "the normalizer Lowercase" \
    "normalizer: expected a type Precompiled, Replace, .* got Lowercase"
by t5 's/"normalizer": null/"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip"}, {"type": "NFKC"}]}/' \
    "the normalizer NFKC in a Sequence" "normalizer.normalizers\[1\]: .* got NFKC"
by t5 's/"normalizer": null/"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AA"}/' \
    "a precompiled_charsmap that is half of base64" "one \"precompiled_charsmap\" in base64, got AA"
by t5 's/"normalizer": null/"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AA*A"}/' \
    "a precompiled_charsmap that is no base64" "got something else at character 2 of the map"
by t5 's/"normalizer": null/"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}/' \
    "a precompiled_charsmap that is no map" "tokenizer.json: .*byte"
by t5 's/"normalizer": null/"normalizer": {"type": "Replace", "pattern": {"String": "``"}, "content": "\\""}/' \
    "a Replace of another text than blanks" "normalizer: expected a Replace of \" \" by U+2581 or .* got \`\`"
by t5 '/^  "decoder": {$/,/^  },$/s/"type": "Metaspace"/"type": "WordPiece"/' "the decoder WordPiece" \
    "decoder: expected a type Metaspace, .* got WordPiece"
by t5 's/"vocab": \[/"words": [/' "no vocab" "model.vocab: expected a list"
by t5 's/"unk_id": 2/"unk_id": 2000/' "an unk_id behind all tokens" "model.unk_id: expected the unknown token"
by t5 's/^        -[2-9][0-9.]*$/        "x"/' "a text for a score" \
    "model.vocab: entry [0-9]*: expected a list of a text and a number"
by t5 's/"content": "<extra_id_0>"/"contents": "<extra_id_0>"/' "an added token without content" \
    "added_tokens: expected \"id\" and \"content\" of each"
by t5 's/"id": 0,/"id": 7,/' "an added token of another id" "added_tokens: \"<pad>\" has the id 7, but 0 in the model"
by t5 's/"content": "<extra_id_0>"/"content": "<extra_id_1>"/' "an added token twice" \
    "added_tokens: \"<extra_id_1>\" has the id\|the token \"<extra_id_1>\" occurs twice"
by llama 's/"<0x41>": [0-9]*/"<0x4G>": 68/' "a byte without a token" \
    "model.byte_fallback: expected a token for each of 256 bytes, got fewer"
by llama 's/"dropout": null/"dropout": 0.5/' "dropout" "model.dropout: expected none: its ids would be random"
by llama 's/"ignore_merges": false/"ignore_merges": true/' "ignore_merges true" \
    "model.ignore_merges: expected false, got true"
by llama 's/"end_of_word_suffix": null/"end_of_word_suffix": "<\/w>"/' "an end_of_word_suffix" \
    "model.end_of_word_suffix: expected none, got </w>"
by llama 's/"unk_token": "<unk>"/"unk_token": "<unknown>"/' "an unk_token that is no token" \
    "model.unk_token: expected a token of the model, got <unknown>"
by llama 's/"merges": \[/"merged": [/' "no merges" "model.merges: expected a list"
by llama 's/^        "r",$/        "rr",/' "a merge of what is no token" \
    "model.merges\[0\]: expected two tokens that form a third one, got \"rr\" and \"e\""
nllb 's/"fuse_unk": true/"fuse_unk": false/' "fuse_unk false" "model.fuse_unk: expected true, got false"
# merges N...: keeps these merges, in this order; "re" with a blank has the merges 8 and 9
merges()
{
    fresh nllb
    awk -v order="$*" '/"merges": \[/ { print; on = 1; next }
        on && /^    \]/ {
            n = split(order, k, " "); on = 0
            for (i = 1; i <= n; i++) printf "%s      ]%s\n", at[k[i]], i < n ? "," : ""
        }
        on && /^      \]/ { m++; next } on { at[m + 0] = at[m + 0] $0 "\n"; next } { print }' folder/tokenizer.json \
            >changed && mv changed folder/tokenizer.json
}
all() { seq 0 37; }
merges $(all)
expect 0 "import takes a tokenizer.json of nllb with all merges" "272 tokens" "$trf" import folder --output out.model
check "all merges of nllb, written anew, make the same model" cmp -s nllb.model out.model; rm out.model
merges $(all | grep -v -x 9)
refuses "a tokenizer.json of nllb without one of two merges of a piece" \
    "model.merges: expected a merge for each pair that forms a piece, as SentencePiece has it; \".*re\" has 1 of 2"
merges $(all | sed 's/^9$/9 9/')
refuses "a tokenizer.json of nllb with a merge twice" "model.merges\[10\]: expected every merge once"
merges $(all | sed -e '/^8$/d' -e 's/^20$/20 8/')
refuses "a tokenizer.json of nllb with the two merges of a piece apart" \
    "model.merges\[20\]: expected the merges that form \".*re\" in a row"
merges $(all | sed -e '/^[89]$/d')
expect 0 "import takes a tokenizer.json of nllb with a token that no merge forms" "272 tokens" \
    "$trf" import folder --output out.model
tokens() { "$trf" translate --model "$1" --source-language eng_Latn --target-language fra_Latn \
    --json "$golden/nllb/lines.txt" 2>err; }
tokens out.model >got; tokens nllb.model >want
check "a token that no merge forms is no piece, nor are those that begin with it" sh -c "! grep -q 'reads\",' got"
check "a token that merges form, and one that begins with it, are pieces" grep -q 'reads",' want
rm -f out.model

# --- one file ----------------------------------------------------------------------------------------
fresh
expect 0 "import takes a file of safetensors in its folder" "47 tokens" \
    "$trf" import folder/model.safetensors --output file.model
check "a file of safetensors makes the same model as its folder" cmp -s bert.model file.model
cp "$golden/pytorch/pickles.bin" folder/other.bin
expect 0 "import takes a file of PyTorch beside one of safetensors" "47 tokens" \
    "$trf" import folder/other.bin --output file.model --overwrite
check "a file of PyTorch beside one of safetensors makes the same model as the folder" cmp -s bert.model file.model
expect 0 "import takes a file of the current folder" "47 tokens" \
    sh -c "cd folder && '$trf' import other.bin --output ../here.model"
cp "$golden/pytorch/pickles.bin" alone.bin
expect 1 "import refuses a file without config.json beside it" \
    "alone.bin: expected config.json and the tokenizer's files beside it, but there is no ./config.json" \
    "$trf" import alone.bin --output out.model
expect 1 "import refuses a file that is not there" "folder/nothing.bin: No such file" "$trf" import folder/nothing.bin \
    --output out.model
# --- SentencePiece: the words of a vocabulary as pieces, which have the same ids ----------------------
piece() { printf '\012'"$(printf '\\%03o' $((${#1} + 9)))"'\012'"$(printf '\\%03o' ${#1})"'%s\025\0\0\0\0\030'"$2" \
    "$1"; }
word() { printf '\012'"$(printf '\\%03o' $((${#1} + 12)))"'\012'"$(printf '\\%03o' $((${#1} + 3)))"; \
    printf '\342\226\201%s\025\0\0\0\0\030\001' "$1"; }
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
{"tokenizer_class": "MarianTokenizer", "pad_token": "[PAD]", "unk_token": {"content": "[UNK]"}, "eos_token": "[SEP]",
 "cls_token": "[CLS]", "sep_token": "[SEP]"}
JSON
}
same() { echo "$1" | "$trf" embed --model bert.model >want; echo "$2" |
    "$trf" embed --model out.model >got; [ -s want ] && cmp -s want got; }
marian
expect 0 "import takes source.spm, target.spm and vocab.json" "47 tokens" "$trf" import folder --output out.model
check "pieces of source.spm have the ids of vocab.json" same "the man are play" "the man are play"
check "a piece that vocab.json lacks is unknown, as unknown characters are" same "the zzzzzz dog" "the zz dog"
check ">>fr<< is unknown where it is no token" same "zzzzzz the dog" ">>fr<< the dog"
check "[MASK] in a text is unknown to source.spm, and no special token" same "zzzzzz" "[MASK]"
marian; rm folder/tokenizer_config.json; change 's/\[SEP\]/<\/s>/; s/\[UNK\]/<unk>/; s/\[PAD\]/<pad>/' vocab.json
refuses "Marian's files without tokenizer_config.json for BERT, which needs [CLS]" "source_bos needs bos"
marian; rm folder/vocab.json
refuses "source.spm and target.spm without vocab.json" "vocab.json: No such file"
marian; rm folder/target.spm
refuses "source.spm and vocab.json without target.spm" "target.spm: No such file"
marian; change 's/"the": *5/"the": 6/; s/the": *5/the": 6/' vocab.json
refuses "Marian's vocab.json with an id twice" "both have the id 6"
marian; change 's/the": *5/the": -1/' vocab.json
refuses "Marian's vocab.json with an id below 0" "vocab.json: expected an id of 0 to"
marian; change 's/the": *5/the": 5.5/' vocab.json
refuses "Marian's vocab.json with an id that is no whole number" "got 5.5"
marian; change 's/the": *5/the": "x"/' vocab.json
refuses "Marian's vocab.json with a text for an id" "vocab.json: expected an id of 0 to"
marian; change 's/the": *5/the": 99/' vocab.json
refuses "Marian's vocab.json with an id beyond the number of tokens" "has the id 99, but there are only 47 tokens"
marian; change '/\[SEP\]/d' vocab.json
refuses "Marian's vocab.json without one of the ids" "but there are only 46 tokens"
marian; change 's/"\[SEP\]"/"none"/' vocab.json
refuses "Marian's vocab.json without the eos_token" "expected the special token \"\[SEP\]\" among the tokens"
marian; change 's/\[UNK\]/\xe2\x96\x81the/' tokenizer_config.json
refuses "Marian's tokenizer with an unk_token that is a word" "special\[3\]: expected the id of no piece of text, got 5"
marian; head -c 60 folder/source.spm >cut; mv cut folder/source.spm
refuses "a source.spm that is cut" "source.spm: .*byte"
marian; change 's/"vocab_size": 47/"vocab_size": 46/' config.json
refuses "Marian's tokenizer with more ids than the model has rows" "the tokenizer has 47 ids, but the model has only 46"
marian; change 's/Marian/Pegasus/' tokenizer_config.json
refuses "Marian's files with the class PegasusTokenizer" "got none that trf reads"

numbered()
{
    fresh; rm folder/tokenizer.json
    { piece '<pad>' '\003'; piece '<unk>' '\002'; piece '<s>' '\003'; piece '</s>' '\003'; piece '[MASK]' '\003'; word \
        the; word a; word man; normal; } >folder/$1
    echo '{"tokenizer_class": "'$2'", "bos_token": "<s>", "pad_token": "<pad>"'"$3}" >folder/tokenizer_config.json
}
numbered tokenizer.model LlamaTokenizer ''
expect 0 "import takes a tokenizer.model with fewer tokens than rows" "47 tokens" \
    "$trf" import folder --output out.model
check "piece i of a tokenizer.model has id i" same "the a man" "the a man"
numbered tokenizer.model LlamaTokenizerFast \
    ', "added_tokens_decoder": {"5": {"content": "\u2581the"}, "8": {"content": "<new>"}}'
expect 0 "import takes a tokenizer.model and tokens that are added" "47 tokens" "$trf" import folder --output out.model
check "added tokens leave the pieces of a tokenizer.model as they are" same "the a man" "the a man"
numbered tokenizer.model LlamaTokenizer ', "added_tokens_decoder": {"6": {"content": "<new>"}}'
refuses "an added token with the id of another piece" "the id 6 is \"<new>\", but piece 6"
numbered tokenizer.model LlamaTokenizer \
    ', "added_tokens_decoder": {"8": {"content": "<new>"}, "9": {"content": "<new>"}}'
refuses "a tokenizer.model with an added token twice" "more\[1\]: expected every token once"
numbered tokenizer.model LlamaTokenizer ', "added_tokens_decoder": {"x": {"content": "<new>"}}'
refuses "an added token whose id is no number" "expected an id and its \"content\""
numbered tokenizer.model LlamaTokenizer ', "added_tokens_decoder": {"47": {"content": "<new>"}}'
expect 0 "import leaves out an added token of tokenizer.model with an id behind all rows" \
    "left out: the token \"<new>\", for which the model has no row" "$trf" import folder --output out.model
numbered spiece.model T5Tokenizer ', "extra_ids": 30'
expect 0 "import takes a spiece.model with 30 extra_ids" "47 tokens" "$trf" import folder --output out.model
check "piece i of a spiece.model has id i" same "the a man" "the a man"
numbered spiece.model T5Tokenizer ''
refuses "a spiece.model with 100 extra_ids for a model of 47 rows" \
    "the tokenizer has 108 ids, but the model has only 47"

# --- a new model with the tokens of an imported one ------------------------------------------------------------------
small="--d-model 32 --n-heads 2 --d-ff 64 --decoder-layers 1 --dropout 0 --label-smoothing 0 --learning-rate 0.01 \
    --warmup 20 --schedule constant"
for folder in m2m_100 mbart t5 marian bart; do
    head -n 4 "$golden/$folder/lines.txt" >lines
    "$trf" import "$golden/$folder" --output tokens.model --overwrite >out 2>err
    train="--vocab-from tokens.model --source lines --target lines --valid-size 0 --encoder-layers 1 $small --threads 1"
    expect 0 "$folder: a new model with its tokens trains for half of the updates" "done: 100 updates" \
        "$trf" train $train --updates 100 --model new.model --overwrite
    expect 0 "$folder: a new model with its tokens trains on from its checkpoint" "resumed from update 101" \
        "$trf" train $train --updates 200 --model new.model --resume
    "$trf" translate --model new.model lines >got 2>err
    check "$folder: a new model with its tokens learns to copy lines" cmp -s got lines
done
for folder in gpt2 llama; do
    "$trf" import "$golden/$folder" --output tokens.model --overwrite >out 2>err
    expect 0 "$folder: a new language model with its tokens trains" "done: 20 updates" "$trf" train --objective causal \
        --vocab-from tokens.model --text lines --valid-size 0 $small --threads 1 --updates 20 --model new.model \
        --overwrite
    expect 0 "$folder: a new language model with its tokens generates" "" \
        "$trf" generate --seed 1 --model new.model --prompt "the man"
    check "$folder: a new language model with its tokens generates a text" test -s out
done

expect 2 "import refuses a command line without a folder" "give one folder" "$trf" import --output out.model
expect 2 "import refuses a command line without --output" "give --output FILE" "$trf" import "$golden/bert"

# --- what transformers 5.24 does with files that say the same thing, or the half of it -----------------------------
expect_vector()         # NAME LINE OTHER: out.model gives LINE the vector that bert.model gives OTHER
{
    echo "$2" | "$trf" embed --model out.model --normalize no >got 2>err
    echo "$3" | "$trf" embed --model bert.model --normalize no >want 2>err
    check "$1" cmp -s got want
}
settings() { fresh bert; echo "$1" >folder/tokenizer_config.json; }
told() { expect 0 "import takes $1" "$2" "$trf" import folder --output out.model; }
settings '{"tokenizer_class": "BertTokenizerFast", "do_lower_case": false}'
told "a do_lower_case that contradicts tokenizer.json, and tells that it follows the class BertTokenizer" \
    "\"do_lower_case\" is false, but \"lowercase\" of tokenizer.json is true: "\
"transformers follows the class BertTokenizer"
check "import tells no strip_accents that follows from do_lower_case" sh -c "! grep -q strip_accents err"
expect_vector "with do_lower_case false of BertTokenizerFast a word with a capital letter is unknown" "A man Dog" \
    "zzzz man zzzz"
settings '{"do_lower_case": false}'
told "a do_lower_case without tokenizer_class, and tells that it follows the class of the model_type" \
    "follows the class BertTokenizer"
settings '{"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false}'
told "a do_lower_case of PreTrainedTokenizerFast, which has no such setting" "47 tokens"
check "with PreTrainedTokenizerFast tokenizer.json counts, and import tells no contradiction" \
    sh -c "cmp -s out.model bert.model && ! grep -q follows err"
fresh bert; change 's/"lowercase": true/"lowercase": false/' tokenizer.json
told "a tokenizer.json without lower case, and tells that do_lower_case, which is missing, is true" \
    "\"do_lower_case\" is true as it is not there, but \"lowercase\""
check "a do_lower_case that is missing is true: the model is the same" cmp -s out.model bert.model
settings '{"strip_accents": false}'
told "a strip_accents that contradicts tokenizer.json, and tells it" \
    "\"strip_accents\" is false, but \"strip_accents\" of tokenizer.json is true"
expect_vector "with strip_accents false a word with an accent is unknown" "café man" "zzzz man"
settings '{"tokenize_chinese_chars": false}'
told "a tokenize_chinese_chars that contradicts tokenizer.json, and tells it" \
    "\"handle_chinese_chars\" of tokenizer.json"
fresh bert
change 's/"type": "BertNormalizer",/"type": "Sequence", "normalizers": [{"type": "BertNormalizer"}],/' tokenizer.json
told "a normalizer that is a Sequence of one" "47 tokens"
check "a Sequence of one normalizer makes the model of that normalizer" cmp -s out.model bert.model
fresh byte_bpe; echo '{"tokenizer_class": "RobertaTokenizer", "add_prefix_space": false}' >folder/tokenizer_config.json
told "an add_prefix_space that contradicts tokenizer.json, and tells that it follows the class RobertaTokenizer" \
    "\"add_prefix_space\" of tokenizer.json is true: transformers follows the class RobertaTokenizer"
# without a class of its own the template counts
bare_folder()
{
    settings '{"tokenizer_class": "PreTrainedTokenizerFast"}'
    awk -v with="$1" '/^  "post_processor": \{/ { print "  \"post_processor\": " with ","; skip = 1 }
        !skip { print }
        skip && /^  \},/ { skip = 0 }' folder/tokenizer.json >changed && mv changed folder/tokenizer.json
}
stored() { head -c 9000 out.model | tr -d '\000' | grep -q "\"trf.config.$1\":\"$2\""; }
bare_folder null
told "a BERT without a post_processor" "47 tokens"
check "a BERT without a post_processor puts no BOS before a text" stored source_bos 0
check "a BERT without a post_processor puts no EOS behind a text" stored source_eos 0
single='"single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}]'
bare_folder "{\"type\": \"TemplateProcessing\", $single, \"special_tokens\": {\"[CLS]\": {\"ids\": [2]}}}"
told "a template of [CLS] without [SEP]" "47 tokens"
check "a template of [CLS] without [SEP] puts BOS before a text" stored source_bos 1
check "a template of [CLS] without [SEP] puts no EOS behind a text" stored source_eos 0
bare_folder '{"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}'
told "the post_processor BertProcessing" "47 tokens"
check "the post_processor BertProcessing makes the model of BERT's template" cmp -s out.model bert.model
bare_folder '{"type": "BertProcessing", "sep": ["[SEP]", 5], "cls": ["[CLS]", 2]}'
echo '{"tokenizer_class": "PreTrainedTokenizerFast", "sep_token": "[SEP]"}' >folder/tokenizer_config.json
refuses "a post_processor with another end than sep_token" \
    "puts the token 5 behind a text, but trf can put only eos there, 3"
bare_folder '{"type": "BertProcessing", "sep": ["<end>", 3], "cls": ["<begin>", 2]}'
change 's/\[CLS\]/<begin>/; s/\[SEP\]/<end>/' tokenizer.json
told "a post_processor with other names of [CLS] and [SEP]" "47 tokens"
expect_vector "a post_processor with other names of [CLS] and [SEP] puts their ids around a text" "the man" "the man"
settings '{}'; echo '{"pad_token": "<p>", "unk_token": {"content": "<u>"}}' >folder/special_tokens_map.json
change 's/\[PAD\]/<p>/; s/\[UNK\]/<u>/' tokenizer.json
told "names of special tokens from special_tokens_map.json" "47 tokens"
expect_vector "other names in special_tokens_map.json change no vector" "the zzzz" "the zzzz"
settings '{"unk_token": "[UNK]"}'; echo '{"unk_token": "<u>"}' >folder/special_tokens_map.json
change 's/\[UNK\]/<u>/' tokenizer.json
told "the unk_token of special_tokens_map.json, and tells that tokenizer_config.json has another" \
    "\"unk_token\" is \[UNK\], but <u> in special_tokens_map.json, which transformers"
settings '{"unk_token": "[UNK]", "added_tokens_decoder": {}}'
echo '{"unk_token": "<u>"}' >folder/special_tokens_map.json
told "an added_tokens_decoder beside another unk_token in special_tokens_map.json" "47 tokens"
check "special_tokens_map.json does not count beside an added_tokens_decoder" cmp -s out.model bert.model
# tokens that are added
added()
{
    fresh "$1"
    change "s/\"added_tokens\": \[/&{\"id\": $2, \"content\": \"$3\", \"special\": $4},/" tokenizer.json
}
added bert 47 "<new>" true
told "an added token of WordPiece that has no row, and tells that it leaves it out" \
    "left out: the token \"<new>\", for which the model has no row"
check "an added token of WordPiece that has no row changes nothing in the model" cmp -s out.model bert.model
added bert 47 "star wars" false; change 's/"vocab_size": 47/"vocab_size": 48/' config.json
expect 1 "import refuses an added token of WordPiece with a blank" \
    "transformers cuts a text at them, but here they are words" "$trf" import folder --output out.model
for folder in t5 llama; do
    json $folder; change 's/"added_tokens": \[/&{"id": 9999, "content": "<new>", "special": true},/' tokenizer.json
    told "an added token of $folder that has no row, and tells that it leaves it out" \
        "left out: the token \"<new>\", for which the model has no row"
done
# a token of 200,000 bytes that one merge forms takes no longer than its bytes
json llama
awk 'BEGIN { for (a = "a"; length(a) < 100000; ) a = a a; for (b = "b"; length(b) < 100000; ) b = b b }
    /"merges": \[/ { print "\"merges\": [[\"" a "\", \"" b "\"],"; next }
    /"vocab": \{/ { print; print "\"" a "\": 320, \"" b "\": 321, \"" a b "\": 322,"; next }
    { print }' folder/tokenizer.json >changed && mv changed folder/tokenizer.json
expect 1 "import checks a token of 260,000 bytes that a merge forms within 5 seconds" "merges\|tokens\|ids" \
    timeout 5 "$trf" import folder --output out.model

# sentence encoders: the longest text, the prompt, whether lengths stay
sentences '{"pooling_mode_mean_tokens": true}'; echo '{"max_seq_length": 8}' >folder/sentence_bert_config.json
told "a sentence encoder with the max_seq_length 8" "47 tokens"
echo "a the a the a the a the" >line
expect 1 "embed refuses a text of more tokens than max_seq_length" "8 tokens, at most 6" \
    "$trf" embed --model out.model line
"$trf" embed --model out.model --truncate line >got 2>err
echo "a the a the a the" | "$trf" embed --model bert.model >want
check "embed --truncate cuts a text at max_seq_length" cmp -s got want
expect 0 "export takes a sentence encoder with a max_seq_length" "bert" "$trf" export out.model --output sentences
check "export writes max_seq_length to sentence_bert_config.json" \
    grep -q '"max_seq_length":.8,' sentences/sentence_bert_config.json
check "export writes max_seq_length as model_max_length to tokenizer_config.json" \
    grep -q '"model_max_length":.8,' sentences/tokenizer_config.json
sentences '{"pooling_mode_mean_tokens": true}'; echo '{"model_max_length": 8}' >folder/tokenizer_config.json
told "a sentence encoder with the model_max_length 8" "47 tokens"
expect 1 "embed refuses a text of more tokens than model_max_length" "8 tokens, at most 6" \
    "$trf" embed --model out.model line
sentences '{"pooling_mode_mean_tokens": true}'
echo '{"prompts": {"query": "the woman ", "passage": "a dog "}, "default_prompt_name": "query"}' \
    >folder/config_sentence_transformers.json
told "a sentence encoder with two prompts, and tells that it leaves out the one that is not default" \
    "left out: the prompt of passage, \"a dog \": begin texts with it yourself"
"$trf" embed --model out.model line >got 2>err
echo "the woman a the a the a the a the" | "$trf" embed --model bert.model >want
check "embed puts the default prompt of a sentence encoder before a text" cmp -s got want
"$trf" embed --model out.model --query "a dog" line >got 2>err
echo "the woman a the a the a the a the" | "$trf" embed --model bert.model --query "the woman a dog" | cut -f 1 >want
check "embed puts the default prompt of a sentence encoder before a query" sh -c "cut -f 1 got | cmp -s - want"
expect 0 "export takes a sentence encoder with a prompt" "bert" \
    "$trf" export out.model --output sentences --overwrite
expect 0 "import takes an exported sentence encoder with a prompt" "bert" \
    "$trf" import sentences --output again.model --overwrite
check "export and import keep the prompt of a sentence encoder: the model is the same" cmp -s out.model again.model
sentences '{"pooling_mode_mean_tokens": true}'
steps()
{
    echo '[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}'"$1"']' \
        >folder/modules.json
}
steps ''
told "a sentence encoder without the step Normalize" "47 tokens"
"$trf" embed --model out.model <"$golden/bert/lines.txt" >got 2>err
check "embed leaves vectors of a sentence encoder without Normalize as long as they are" cmp -s got mean.numbers
"$trf" embed --model out.model --normalize yes line >got 2>err; "$trf" embed --model bert.model line >want
check "embed --normalize yes counts also for a sentence encoder without Normalize" cmp -s got want
"$trf" embed --model out.model --normalize yes --output index.npy line 2>err
expect 0 "embed --index takes vectors of length 1 of a sentence encoder without Normalize" "1.0*.a the a the" \
    sh -c "'$trf' embed --model out.model --index index.npy line <line"
expect 0 "export takes a sentence encoder without Normalize" "bert" \
    "$trf" export out.model --output sentences --overwrite
check "export writes no step Normalize for a sentence encoder without it" \
    sh -c "! grep -q Normalize sentences/modules.json"
check "export --overwrite deletes the prompts of the earlier sentence encoder" \
    test ! -e sentences/config_sentence_transformers.json
expect 0 "import takes an exported sentence encoder without Normalize" "bert" \
    "$trf" import sentences --output again.model --overwrite
check "export and import keep that Normalize is missing: the model is the same" cmp -s out.model again.model
rm out.model; steps ', {"path": "2_Normalize", "type": "x.Normalize"}'
told "a sentence encoder with the step Normalize" "47 tokens"
"$trf" embed --model out.model line >got 2>err
check "embed gives vectors of length 1 for a sentence encoder with Normalize" cmp -s got want

# what config.json lacks, as transformers takes it
without() { fresh "$1"; change "/^ *\"$2\":/d" config.json; }
for case in "bert layer_norm_eps 1e-12" "bert hidden_act gelu" "gpt2 activation_function gelu_new" \
    "llama hidden_act silu" "bart decoder_start_token_id 2" "t5 feed_forward_proj relu"; do
    set -- $case; "$trf" import "$golden/$1" --output want.model --overwrite >err 2>&1
    without "$1" "$2"
    told "a $1 without $2, and tells that transformers takes $3" "\"$2\" is missing: transformers takes $3$"
    check "a $1 without $2 makes the model of $3" cmp -s out.model want.model
done
fresh; change 's/"hidden_act": "gelu"/"hidden_act": "gelu_python"/' config.json
told "the hidden_act gelu_python" "47 tokens"
check "the hidden_act gelu_python makes the model of gelu" cmp -s out.model bert.model
# the rules of generation_config.json: options, or what is left out
rules() { fresh "$1"; echo "$2" >folder/generation_config.json; rm -f out.model; }
by="generate of transformers searches as trf translate --search-rule hugging-face"
rules bart '{}'
told "a generation_config.json without rules, and tells that answers have at most 20 tokens" \
    "^$by --beam 1 --max-length-a 0 --max-length-b 20$"
check "import leaves out no rule of an empty generation_config.json" \
    sh -c "! grep -q 'generation_config.json: left out' err"
rules bart '{"max_length": 9, "forced_eos_token_id": 2, "min_length": 3, "transformers_version": "5"}'
told "a forced_eos_token_id, and tells --at-limit free-eos and lengths without start token and end" \
    "^$by --beam 1 --min-length 2 --at-limit free-eos --max-length-a 0 --max-length-b 7$"
rules bart '{"max_new_tokens": 9, "min_new_tokens": 4, "min_length": 3, "num_beams": 2}'
told "max_new_tokens and min_new_tokens, and tells them as lengths before min_length" \
    "^$by --beam 2 --min-length 4 --max-length-a 0 --max-length-b 9$"
rules bart '{"bad_words_ids": [[1]], "do_sample": true, "early_stopping": "never", "suppress_tokens": [3, 4],
    "typical_p": 0.5, "top_k": 7, "num_beam_groups": 1, "sequence_bias": [[[5], 1]], "forced_eos_token_id": 7,
    "new_rule": 3}'
told "rules of generation_config.json that trf translate has not, and tells that it leaves them out" \
    "^generation_config.json: left out: typical_p, suppress_tokens, early_stopping, do_sample, "\
"forced_eos_token_id, sequence_bias, new_rule$"
id=$(sed -n 's/^ *"h": \([0-9]*\),*$/\1/p' "$golden/bart/tokenizer.json")
rules bart "{\"bad_words_ids\": [[1], [$id]], \"suppress_tokens\": [$id]}"
told "bad_words_ids and suppress_tokens, and tells them as --ban" \
    "^$by --beam 1 --ban 'h' --ban 'h' --max-length-a 0 --max-length-b 20$"
rules gpt2 '{"max_new_tokens": 7, "do_sample": true, "temperature": 0.5, "top_p": 0.9}'
told "a decoder with do_sample, and tells the options of trf generate that draw as it does" \
    "^generate of transformers writes as trf generate --temperature 0.5 --top-k 50 --top-p 0.9 --max-tokens 7$"
rules gpt2 '{"max_length": 30, "repetition_penalty": 1.5, "num_beams": 3, "min_length": 4}'
told "a decoder without do_sample, and tells --temperature 0" \
    "^generate of transformers writes as trf generate --repetition-penalty 1.5 --temperature 0$"
check "import tells that it leaves out the rules of a decoder that trf generate has not" \
    grep -q "^generation_config.json: left out: num_beams, min_length, max_length$" err

# folders that are none, and files that are others
for file in config.json tokenizer.json model.safetensors; do
    fresh; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n' >folder/$file
    refuses "a git-lfs pointer in the place of $file" "$file: .*git-lfs pointer, not the file itself"
done
fresh; rm folder/model.safetensors; printf 'version https://git-lfs.github.com/spec/v1\n' >folder/pytorch_model.bin
refuses "a git-lfs pointer in the place of pytorch_model.bin" "pytorch_model.bin: it is a git-lfs pointer"
fresh llama; printf 'version https://git-lfs.github.com/spec/v1\n' >folder/tokenizer.model
refuses "a git-lfs pointer in the place of tokenizer.model" "tokenizer.model: it is a git-lfs pointer"
fresh; change 's/"hidden_dropout_prob": 0.1/"hidden_dropout_prob": NaN/' config.json
refuses "a config.json with NaN, and names its line" "config.json: line 12: expected JSON, got NaN at byte"
fresh; change 's/"hidden_dropout_prob": 0.1/"hidden_dropout_prob": [0, -Infinity]/' config.json
refuses "a config.json with -Infinity in a list, and names its line" \
    "config.json: line 12: expected JSON, got -Infinity at byte"
rm -rf folder; mkdir -p folder/snapshots/abc; cp "$golden/bert/config.json" folder/snapshots/abc
refuses "the hub's cache of a model, and names the folder in it" \
    "folder: expected config.json, got none: give folder/snapshots/abc"
rm -rf folder; mkdir folder
refuses "an empty folder" "folder: expected config.json, got none$"
echo '{}' >folder/adapter_config.json
refuses "an adapter without its model" "folder: an adapter alone (adapter_config.json): merge it"
fresh; echo '{}' >folder/adapter_config.json
told "a model with an adapter beside it, and tells that it leaves the adapter out" "folder: left out: an adapter"
sentences '{"pooling_mode_cls_token": true}'; mkdir folder/0_Transformer
mv folder/*.json folder/*.safetensors folder/0_Transformer
told "a sentence encoder whose model is in 0_Transformer" "47 tokens"
"$trf" embed --model out.model --normalize no <"$golden/bert/lines.txt" >got 2>err
check "a model in 0_Transformer gets the pooling beside that folder" cmp -s got first.numbers
expect 0 "import takes the folder 0_Transformer of a sentence encoder" "47 tokens" \
    "$trf" import folder/0_Transformer --output inner.model
check "the folder 0_Transformer makes the same model as the folder above it" cmp -s inner.model out.model
fresh bert_shards; for file in folder/*.safetensors; do
    LC_ALL=C sed 's/"bert\./"abcd./g' "$file" >changed && mv changed "$file"
done
refuses "tensors whose names all begin as those of a wrapper" \
    "safetensors: every name begins with \"abcd.\", as in a wrapper: save the model inside it"
# --max-length: where positions have no table
for folder in t5 llama; do
    fresh $folder
    expect 0 "import --max-length takes a $folder" "$folder" "$trf" import folder --max-length 500 --output out.model
    expect 0 "import --max-length sets the longest text of a $folder" "--max-length 500" "$trf" inspect out.model
done
fresh llama; change 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": 32/' config.json
expect 0 "import --max-length takes a Mistral with texts up to its sliding_window" "mistral" \
    "$trf" import folder --max-length 32 --output out.model
llama3 '"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4'
expect 0 "import --max-length takes the rope_type llama3" "llama" \
    "$trf" import folder --max-length 32 --output out.model
expect 0 "import --max-length does not change the positions that the rope_type llama3 was trained on" \
    "--rotary-trained 64" "$trf" inspect out.model
fresh
expect 1 "import --max-length is refused for a BERT, which has a table of positions" \
    "is for relative and rotary positions, but bert has a table of 32 positions" \
    "$trf" import folder --max-length 16 --output out.model
expect 0 "generate tells that a text is longer than an imported model reads at once" \
    "longer than the longest text that the model reads, 64 tokens: the model read at most" \
    "$trf" generate --model gpt2.kept --prompt "the man" --max-tokens 70 --ban "<|endoftext|>" --temperature 0

fresh; change 's/"num_hidden_layers": 2/"num_hidden_layers": 1000000000/' config.json
refuses "a billion layers of which no file has a tensor" \
    "the model has 1000000000 layers, but only [0-9]* tensors"
# time: what would take the square of these numbers takes minutes
fresh bert_first
awk 'BEGIN {
    printf "{\"id2label\": {"
    for (i = 65535; i >= 0; i--) printf "\"%d\": \"L%d\"%s", i, i, i ? "," : "},"
}' >labels
change 's/"id2label": {/"id2labels": {/; s/"problem_type": [^,]*,//' config.json
sed '1d' folder/config.json | cat labels - >changed; mv changed folder/config.json
expect 1 "import reads 65,536 labels in reverse order within 10 seconds" "needs (65536, 16)" \
    timeout 10 "$trf" import folder --output out.model
marian; awk 'BEGIN { for (i = 47; i < 100047; i++) printf ",\">>%d<<\": %d", i, i }' >codes
sed '$d' folder/vocab.json >changed; { cat changed codes; echo '}'; } >folder/vocab.json
expect 1 "import reads 100,000 languages within 10 seconds" \
    "the tokenizer has 100047 ids, but the model has only 47" timeout 10 "$trf" import folder --output out.model
fresh xlm_roberta
awk 'BEGIN {
    printf "{\"tokenizer_class\": \"XLMRobertaTokenizer\", \"added_tokens_decoder\": {"
    for (i = 0; i < 100000; i++) printf "%s\"%d\": {\"content\": \"<x%d>\"}", i ? "," : "", 60 + i, i
    print "}}"
}' >folder/tokenizer_config.json
expect 0 "import leaves out 100,000 added tokens that have no rows within 10 seconds" \
    "left out: 100000 tokens from \"<x0>\" on" timeout 10 "$trf" import folder --output out.model

fresh; LC_ALL=C sed 's/"embeddings\./"encoder.xyz/g' folder/model.safetensors >changed &&
    mv changed folder/model.safetensors
refuses "tensors without embeddings, and does not take their names for those of a wrapper" \
    "tensor 'embeddings.word_embeddings.weight' is missing"

finish

#!/bin/sh
# trf export: what trf import makes of the folder again, for imported and for trained models; what does not fit;
# folders.
# sh tests/test_trf_export.sh build/trf

. "$(dirname "$0")/trf.sh"

golden=$source/tests/golden/import
if "$trf" export nothing --output probe 2>&1 | grep -q "built without cJSON"; then
    echo "left out: trf was built without cJSON"
    check "export says that trf was built without cJSON" true
    finish
    exit
fi

# near FILE FILE: whether both have the same numbers, within 1e-5 of their size
near()
{
    paste -d ' ' "$1" "$2" |
        awk '{
            n = NF / 2
            for (i = 1; i <= n; i++) {
                a = $i; b = $(i + n); d = a - b
                if (d < 0) d = -d
                if (b < 0) b = -b
                if (!(d <= 1e-5 * (1 + b))) { print "line " NR ", number " i ": " a " and " $(i + n); bad = 1 }
            }
            if (NF % 2) bad = 1
        }
        END { exit bad || !NR }'
}

# --- imported models: the folder that trf export writes becomes the same file, byte for byte -----------
for folder in bert:bert bert_shards:bert byte_bpe:bert bert_first:bert bert_next:bert bert_tokens:bert \
    bert_rank:bert roberta_rank:roberta bert_any:bert bert_numbers:bert \
    bert_masked:bert bert_both:bert roberta_first:roberta roberta_masked:roberta marian:marian bart:bart t5:t5 \
    gpt2:gpt2 llama:llama m2m_100:m2m_100 nllb:m2m_100 mbart:mbart mbart50:mbart; do
    type=${folder#*:} folder=${folder%:*}
    "$trf" import "$golden/$folder" --output $folder.model 2>err
    expect 0 "export takes $folder" "^$folder: $type, [A-Za-z0-9]*, [0-9]* weights$" "$trf" export $folder.model \
        --output $folder
    expect 0 "import takes the exported folder of $folder" "$type, " "$trf" import $folder --output $folder.again
    check "$folder: export and import make the same model" cmp -s $folder.model $folder.again
done
# a WordPiece vocabulary that does not tell its settings, as in files of earlier versions: its rules tell them
patch() { printf "$3" | dd of="$1" bs=1 seek=$(($(grep -abo "$2" "$1" | head -n 1 | cut -d : -f 1) + $4)) conv=notrunc \
    2>err; }
older() { cp "$1" older; patch older trf.crc32 x 0; patch older trf.header_crc32 x 0; patch older TRFWP '\001' 8; }
older bert.model
expect 0 "export takes a model whose WordPiece vocabulary does not tell its settings" "^of_older: bert" \
    "$trf" export older --output of_older
check "a model whose WordPiece vocabulary does not tell its settings becomes the same folder" diff -r bert of_older
patch older TRFWP '\007' 56
expect 1 "export refuses a WordPiece vocabulary whose rules are none of BERT's" "none of BERT's" \
    "$trf" export older --output of_none
has() { grep -q -e "$2" "$1"; }
check "the exported bert_first names its class" has bert_first/config.json '"BertForSequenceClassification"'
check "the exported bert_first has its labels" has bert_first/config.json '"1":.*"entailment"'
check "the exported bert_any has several labels at once" \
    has bert_any/config.json '"problem_type":.*"multi_label_classification"'
check "the exported bert_numbers has its problem_type and the names of its numbers in their order" \
    test "$(grep -c -e '"problem_type":.*"regression"' -e '"0":.*"valence"' -e '"1":.*"arousal"' \
        bert_numbers/config.json)" -eq 3
check "the tokenizer of the exported bert_rank gives segments" has bert_rank/tokenizer_config.json '"token_type_ids"'
check "the exported roberta_rank says how its score is made" has roberta_rank/config.json 'activation.Sigmoid"'
check "the exported bert_rank says how its score is made" has bert_rank/config.json 'linear.Identity"'
check "the exported bert, a model without labels, has no id2label" [ "$(grep -c id2label bert/config.json)" -eq 0 ]
check "the exported marian has its decoder_start_token_id" has marian/config.json '"decoder_start_token_id":.69'
check "the exported bart answers without pad, as bad_words_ids tells" \
    has bart/generation_config.json '"bad_words_ids":.\[\[1\]\]'
check "the exported bert, an encoder, has no generation_config.json" test ! -e bert/generation_config.json
check "the exported gpt2 has the pad_token_id null" has gpt2/config.json '"pad_token_id":.null'
check "the exported bert_shards keeps the digits of layer_norm_eps" \
    has bert_shards/config.json '"layer_norm_eps":.1e-06'
for files in bert:vocab.txt byte_bpe:vocab.json byte_bpe:merges.txt marian:source.spm marian:target.spm \
    marian:vocab.json t5:spiece.model llama:tokenizer.model; do
    check "export of ${files%:*} writes ${files#*:}" test -s "${files%:*}/${files#*:}"
done
for files in marian:source.spm marian:target.spm t5:spiece.model llama:tokenizer.model bert_shards:vocab.txt; do
    check "export of ${files%:*} writes ${files#*:} as it was" \
        cmp -s "${files%:*}/${files#*:}" "$golden/${files%:*}/${files#*:}"
done
# other forms of a tokenizer say the same
rm bert/tokenizer.json byte_bpe/tokenizer.json
for folder in bert byte_bpe; do
    expect 0 "import takes the exported $folder without tokenizer.json" "bert, " \
        "$trf" import $folder --output $folder.again --overwrite
    check "the exported $folder without tokenizer.json makes the same model" cmp -s $folder.model $folder.again
done
# Llama 3's rule, a tokenizer that changes no case, other numbers
cp -R "$golden/byte_bpe" changed; rm changed/vocab.json changed/merges.txt
sed -e 's/"ignore_merges": false/"ignore_merges": true/' changed/tokenizer.json >new && mv new changed/tokenizer.json
cp -R "$golden/bert" cased
sed -e 's/"lowercase": true/"lowercase": false/; s/"handle_chinese_chars": true/"handle_chinese_chars": false/' \
    -e 's/"max_input_chars_per_word": 100/"max_input_chars_per_word": 7/' \
    cased/tokenizer.json >new && mv new cased/tokenizer.json
echo '{"tokenizer_class": "PreTrainedTokenizerFast"}' >cased/tokenizer_config.json
for folder in changed cased; do
    "$trf" import $folder --output $folder.model 2>err
    expect 0 "export takes a tokenizer with other settings ($folder)" "bert, BertModel" \
        "$trf" export $folder.model --output $folder.out
    expect 0 "import takes the exported tokenizer with other settings ($folder)" "bert, " \
        "$trf" import $folder.out --output $folder.again
    check "a tokenizer with other settings ($folder): export and import make the same model" \
        cmp -s $folder.model $folder.again
done
check "an exported tokenizer.json keeps lowercase false" has cased.out/tokenizer.json '"lowercase":.false'
check "an exported tokenizer.json keeps max_input_chars_per_word 7" \
    has cased.out/tokenizer.json '"max_input_chars_per_word":.7'
expect 0 "export --as roberta writes a BERT as RoBERTa" "^other: roberta, RobertaModel" \
    "$trf" export bert.model --as roberta --output other
expect 0 "import takes a BERT that was exported as RoBERTa" "roberta" "$trf" import other --output other.model
for model in bert other; do "$trf" embed --model $model.model <"$golden/bert/lines.txt" >$model.numbers 2>err; done
check "a BERT that was exported as RoBERTa gives the same numbers" near bert.numbers other.numbers
"$trf" quantize bert.model --weights bf16 --output half.model
expect 0 "export writes weights of 16 bits with 32" "bert, BertModel" "$trf" export half.model --output half
"$trf" quantize bert.model --weights int8 --output eighth.model
expect 1 "export refuses weights of 8 bits" "a packed file, or one with weights of 8 bits: give the model" \
    "$trf" export eighth.model --output eighth
check "export that refuses weights of 8 bits writes nothing" test ! -e eighth

# --- models of several languages: their tokenizers have all languages and the tags -------------------
for folder in m2m_100 mbart mbart50; do
    check "export of $folder writes sentencepiece.bpe.model as it was" cmp -s $folder/sentencepiece.bpe.model \
        "$golden/$folder/sentencepiece.bpe.model"
done
for class in m2m_100:M2M100Tokenizer nllb:NllbTokenizer mbart:MBartTokenizer mbart50:MBart50Tokenizer; do
    check "the exported ${class%:*} has the class ${class#*:}" \
        has ${class%:*}/tokenizer_config.json "\"tokenizer_class\":.\"${class#*:}\""
done
plain() { tr -d ' \t\n' <"$1"; }
part() { plain "$1" | sed -e "s/.*\"$2\":\[/[/" -e 's/\]\].*/]]/'; }      # a list of lists
part nllb/tokenizer.json merges >got; part "$golden/nllb/tokenizer.json" merges >want
check "the exported nllb has the merges of its own tokenizer.json" cmp got want
check "the exported nllb has more than 38 merges" [ "$(tr ']' '\n' <got | wc -l)" -gt 38 ]
check "the exported nllb has no normalizer, and Metaspace puts blanks in front" \
    sh -c "tr -d ' \t\n' <nllb/tokenizer.json | grep -q '\"normalizer\":null.*\"pre_tokenizer\":'\
'{\"type\":\"Metaspace\",\"replacement\":\".*\",\"prepend_scheme\":\"always\",\"split\":true},'"
check "the exported vocab.json of m2m_100 has the four special tokens" \
    [ "$(grep -c '<s>\|</s>\|<pad>\|<unk>' m2m_100/vocab.json)" -eq 4 ]
check "the exported vocab.json of m2m_100 has no languages" [ "$(grep -c '__af__' m2m_100/vocab.json)" -eq 0 ]
check "the exported m2m_100 names its list of languages" has m2m_100/tokenizer_config.json '"language_codes":.*"m2m100"'
check "the exported nllb lists its languages" has nllb/tokenizer_config.json '"zho_Hans", "zho_Hant", "zul_Latn"\]'
for class in nllb:true mbart:false mbart50:false; do
    plain ${class%:*}/tokenizer_config.json >got; plain ${class%:*}/tokenizer.json >>got 2>err
    check "the exported ${class%:*} has a <mask> that takes blanks, with normalized ${class#*:}" has got \
        "\"content\":\"<mask>\",[^}]*\"lstrip\":true,\"normalized\":${class#*:}}"
done
check "the exported mbart begins answers with its language" has mbart/config.json '"decoder_start_token_id":.58'
check "the exported mbart has another bos_token_id than its language" has mbart/config.json '"bos_token_id":.0'
check "the exported mbart has the bos_token <s> in its tokenizer" has mbart/tokenizer_config.json '"bos_token":."<s>"'
check "the exported m2m_100 and mbart50 choose no pair of languages" \
    [ "$(cat m2m_100/*.json mbart50/*.json | grep -c 'src_lang\|tgt_lang\|forced_bos')" -eq 0 ]
check "the exported nllb names its source language" has nllb/tokenizer_config.json '"src_lang":.*"eng_Latn"'
check "the exported mbart names its target language" has mbart/tokenizer_config.json '"tgt_lang":.*"ro_RO"'
check "the exported nllb names no target language" [ "$(cat nllb/*.json | grep -c 'tgt_lang\|forced_bos')" -eq 0 ]
# other forms: tokenizer.json of mBART-50 with a map of characters; the file of SentencePiece for NLLB
original() { rm -rf from; cp -R "$golden/$1" from; rm -f from/tokenizer.json from/tokenizer_config.json \
    from/sentencepiece.bpe.model from/vocab.json; }
# data_of MODEL: all bytes of its weights and vocabularies, which follow the header
data_of() { tail -c +$(($(od -An -t u4 -N 4 "$1") + 9)) "$1"; }
# again WHAT [TYPE]: the folder `from` becomes the folder `to`, and the same model; TYPE: how its model_type begins
again()
{
    rm -rf to; "$trf" import from --output from.model --overwrite 2>err
    expect 0 "export takes $1" "^to: ${2:-m}" "$trf" export from.model --output to
    expect 0 "import takes the exported folder of $1" "m" "$trf" import to --output again.model --overwrite
    check "$1: export and import make the same model" cmp -s from.model again.model
}
original mbart50; cp "$golden/json/mbart50.json" from/tokenizer.json; echo '{"tokenizer_class": "MBart50Tokenizer"}' \
    >from/tokenizer_config.json
again "mBART-50 from tokenizer.json"
check "the exported mBART-50 from tokenizer.json has no file of SentencePiece" [ ! -e to/sentencepiece.bpe.model ]
map() { plain "$1" | sed 's/.*"precompiled_charsmap":"\([^"]*\)".*/\1/'; }
map to/tokenizer.json >got; map from/tokenizer.json >want
check "the exported mBART-50 from tokenizer.json has its map of characters" cmp got want
check "the map of characters of mBART-50 is one, in base64" grep -q '^AAQA.*==$' got
part to/tokenizer.json vocab | tr ']' '\n' | sed 's/.*"\(.*\)",.*/\1/' >got; part from/tokenizer.json vocab |
    tr ']' '\n' | sed 's/.*"\(.*\)",.*/\1/' >want
check "the exported mBART-50 from tokenizer.json has its tokens" cmp got want
check "the exported mBART-50 from tokenizer.json has 92 tokens or more" [ "$(grep -c . got)" -ge 92 ]
original nllb; cp "$golden/m2m_100/sentencepiece.bpe.model" from; echo '{"tokenizer_class": "NllbTokenizer"}' \
    >from/tokenizer_config.json
again "NLLB from sentencepiece.bpe.model"
check "the exported NLLB has sentencepiece.bpe.model as it was" \
    cmp -s to/sentencepiece.bpe.model from/sentencepiece.bpe.model
plain to/tokenizer_config.json >got
check "the exported NLLB has the ids of fairseq for its languages" has got '"61":{"content":"ace_Arab",'
check "the exported NLLB has each of the ids 0 to 3 once" [ "$(grep -o '"[0-3]":{' got | wc -l)" -eq 4 ]
check "the exported NLLB has <mask> as its last token" has got '"263":{"content":"<mask>",[^}]*}}}$'
check "the exported NLLB with tags in front of sources has no legacy_behaviour" [ "$(grep -c legacy got)" -eq 0 ]
echo '{"tokenizer_class": "NllbTokenizer", "legacy_behaviour": true, "mask_token": null,' \
    '"added_tokens_decoder": {"264": {"content": "<extra>"}}}' >from/tokenizer_config.json
again "NLLB with tags behind sources"
check "the exported NLLB with tags behind sources has legacy_behaviour true" \
    has to/tokenizer_config.json '"legacy_behaviour":.true'
check "the exported NLLB has a token that its folder added, behind the languages" \
    has to/tokenizer_config.json '"zul_Latn", "<extra>"\]'
sed 's/264/266/' from/tokenizer_config.json >new && mv new from/tokenizer_config.json
"$trf" import from --output gap.model 2>err
expect 1 "export refuses an NLLB whose ids have a gap" \
    "the id 264 has no token, but 266 has one: NllbTokenizer has no such gap" "$trf" export gap.model --output no
original nllb; cp "$golden/nllb/tokenizer.json" from; echo '{"tokenizer_class": "NllbTokenizer"}' \
    >from/tokenizer_config.json
sed 's/"eng_Latn"/"<extra1>"/' from/tokenizer.json >new && mv new from/tokenizer.json
"$trf" import from --output first.model --overwrite 2>err
expect 0 "export takes an NLLB whose tokenizer.json has <extra1> for eng_Latn" "^to: m" \
    "$anew" export first.model --output to --overwrite
rm -rf from; mv to from; again "NLLB without English"
data_of first.model >want; data_of from.model >got
check "NLLB without English has the same numbers after export and import" cmp -s got want
check "the exported NLLB without English begins with another language" \
    has to/tokenizer_config.json '"src_lang":.*"ace_Arab"'
check "the exported NLLB without English has no eng_Latn" [ "$(grep -c 'eng_Latn' to/tokenizer_config.json)" -eq 0 ]
mv from.model english.model
# ids in another order than scores; and words that a folder adds, which make the ids of languages those of fairseq by
# chance
original nllb; echo '{"tokenizer_class": "NllbTokenizer"}' >from/tokenizer_config.json
sed 's/"re": 4,/"re": 5,/; s/"an": 5,/"an": 4,/' "$golden/nllb/tokenizer.json" >from/tokenizer.json
again "NLLB with ids in another order than scores"
part to/tokenizer.json merges >got; part "$golden/nllb/tokenizer.json" merges >want
check "the exported NLLB with ids in another order has its merges in the order of scores" cmp got want
"$trf" export nllb.model --output no --source-language xx 2>&1 | sed 's/.* knows //' | tr ' ' '\n' >after
echo '<mask>' >>after
awk 'FNR == NR { code[n++] = $0; next }
    /"content": "(<mask>|[a-z]*_[A-Z][a-z]*)"/ { sub(/"content": "[^"]*"/, "\"content\": \"" code[i++] "\"") }
    /"added_tokens": \[/ {
        print; print "{\"id\": 264, \"content\": \"<u264>\", \"special\": false}, " \
            "{\"id\": 265, \"content\": \"rean\", \"special\": false}," ; next
    }
    /"k": 60/ { sub(/60/, "60, \"<u264>\": 264, \"rean\": 265") } { print }' after "$golden/nllb/tokenizer.json" \
        >from/tokenizer.json
check "a tokenizer.json of NLLB with two added words is made" has from/tokenizer.json '"<u264>": 264'
again "NLLB with words that its folder adds"      # no merges make "rean" of "re" and "an"
check "the exported NLLB with added words has a tokenizer.json and no sentencepiece.bpe.model" \
    test -e to/tokenizer.json -a ! -e to/sentencepiece.bpe.model
check "the exported NLLB with added words has them as not special" \
    sh -c "tr -d ' \t\n' <to/tokenizer.json | grep -q '\"id\":265,\"content\":\"rean\",[^}]*\"special\":false'"
cp -R "$golden/m2m_100" wmt; echo '{"tokenizer_class": "M2M100Tokenizer", "language_codes": "wmt21"}' \
    >wmt/tokenizer_config.json
rm -rf from; mv wmt from
again "M2M-100 with the languages of WMT 21"
check "the exported M2M-100 with the languages of WMT 21 names their list" \
    has to/tokenizer_config.json '"language_codes":.*"wmt21"'
# XLM-R has no languages; its ids are those of fairseq too
rm -rf from; cp -R "$golden/xlm_roberta" from
again "XLM-R" xlm-roberta
check "the exported XLM-R has the architecture XLMRobertaModel" has to/config.json '"architectures":.."XLMRobertaModel"'
check "the exported XLM-R has the class XLMRobertaTokenizer" \
    has to/tokenizer_config.json '"tokenizer_class":."XLMRobertaTokenizer"'
check "the exported XLM-R has sentencepiece.bpe.model as it was" \
    cmp -s to/sentencepiece.bpe.model from/sentencepiece.bpe.model
"$trf" embed --model from.model from/lines.txt >got 2>err
check "embed gives the numbers of transformers for XLM-R" near from/numbers.txt got
# Marian's tags are words of the text
rm -rf from; cp -R "$golden/marian" from; sed 's/"f": 17/">>fra<<": 17/' "$golden/marian/vocab.json" >from/vocab.json
again "Marian with a language"
check "the exported Marian with a language has the class MarianTokenizer" \
    has to/tokenizer_config.json '"MarianTokenizer"'
expect 2 "export refuses a pair of languages for Marian with a language" "has no tokenizer that is told its languages" \
    "$trf" export from.model --output no --target-language fra
# a pair
for pair in m2m_100:de:fr:forced_bos_token_id:85 nllb:fra_Latn:eng_Latn:forced_bos_token_id:108 \
    mbart50:en_XX:sl_SI:forced_bos_token_id:90 mbart:de_DE:ar_AR:decoder_start_token_id:39; do
    IFS=: read -r folder from to field id <<END
$pair
END
    rm -rf paired
    expect 0 "export takes a pair of languages for $folder" "^paired: " \
        "$trf" export $folder.model --output paired --source-language "$from" --target-language "$to"
    check "$folder with a pair: the exported folder names the source language" \
        has paired/tokenizer_config.json "\"src_lang\":.*\"$from\""
    check "$folder with a pair: the exported folder names the target language" \
        has paired/tokenizer_config.json "\"tgt_lang\":.*\"$to\""
    check "$folder with a pair: the exported $field is $id" has paired/generation_config.json "\"$field\":.$id,"
    rm -rf from; mv paired from; again "$folder with a pair"
    check "$folder with a pair: import and another export keep the pair" \
        has to/tokenizer_config.json "\"tgt_lang\":.*\"$to\""
    data_of $folder.model >want; data_of from.model >got
    check "$folder with a pair: import gives the numbers of the model without one" cmp -s got want
    check "$folder with a pair: the numbers have more than 5000 bytes" [ "$(wc -c <got)" -gt 5000 ]
done

# --- what training tells of the export is what trf export does -----------------------------------------
pairs 300 1 >pairs.tsv
n=0
for what in "--tsv pairs.tsv" "--tsv pairs.tsv --tokens characters" "--tsv pairs.tsv --joint-vocabulary yes" \
    "--objective causal --text pairs.tsv" "--objective mask --text pairs.tsv" "--objective classify --tsv pairs.tsv"; do
    n=$((n + 1)) more=
    told="$what --valid-size 0 --updates 1 --threads 1"
    "$trf" train $told --model told.$n 2>err
    cp err told.err
    if grep -q "^export: trf export cannot write this model" err; then
        expect 1 "a model that cannot be exported: $what" "fits no architecture" "$trf" export told.$n --output \
            told.$n.no
        more=$(sed -n "s/^export: .*, train with//p" told.err)
        "$trf" train $told $more --model told.$n.fits 2>err
    else cp told.$n told.$n.fits; fi
    check "training tells as what trf export can write it: $what $more" \
        grep -q "^export: trf export can write this model as" err
    type=$(sed -n 's/^export: trf export can write .* (\([^)]*\))$/\1/p' err)
    expect 0 "a model that training says can be exported: $what $more" ": $type, " "$trf" export told.$n.fits \
        --output told.$n.folder
done

# --- models that trf train makes: the same numbers after export and import -----------------------------
cut -f 2 train.tsv >text
awk -F '\t' '{ print $2 "\t" (length($1) > 5 ? "long" : "short") }' train.tsv >labelled
awk -F '\t' '{
    n = split($1, d, " "); t = ""
    for (i = n; i > 0; i--) t = t (i < n ? " " : "") (d[i] % 2 ? "odd" : "even")
    print $2 "\t" t
}' train.tsv >tagged
decoder="--objective causal --text text --decoder-layers 2" encoder="--encoder-layers 2" \
    both="--tsv train.tsv --encoder-layers 1 --decoder-layers 2"
bert="--source-bos yes --pooling first --head-layer yes"
llama="--norm-rule rms --positions rotary --feed-forward-gate yes --activation silu --qkv-bias no --out-bias no \
    --feed-forward-bias no"
t5="--norm-rule rms --positions relative --attention-scale 1 --scale-embeddings no --qkv-bias no --out-bias no \
    --feed-forward-bias no --decoder-start pad --joint-vocabulary yes"
post="--norm-place post-norm --final-norm no"
learn()     # NAME OPTIONS of trf train
{
    this=$1; shift
    "$anew" train "$@" --model $this.model --d-model 16 --n-heads 2 --d-ff 32 --updates 40 --warmup 5 \
        --batch-tokens 256 --metric loss --seed 5 --threads 1 \
        --quiet --max-length 64 --valid-size 0 --schedule constant --learning-rate 0.01 --dropout 0 \
        --log-every 40 >out 2>err || cat err
}
numbers()   # MODEL
{
    case $this in
    decoder*) "$trf" score --model "$1" text ;;
    both*) "$trf" score --model "$1" train.tsv ;;
    class*) cut -f 1 labelled | "$trf" classify --model "$1" --scores | sed 's/long/1/; s/short/2/' ;;
    tag*) cut -f 1 tagged | "$trf" tag --model "$1" | sed 's/odd/1/g; s/even/2/g' ;;
    *) "$trf" embed --model "$1" --normalize no text ;;
    esac 2>err
}
fits()      # TYPE NAME OPTIONS of trf train
{
    type=$1; shift
    learn "$@"
    rm -rf folder again.model
    expect 0 "export writes the model $this as $type" "^folder: $type, " "$trf" export $this.model --output folder
    expect 0 "import takes the exported model $this" "$type, " "$trf" import folder --output again.model
    numbers $this.model >want; numbers again.model >got
    check "the model $this gives the same numbers after export and import" near want got
    check "the model $this gives 500 lines with numbers or more" [ "$(grep -c '[0-9]' want)" -ge 500 ]
}
fits pegasus both-joint $both --joint-vocabulary yes
check "the exported both-joint has its sines as weights" has folder/model.safetensors 'encoder.embed_positions.weight'
fits pegasus both-characters $both --joint-vocabulary yes --tokens characters --positions halves
fits marian both-post $both --joint-vocabulary yes $post
fits marian both-two $both $post --activation gelu --qkv-bias no
check "the exported both-two has the target's vocabulary in a folder" \
    has folder/target_tokenizer/tokenizer.json '"three"'
check "the exported both-two has a template that ends a target" \
    has folder/target_tokenizer/tokenizer.json '"TemplateProcessing"'
fits bart both-bart $both --joint-vocabulary yes $post --embedding-norm yes --positions learned --position-offset 5 \
    --source-bos yes --decoder-start eos
fits mbart both-mbart $both --joint-vocabulary yes --embedding-norm yes --positions none
fits m2m_100 both-m2m $both --joint-vocabulary yes --positions halves-n1 --position-offset 1
fits t5 both-t5 $both $t5 --tying all --scale-logits yes --d-head 6 --relative-buckets 8 --relative-distance 20
fits t5 both-t5-1.1 $both $t5 --tying embeddings --feed-forward-gate yes --activation gelu-tanh
fits gpt2 decoder-default $decoder
check "the exported decoder-default, with scaled embeddings, does not tie them to the output" \
    has folder/config.json '"tie_word_embeddings":.false'
fits gpt2 decoder-tied $decoder --positions learned --scale-embeddings no --activation gelu-tanh
check "the exported decoder-tied, without scaled embeddings, ties them to the output" \
    has folder/config.json '"tie_word_embeddings":.true'
fits gpt2 decoder-untied $decoder --tying untied --positions none --out-bias no
fits llama decoder-llama $decoder $llama
fits llama decoder-groups $decoder $llama --kv-heads 1 --d-head 6 --rotary-scale 2 --rotary-base 50000 \
    --scale-embeddings no
fits llama decoder-scaled $decoder $llama --rotary-scale 8 --rotary-trained 8 --rotary-low 0.5 --rotary-high 3
fits llama decoder-biases $decoder $(echo "$llama" | sed 's/--qkv-bias no//')
fits megatron-bert class --objective classify --tsv labelled $encoder $bert
fits megatron-bert class-segments --objective classify --tsv labelled $encoder $bert --segments 2 --positions learned
fits bert class-bert --objective classify --tsv labelled $encoder $bert $post --embedding-norm yes --activation gelu
fits megatron-bert tag --objective tag --tsv tagged $encoder --source-bos yes
fits megatron-bert mask --objective mask --text text $encoder --head-layer yes --source-bos yes --scale-embeddings no
fits megatron-bert class-pretrain --objective pretrain --tsv labelled $encoder --head-layer yes --source-bos yes \
    --scale-embeddings no
check "the exported class-pretrain has the class MegatronBertForPreTraining" \
    has folder/config.json '"MegatronBertForPreTraining"'
check "the exported class-pretrain has its labels" has folder/config.json '"1":.*"short"'
if ! "$trf" --version | grep -q "without libsentencepiece"; then
    fits marian both-pieces $both $post --tokens sentencepiece:unigram --vocab-size 40 --joint-vocabulary no
    check "the exported both-pieces has two tables of ids" test -s folder/target_vocab.json
    fits pegasus both-joint-pieces $both --joint-vocabulary yes --tokens sentencepiece:bpe --vocab-size 40
    check "the exported both-joint-pieces has one table of ids" test ! -e folder/target_vocab.json
    fits gpt2 decoder-pieces $decoder --tokens sentencepiece:unigram --vocab-size 40
    "$trf" export decoder-pieces.model --output said >out 2>err
    check "export tells that the tokenizer of decoder-pieces is Marian's" has err "Marian's, the one whose ids are free"
fi
for type in mistral qwen2; do
    expect 0 "export --as $type takes a Llama" "$type" "$trf" export decoder-llama.model --as $type --output as-$type
    expect 0 "import takes a Llama that was exported as $type" "$type" "$trf" import as-$type --output as-$type.model
    this=decoder
    numbers decoder-llama.model >want; numbers as-$type.model >got
    check "a Llama that was exported as $type gives the same numbers" near want got
done

# --- what does not fit ---------------------------------------------------------------------------------
refuses()   # NAME MODEL MESSAGE MORE
{
    wrong=$1 model=$2 message=$3; shift 3
    expect 1 "export refuses $wrong" "$message" "$trf" export "$model" --output no "$@"
    check "export refuses $wrong and writes nothing" [ -z "$(ls -d no* 2>ls.err)" ]
}
refuses "an encoder as gpt2" bert.model "the model is encoder-only, but gpt2 is decoder-only" --as gpt2
refuses "a decoder as t5" gpt2.model "the model is decoder-only, but t5 is an encoder-decoder" --as t5
expect 2 "export refuses the unknown type --as bert2" "trf knows no such model_type" \
    "$trf" export bert.model --as bert2 --output no
refuses "a Marian as pegasus, whose --norm-place differs" marian.model \
    "--norm-place is post-norm, but pegasus needs pre-norm" --as pegasus
refuses "a Marian as pegasus, whose --final-norm differs" marian.model "--final-norm is no, but pegasus needs yes" \
    --as pegasus
refuses "a Llama with biases as mistral" decoder-biases.model "--qkv-bias is yes, but mistral needs no" --as mistral
refuses "a BERT as megatron-bert" bert.model "--embedding-norm is yes, but megatron-bert needs no" --as megatron-bert
refuses "a BART with learned positions as marian" both-bart.model "--positions is learned, but marian needs halves" \
    --as marian
refuses "an M2M-100 with its own sines as pegasus" both-m2m.model "--positions is halves-n1, but pegasus needs halves" \
    --as pegasus
# metadata that do not fit: a model file checks its data, but these are words
damaged()   # NAME MODEL SED MESSAGE
{
    LC_ALL=C sed "$3" "$2" >damaged.model
    check "$1: the metadata in the file are changed" sh -c "! cmp -s '$2' damaged.model"
    refuses "$1" damaged.model "damaged.model: $4"
}
damaged "an NLLB with tags in other places" nllb.model \
    's/"target.tag":"forced-first \*"/"target.tag":"start        *"/' \
    "source.tag is \"source-first \*\" and target.tag is \"start        \*\", but no tokenizer"
damaged "an M2M-100 without a tag of sources" m2m_100.model 's/"source.tag"/"source.tax"/' \
    "source.tag is \"\" and target.tag is \"forced-first __\*__\", but no"
damaged "an NLLB whose first language is of no class" nllb.model 's/"languages":"ace_Arab/"languages":"xxx_Arab/' \
    "languages begins with \"xxx_Arab\", which is a code of no tokenizer"
damaged "an NLLB with blanks for its first language" nllb.model 's/"languages":"ace_Arab/"languages":"        /' \
    "languages begins with \"\", which"
damaged "an NLLB with a language that its class lacks" nllb.model 's/ ace_Latn acm/ xxx_Latn acm/' \
    "languages has \"xxx_Latn\", but NllbTokenizer has no such language"
damaged "an NLLB with a language that has no token" english.model \
    's/ ace_Latn acm/ ars_Arab acm/; s/"languages":"ace_Arab/"languages":"eng_Latn/' \
    "languages has \"eng_Latn\", but no token of the vocabulary is its tag"
damaged "an mBART-25 without one of its languages" mbart.model 's/"languages":"ar_AR cs_CZ/"languages":"cs_CZ cs_CZ/' \
    "languages lacks \"ar_AR\", but MBartTokenizer has a token for it"
codes_of() { "$trf" export $1.model --output no --source-language xx 2>&1 | sed 's/.* knows //' | tr ' ' '\n'; }
codes_of m2m_100 >codes; codes_of nllb >others
check "M2M-100 knows 100 languages" lines_are 100 codes
check "NLLB knows 202 languages" lines_are 202 others
paste -d ' ' others codes | awk 'NF == 2 { print "s/\"" $1 "\"/\"__" $2 "__\"/" }' >rename
original nllb; sed -f rename "$golden/nllb/tokenizer.json" >from/tokenizer.json; echo \
    '{"tokenizer_class": "M2M100Tokenizer"}' >from/tokenizer_config.json
"$trf" import from --output behind.model 2>err
refuses "an M2M-100 with tokens behind its languages" behind.model \
    "the ids of the languages are not a row behind all other tokens, but M2M100Tokenizer has no others"
damaged "an M2M-100 with its languages in another order" m2m_100.model 's/"languages":"af am/"languages":"am af/' \
    "languages has another order than M2M100Tokenizer"
expect 2 "export refuses a --source-language that is no language of mbart50.model" \
    "^trf export: --source-language xx: 'mbart50.model' knows ar_AR cs_CZ" \
    "$trf" export mbart50.model --output no --source-language xx --target-language ar_AR
expect 2 "export refuses a --target-language that is no language of mbart50.model" \
    "^trf export: --target-language fr: 'mbart50.model' knows ar_AR cs_CZ" \
    "$trf" export mbart50.model --output no --target-language fr
expect 2 "export refuses a --target-language that is a part of a code" \
    "^trf export: --target-language ar: 'mbart50.model' knows" \
    "$trf" export mbart50.model --output no --target-language ar
expect 2 "export refuses a --target-language that is two codes" "knows ar_AR" \
    "$trf" export mbart50.model --output no --target-language "ar_AR cs_CZ"
expect 2 "export refuses an empty --target-language" "knows ar_AR" \
    "$trf" export mbart50.model --output no --target-language ""
expect 2 "export refuses --target-language for a Marian without languages" \
    "^trf export: --target-language: 'marian.model' has no tokenizer that is told its languages" \
    "$trf" export marian.model --output no --target-language fr
check "export that refuses a language writes nothing" [ -z "$(ls -d no* 2>ls.err)" ]
misfit()    # MESSAGE NAME OPTIONS of trf train
{
    message=$1; shift
    learn "$@"
    refuses "the model $1, which fits no architecture" $1.model "it fits no architecture that trf knows; the nearest is"
    refuses "the model $1 and names the setting that does not fit" $1.model "$message"
}
misfit "--tying is decoder, but pegasus needs all" both-separate $both
misfit "--pooling is mean and --head-layer no, but megatron-bert needs --pooling first --head-layer yes" class-mean \
    --objective classify --tsv labelled $encoder --source-bos yes
misfit "--source-bos is no, but megatron-bert needs yes" tag-bos --objective tag --tsv tagged $encoder
misfit "--head-layer is no, but megatron-bert needs yes" mask-plain --objective mask --text text $encoder \
    --source-bos yes
misfit "--scale-embeddings is yes, but megatron-bert needs no" mask-scaled --objective mask --text text $encoder \
    --source-bos yes --head-layer yes
misfit "the model has 2 labels of sequences and --head-layer no; only bert and megatron-bert" pretrain-plain \
    --objective pretrain --tsv labelled $encoder --source-bos yes
awk -F '\t' '{ print $2 "\t" length($1) % 3 "of" }' train.tsv >three
misfit "the model has 3 labels of sequences and --head-layer yes; only bert and megatron-bert" pretrain-three \
    --objective pretrain --tsv three $encoder --source-bos yes --head-layer yes
refuses "a model with two heads as roberta" class-pretrain.model \
    "the model has 2 labels of sequences and --head-layer yes; only bert" --as roberta
misfit "--positions is alibi, but gpt2 needs learned" decoder-alibi $decoder --positions alibi
misfit "--norm-rule is annotated, but" decoder-annotated $decoder --norm-rule annotated
misfit "--generator-bias is yes, but gpt2 needs no" decoder-bias $decoder --generator-bias yes
misfit "--rotary-pairs is interleaved, but llama needs halves" decoder-pairs $decoder $llama --rotary-pairs interleaved
misfit "--d-head is 6, but gpt2 needs 0" decoder-d-head $decoder --d-head 6
misfit "--kv-heads is 1, but gpt2 needs 0" decoder-kv $decoder --kv-heads 1
misfit "--attention-scale is 0.5, but gpt2 needs 0" decoder-scale $decoder --attention-scale 0.5
misfit "--norm-epsilon is 0.001, but pegasus needs 1e-05" both-epsilon $both --joint-vocabulary yes --norm-epsilon 0.001
misfit "--decoder-start is zero, but pegasus needs pad" both-zero $both --joint-vocabulary yes --decoder-start zero
misfit "--activation is gelu, but t5 needs gelu-tanh" both-gate $both $t5 --tying embeddings --feed-forward-gate yes \
    --activation gelu
misfit "--position-offset is 3, but pegasus needs 0" both-offset $both --joint-vocabulary yes --position-offset 3
misfit "--final-norm is encoder, but pegasus needs yes" both-norm $both --joint-vocabulary yes --final-norm encoder

# --- folders -------------------------------------------------------------------------------------------
expect 1 "export refuses a folder with files" "--output 'marian' is a folder with files: --overwrite replaces" \
    "$trf" export bert.model --output marian
check "a folder that export refuses stays as it was" has marian/config.json '"marian"'
cp bert/config.json marian/mine.txt
expect 0 "export --overwrite takes a folder with files" "^marian: bert" \
    "$trf" export bert.model --output marian --overwrite
check "export --overwrite replaces the files of the earlier model" has marian/config.json '"bert"'
check "export --overwrite deletes files that only the earlier model has" [ ! -e marian/source.spm ]
check "export --overwrite leaves files that are of no model" cmp -s bert/config.json marian/mine.txt
expect 0 "import takes a folder that export has overwritten" "bert" "$trf" import marian --output whole.model
check "a folder that export has overwritten is the new model" cmp -s whole.model bert.model
learn both-two $both $post
"$trf" export both-two.model --output two 2>err
expect 0 "export --overwrite takes a folder with the folder target_tokenizer" "^two: bert" \
    "$trf" export bert.model --output two --overwrite
check "export --overwrite deletes the files in target_tokenizer" [ -z "$(ls two/target_tokenizer)" ]
"$trf" export bert.model --output m2m_100 --overwrite 2>err
check "export --overwrite deletes the sentencepiece.bpe.model of M2M-100" [ ! -e m2m_100/sentencepiece.bpe.model ]
mkdir empty
expect 0 "export takes an empty folder" "^empty/: bert" "$trf" export bert.model --output empty/
check "export writes the model into an empty folder" cmp -s empty/config.json marian/config.json
mkdir own
cp bert.model own/model.safetensors
expect 1 "export refuses to overwrite the model that it reads" \
    "--output 'own' would overwrite the model 'own/model.safetensors'" \
    "$trf" export own/model.safetensors --output own --overwrite
check "a model that export refuses to overwrite stays as it was" cmp -s bert.model own/model.safetensors
expect 1 "export refuses an --output that is a file" "--output 'text' is a file, but trf export writes a folder" \
    "$trf" export bert.model --output text
expect 1 "export refuses an --output in a folder that is not there" \
    "cannot write 'none/folder': No such file or directory" "$trf" export bert.model --output none/folder
expect 1 "export refuses a model that is not there" "cannot read 'nothing'" "$trf" export nothing --output no
expect 1 "export refuses a safetensors file of another program" "a safetensors file of another program" \
    "$trf" export "$golden/bert/model.safetensors" --output no
expect 2 "export refuses a command line without --output" "give --output FOLDER" "$trf" export bert.model
expect 2 "export refuses a command line without a model" "give one model" "$trf" export --output no
expect 1 "export reports a full disk" "File too large" sh -c "ulimit -f 4; '$trf' export bert.model --output no"
awk 'BEGIN { for (i = 0; i < 3000; i++) print "number" i " number" i }' >many
"$trf" train --objective causal --text many --tokens words --min-count 1 --vocab-size 4000 --d-model 2 --n-heads 1 \
    --d-ff 4 --decoder-layers 1 --positions learned \
    --scale-embeddings no --updates 1 --valid-size 0 --model many.model --threads 1 --max-length 8 --quiet >out 2>err
expect 0 "export takes a model with a larger tokenizer than weights" "gpt2" "$trf" export many.model --output many.out
check "an exported model has a tokenizer that is larger than its weights" \
    test "$(wc -c <many.out/model.safetensors)" -lt 40960 -a "$(wc -c <many.out/tokenizer.json)" -gt 61440
expect 1 "export reports a disk that is full after the weights" "File too large" \
    sh -c "ulimit -f 100; '$trf' export many.model --output no"
check "export leaves nothing on a full disk" [ -z "$(ls -d no* ./*.tmp-* 2>ls.err)" ]
# a signal while files are written: whether it comes in time is a matter of milliseconds, so it is tried often
"$trf" train --objective causal --text many --tokens words --min-count 1 --vocab-size 4000 --d-model 512 --n-heads 1 \
    --d-ff 4 --decoder-layers 1 --positions learned \
    --scale-embeddings no --updates 1 --valid-size 0 --model wide.model --threads 1 --max-length 8 --quiet >out 2>err
tries=0 ended=0
while [ $ended -ne 143 ] && [ $tries -lt 40 ]; do
    tries=$((tries + 1))
    rm -rf no
    "$trf" export wide.model --output no 2>err & program=$!
    while kill -0 $program 2>killed && [ -z "$(ls -d no.tmp-* 2>ls.err)" ]; do :; done
    kill -TERM $program 2>killed
    wait $program 2>killed
    ended=$?
    [ -z "$(ls -d no.tmp-* 2>ls.err)" ] || break
done
check "SIGTERM ends export" [ $ended -eq 143 ]
check "export leaves nothing after SIGTERM" [ -z "$(ls -d no* 2>ls.err)" ]
if [ "$(id -u)" -ne 0 ]; then
    mkdir shut; chmod 500 shut
    expect 1 "export refuses a folder that it may not write" "cannot write 'shut'" \
        "$trf" export bert.model --output shut
    expect 1 "export refuses a new folder in one that it may not write" "cannot write 'shut/in'" \
        "$trf" export bert.model --output shut/in
    chmod 700 shut
fi
umask 022
"$trf" export bert.model --output shared 2>err
check "others may read an exported folder" [ "$(ls -ld shared | cut -c 1-10)" = drwxr-xr-x ]

finish

#!/bin/sh
# trf doctor: sh tests/test_trf_doctor.sh build/trf
#
# Clean files of every objective have no finding; files with one fault have that one, with its number of lines and the
# first of them, and no other. What mends it is tried where it is a command.

. "$(dirname "$0")/trf.sh"

# sentences N SEED FORM: N sentences of 3 to 16 words, no two the same, with what `show` of FORM prints of each: a
# foreign sentence, a kind, or a label for each word
sentences()
{
    awk -v n="$1" -v x="$2" -v form="$3" '
    function roll(k) { x = x * 16807 % 2147483647; return int(x / 64) % k }
    BEGIN {
        k = split("the old river quickly bridge carries wooden boat under garden while white smoke rises from houses " \
                  "farmers whistle their evening songs through windows without thinking about tomorrow", word, " ")
        split("der alte Fluss schnell Bruecke traegt hoelzernes Boot unter Garten waehrend weisser Rauch steigt aus " \
              "Haeusern Bauern pfeifen ihre Abend Lieder durch Fenster ohne Gedanken ueber morgen", other, " ")
        for (i = 0; i < n; i++) {
            m = 3 + roll(14); s = t = tags = ""
            for (j = 0; j < m; j++) {
                w = 1 + roll(k); s = s (j ? " " : "") word[w]; t = t (j ? " " : "") other[w]
                tags = tags (j ? " " : "") (w % 3 ? "NOUN" : "VERB")
            }
            if (s in seen) { i--; continue }
            seen[s]; y = 10 + roll(90)
            print form == "pairs" ? s " " y "\t" t " " y : form == "kinds" ? s "\t" (m > 8 ? "long" : "short") \
                : form == "tags" ? s "\t" tags : s
        }
    }'
}

# fault WANTED NAME OPTIONS...: trf doctor finds exactly WANTED: symptom:lines:first line, several with blanks between
fault()
{
    wanted=$1 name=$2
    shift 2
    "$trf" doctor --json "$@" >out 2>err
    status=$?
    got=$(sed 's/{"name"/\n&/g' out |
        sed -n 's/^{"name":"\([^"]*\)".*"count":\([0-9]*\),.*"lines":\[\({"line":\([0-9]*\)\)*.*/\1:\2:\4/p' |
        tr '\n' ' ')
    check "$name: found '${got% }' instead of '$wanted' $(head -n 1 err)" [ "${got% }" = "$wanted" ]
    case $(grep -c '"level":"warning"' out) in 0) usual=0 ;; *) usual=1 ;; esac
    check "$name: exit status $status" [ $status -eq $usual ]
    check "$name: no message on standard error" [ ! -s err ]
}
# mended NAME INPUT: the command that the finding proposes makes what INPUT is
remedy() { "$trf" doctor "$@" | sed -n 's/^    -> //p' | head -n 1; }

sentences 400 7 pairs >pairs.tsv
sentences 60 99 pairs >valid.tsv
sentences 60 5 pairs >new.tsv
cut -f 1 pairs.tsv >s; cut -f 2 pairs.tsv >t; cut -f 1 valid.tsv >vs; cut -f 2 valid.tsv >vt
sentences 400 8 kinds >kinds.tsv
sentences 400 9 tags >tags.tsv
sentences 400 10 text >text
# with ROW COMMAND: pairs.tsv with awk's COMMAND for the lines of ROW
with() { awk -F '\t' -v OFS='\t' "$1 { $2 } { print }" pairs.tsv; }

# --- clean files ------------------------------------------------------------------------------------------
fault "" "clean pairs" --tsv pairs.tsv --valid-tsv valid.tsv --test-tsv new.tsv
fault "" "two clean files" --source s --target t --valid-source vs --valid-target vt
fault "" "clean labels" --objective classify --tsv kinds.tsv
fault "" "clean labels of words" --objective tag --tsv tags.tsv
for objective in causal mask span; do fault "" "a clean text: $objective" --objective $objective --text text; done
sed 's/$/\n/' text >spaced
fault "" "empty lines between texts" --objective causal --text spaced
fault "" "a text that is one document" --objective causal --documents file --text text
fault "" "clean labels beside hidden words" --objective pretrain --tsv kinds.tsv
fault "" "sentences that follow one another" --objective classify --next-sentences text --segments 2
awk '{ s = $0; gsub(/ /, "", s); print s "\t" $0 }' text >letters.tsv
fault "" "sides in one language" --tsv letters.tsv
paste s s >copies.tsv
fault "" "copies" --tsv copies.tsv
expect 0 "nothing is said so" "^460 pairs: nothing found$" "$trf" doctor --tsv pairs.tsv --valid-tsv valid.tsv
check "nothing is told on standard error" [ ! -s err ]

# --- lines that training leaves out -----------------------------------------------------------------------
with 'NR == 5 || NR == 9' '$2 = ""' >bad
fault "empty-side:2:5" "an empty side" --tsv bad
cut -f 2 bad >bad.t
fault "empty-side:2:5" "an empty line of two files" --source s --target bad.t
check "the line is that of the other file" grep -q '"line":5,"file":"bad.t"' out
fault "" "an empty side that is kept" --tsv bad --keep-empty
with 'NR == 5' '$1 = $2 = ""' >bad
fault "empty:1:5" "an empty pair" --tsv bad
with 'NR == 7' '$2 = $2 "\tmore"' >bad
fault "malformed:1:7" "a tab too many" --tsv bad
with 'NR == 7' '$1 = "caf\351 " $1' >bad
fault "encoding:1:7" "Latin-1" --tsv bad
check "Latin-1 has its command" grep -q 'probably Latin-1 or Windows-1252: iconv -f windows-1252 -t utf-8 bad' out
if command -v iconv >/dev/null; then
    # the same sentence in other alphabets
    while read -r encoding line; do
        echo "$line" | iconv -f utf-8 -t $encoding >word || continue
        { cat text; for i in 1 2 3 4 5 6 7 8; do cat word; done; } >bad
        fault "encoding:8:401" "$encoding" --objective causal --text bad
        check "$encoding is guessed" grep -q -e "-> iconv\|iconv -f $encoding " out
    done <<'LINES'
windows-1252 für die Käufer über Straßen
windows-1251 Съешь ещё этих мягких французских булок
koi8-r Съешь ещё этих мягких французских булок
shift-jis いろはにほへと ちりぬるを
euc-jp いろはにほへと ちりぬるを
gb18030 天地玄黄宇宙洪荒日月盈昃
euc-kr 다람쥐 헌 쳇바퀴에 타고파
LINES
else echo "left out: iconv"
fi
with 'NR == 8' 'y = $2; x = sprintf("%1200s", ""); gsub(/ /, "ab ", x); $2 = x y' >bad
fault "too-long:1:8 length-ratio:1:8 longer:1:8" "too many tokens" --tsv bad
fault "length-ratio:1:8 longer:1:8" "a --max-length that is enough" --tsv bad --max-length 4000
fault "long-line:1:8" "more bytes than --max-line-bytes" --tsv bad --max-line-bytes 3000
awk -F '\t' -v OFS='\t' 'NR == 6 { sub(/ [A-Z]*$/, "", $2) } 1' tags.tsv >bad
fault "without-labels:1:6" "a word without a label" --objective tag --tsv bad

# --- pairs that do not belong together --------------------------------------------------------------------
with 'NR % 10 == 3' 'x = $1; $1 = $2; $2 = x' >bad
fault "exchanged:40:3" "every tenth pair exchanged" --tsv bad
with 'NR > 200' 'x = $1; $1 = $2; $2 = x' >bad
fault "exchanged:200:201" "the second half exchanged" --tsv bad
with 'NR % 50 == 4' '$1 = $2; sub(/^[^ ]*/, "Abend Abend", $1)' >bad
fault "language:8:4" "sources in the language of targets" --tsv bad
with 'NR % 50 == 4' '$2 = $1' >bad
fault "language:8:4 identical:8:4" "targets that are not translated" --tsv bad
awk '{ r = $NF; for (i = NF - 1; i > 0; i--) r = r " " $i; print $0 "\t" (NR == 4 ? $0 : "so " r) }' text >bad
fault "identical:1:4" "a target that is the source, where both sides are alike" --tsv bad
awk 'NR == 121 { print "ein Satz zu viel 77" } { print }' t | head -n 400 >bad
fault "shifted:280:121" "a line too many" --source s --target bad
grep -q 'to about line 400: source n fits target n + 1' out
check "how far it is shifted" [ $? -eq 0 ]
awk 'BEGIN { srand(3); for (i = 0; i < 1000; i++) { a = b = ""; n = 1 + int(20 * rand()); m = 1 + int(8 * rand())
    for (k = 0; k < n; k++) a = a (k ? " " : "") "w" int(90 * rand())
    for (k = 0; k < m; k++) b = b (k ? " " : "") "v" int(90 * rand())
    print a "\t" b; print b "\t" a } }' >both
"$trf" doctor --tsv both >out 2>&1
check "pairs in both directions, one behind the other, are not shifted" eval \
    '! grep -q shifted out && grep -q "2000 pairs" out'
tail -n +2 t >bad
fault "unequal:1:400 shifted:399:1" "a line too few" --source s --target bad
check "unequal files are told as in training" grep -q "s has 400 lines, but bad has 399: line n of one must belong" out
with 'NR == 30' 'x = $2; sub(/ [0-9]*$/, "", x); $2 = x " " x " " x " " x " " x " " $2' >bad
fault "length-ratio:1:30" "a target that is six times as long" --tsv bad
with 'NR == 31' 'sub(/[0-9]*$/, "5", $2)' >bad
fault "numbers:1:31" "another number" --tsv bad
awk -F '\t' -v OFS='\t' 'NR > 50 { $1 = $1 " {name}"; $2 = $2 (NR == 77 ? " {nam}" : " {name}") } 1' pairs.tsv >bad
fault "placeholders:1:77" "another placeholder" --tsv bad
awk '{ print (NR == 12 ? $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 $0 : $0) }' text >part
{ head -n 11 text; for i in 1 2 3 4 5; do sed -n 12p part; done | tr '\n' ' '; echo; tail -n +13 text; } |
    sed 's/ $//' >bad
fault "longer:1:12" "a line far longer than others" --objective causal --text bad

# --- labels, headers, columns -----------------------------------------------------------------------------
sed '17s/\t.*/\tshrot/' kinds.tsv >bad
fault "single-label:1:17" "a label that is misspelt" --objective classify --tsv bad
sed '17s/NOUN/NUON/' tags.tsv >bad
fault "single-label:1:17" "a label of a word that is misspelt" --objective tag --tsv bad
{ cat kinds.tsv; sed -n '3s/\t.*//p' kinds.tsv | sed 's/$/\tother/'; sed 's/\t.*/ today\tother/' kinds.tsv; } >bad
fault "conflict:1:401" "two labels of one text" --objective classify --tsv bad
{ printf 'text\tlabel\n'; cat kinds.tsv; } >bad
fault "header:1:1" "a header" --objective classify --tsv bad
{ printf 'source\ttarget\n'; cat pairs.tsv; } >bad
fault "header:1:1" "a header of pairs" --tsv bad
awk -F '\t' '{ print $2 "\t" $1 }' kinds.tsv >bad
fault "label-column:400:1 conflict:398:3" "texts and labels exchanged" --objective classify --tsv bad
awk '{ for (i = 1; i <= NF / 2; i++) print $i "\t" $(i + NF / 2); print "" }' tags.tsv >bad
"$trf" doctor --objective tag --tsv bad >out
check "columns" grep -q 'they look like columns (CoNLL); a line takes all words' out
sh -c "$(sed -n 's/^    -> awk .NF/awk '"'"'NF/p' out)" >mended
check "the command makes lines of columns" cmp -s mended tags.tsv
head -n 1 pairs.tsv >bad
fault "one-line:1:1" "one line" --tsv bad

# --- characters -------------------------------------------------------------------------------------------
for row in 'control-characters \007' 'control-characters \302\205' 'byte-order-mark \357\273\277' \
    'zero-width \342\200\213' 'zero-width \342\200\215' 'zero-width \342\200\217' 'soft-hyphen \302\255' \
    'replacement \357\277\275' 'line-separator \342\200\250' 'mojibake \303\203\302\244' \
    'mojibake \303\242\342\202\254\342\204\242' 'no-break-space \302\240' 'no-break-space \342\200\257' \
    'meta-blank \342\226\201' 'html &quot;' 'html &#xAF;' 'blanks  ' 'mixed-scripts \320\260'; do
    bytes=$(printf "${row#* }.")
    text=${bytes%.} awk -F '\t' -v OFS='\t' 'NR == 44 { $1 = substr($1, 1, 2) ENVIRON["text"] substr($1, 3) } 1' \
        pairs.tsv >bad
    [ "${row%% *}" != blanks ] || sed '44s/^/ /' pairs.tsv >bad
    fault "${row%% *}:1:44" "$row" --tsv bad
    check "$row: its side" grep -q '"line":44,"file":"bad","side":"source"' out
done
for row in '\331\205\342\200\214\331\207' '\327\251\342\200\217' '5 \316\274m' \
    '\360\237\221\251\342\200\215\360\237\214\276' \
    'AT&T' 'S\303\203O' '\303\203\303\211' '\303\251\303\240' 'e\314\201'; do
    text=$(printf "$row") awk -F '\t' -v OFS='\t' 'NR == 44 { $1 = $1 " " ENVIRON["text"] } 1' text >bad
    fault "" "what is meant: $row" --objective causal --text bad
done
text=$(printf 'cafe\314\201\320\260') awk 'NR == 44 { $0 = $0 " " ENVIRON["text"] } 1' text >bad
fault "mixed-scripts:1:44" "a word goes on behind an accent" --objective causal --text bad
with 'NR == 44 || NR == 46' '$1 = $1 "\302\240"; $2 = $2 "\302\240"' >bad
fault "no-break-space:2:44" "a fault on both sides is one of the line" --tsv bad
with 'NR == 44' 'gsub(/ /, "\302\240", $1)' >bad
sh -c "$(remedy --tsv bad)" >mended
check "no-break spaces are made blanks" cmp -s mended pairs.tsv
for bytes in '\302\255' '\342\200\213' '\357\273\277' '\007'; do
    text=$(printf "$bytes") awk -F '\t' -v OFS='\t' 'NR == 44 { sub(/[a-z]/, "&" ENVIRON["text"], $1) } 1' \
        pairs.tsv >bad
    sh -c "$(remedy --tsv bad | sed 's/ (those.*//')" >mended
    check "the command removes $bytes" cmp -s mended pairs.tsv
done
sed '9s/ /\t/' text >bad
fault "tab:1:9" "a tab in a text" --objective causal --text bad
sed '9s/ /\t/' s >bad
fault "tab:1:9" "a tab in one of two files" --source bad --target t
fault "" "tabs of a file that is one document" --objective causal --documents file --text bad
sed 's/$/\r/' pairs.tsv >bad
fault "crlf:400:1" "CR LF" --tsv bad
printf '\357\273\277' | cat - pairs.tsv >bad
fault "" "a byte order mark at the beginning" --tsv bad

# --- lines that are there again ---------------------------------------------------------------------------
{ cat pairs.tsv; head -n 20 pairs.tsv; } >bad
fault "repeated:20:401" "repeated pairs" --tsv bad
"$trf" doctor --tsv bad >out
sh -c "$(sed -n "s/^    -> \(awk .* bad\) leaves.*/\1/p" out)" >mended
check "the command leaves them out" cmp -s mended pairs.tsv
cut -f 1 bad >bad.s; cut -f 2 bad >bad.t
"$trf" doctor --source bad.s --target bad.t >out
sh -c "$(sed -n "s/^    -> \(paste .*\) leaves.*/\1/p" out)" >mended
check "the command leaves them out of two files" cmp -s mended pairs.tsv
{ cat pairs.tsv; head -n 5 pairs.tsv | sed 's/ [^ ]* \([0-9]*\)$/ \1/'; } >bad
fault "several-targets:5:401" "several targets of one source" --tsv bad
{ cat valid.tsv; head -n 5 pairs.tsv; } >bad
fault "some-overlap:5:61" "a part of the validation is trained on" --tsv pairs.tsv --valid-tsv bad
{ head -n 9 valid.tsv; head -n 20 pairs.tsv; } >bad
fault "overlap:20:10" "most of the validation is trained on" --tsv pairs.tsv --valid-tsv bad
check "it is told as in training" grep -q '20 of 29 validation pairs are among the training data' out
fault "overlap:20:10" "most of the test is trained on" --tsv pairs.tsv --test-tsv bad
check "the test is called so" grep -q '20 of 29 test pairs are among the training data' out
cp valid.tsv copy.tsv
fault "overlap:60:1" "a test that is the validation" --tsv pairs.tsv --valid-tsv valid.tsv --test-tsv copy.tsv
check "the two are named" grep -q '60 of 60 test pairs are among the validation data' out
{ cat valid.tsv; head -n 5 pairs.tsv | sed 's/ [^ ]* \([0-9]*\)$/ \1/'; } >bad
fault "known-source:5:61" "a source that is trained on" --tsv pairs.tsv --valid-tsv bad
fault "same-file:1: overlap:400:1" "the same file" --tsv pairs.tsv --valid-tsv pairs.tsv

# --- the command ------------------------------------------------------------------------------------------
head -n 200 pairs.tsv >one.tsv; tail -n +201 pairs.tsv >two.tsv; mkdir parts; cp one.tsv two.tsv parts
fault "" "a file given again" --tsv one.tsv --tsv two.tsv
fault "" "a folder" --tsv parts
sed -i '7s/ / \t/' two.tsv
fault "malformed:1:7" "the second file has the fault" --tsv one.tsv --tsv two.tsv
check "it is named" grep -q '"file":"two.tsv"' out
fault "" "a pipe" --tsv - <pairs.tsv
awk -F '\t' '{ print NR "\t" $2 "\t" $1 }' pairs.tsv >three.tsv
fault "" "columns" --tsv three.tsv --columns 3,2
gzip -c pairs.tsv >packed.gz && fault "" "a packed file" --tsv packed.gz
with 'NR == 9' '$0 = "\302\255" $0' | gzip >hyphen.tsv.gz
fault "soft-hyphen:1:9" "a fault of a packed file" --tsv hyphen.tsv.gz
check "its command is that of the unpacked file" grep -q "g' hyphen.tsv; before that: gunzip -k hyphen.tsv.gz" out
with 'NR == 7' '$1 = "caf\351 " $1' | gzip >latin.tsv.gz
fault "encoding:1:7" "a packed file in another encoding" --tsv latin.tsv.gz
check "so is iconv's" grep -q "utf-8 latin.tsv; before that: gunzip -k latin.tsv.gz" out
expect 1 "a fault is told as lines" "^warning: 1 of 400 pairs: source and target have other numbers" sh -c \
    "awk -F '\t' -v OFS='\t' 'NR == 31 { sub(/[0-9]*\$/, \"5\", \$2) } 1' pairs.tsv >'a b' && '$trf' doctor --tsv 'a b'"
check "its place is told" grep -q '^    a b:31$' out
check "the sum is told" grep -q '^400 pairs: 1 warning, 0 notes$' out
expect 1 "no line has a tab" "text: no line has a tab" "$trf" doctor --tsv text
expect 1 "a file that is not there" "cannot read 'missing'" "$trf" doctor --tsv missing
expect 1 "one label" "there is one label, but two are needed" "$trf" doctor --objective classify --tsv - <<'LINES'
good	yes
better	yes
LINES
expect 2 "no data" "give --source FILE and --target FILE" "$trf" doctor
expect 2 "a file without an option" "give --tsv pairs.tsv" "$trf" doctor pairs.tsv
expect 2 "half of a test" "give --test-source FILE" "$trf" doctor --tsv pairs.tsv --test-target t
expect 2 "pairs for a text" "this --objective reads --text FILE" "$trf" doctor --objective causal --tsv pairs.tsv
expect 2 "a test text for pairs" "test-text is for --objective causal" "$trf" doctor --tsv pairs.tsv --test-text s
if [ -e /dev/full ]; then
    expect 1 "a full disk" "cannot write" sh -c "'$trf' doctor --tsv pairs.tsv >/dev/full"
fi

finish

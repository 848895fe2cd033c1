#!/bin/sh
# trf plot: logs over one another, schedules, positions, masks; broken logs, hostile names, no gnuplot. sh tests/test_trf_plot.sh TRF

. "$(dirname "$0")/trf.sh"

line() { printf '{"event":"progress","update":%s,"loss":%s,"learning_rate":%s}\n' "$1" "$2" "$3"; }
# numbers LOG...: what --csv prints, without its first line
numbers() { "$trf" plot "$@" --csv | tail -n +2; }
xml() { ! command -v python3 >/dev/null || python3 -c 'import sys, xml.dom.minidom
for path in sys.argv[1:]: xml.dom.minidom.parse(path)' "$@"; }
drawn() { expect 0 "$1" "" "$trf" plot "$2" --output "$3" --overwrite; check "$1: nothing is said" test ! -s err; }

judged="--tsv train.tsv $model --warmup 20 --batch-tokens 256 --log-every 10 --seed 5 --threads 1"
"$trf" train $judged --metric wer --updates 40 --valid-every 20 --log first.json --model first 2>/dev/null
"$trf" train $judged --metric exact --updates 30 --valid-every 10 --log second.json --model second 2>/dev/null
check "progress has the token accuracy" test "$(grep -c '"event":"progress".*"accuracy":0\.[0-9]*,' first.json)" -eq 4

# What is drawn, as numbers.
numbers first.json >all
check "training and validation, metric, accuracy, rate, speed, gradient" test "$(cut -d, -f2,3 all | sort -u | tr '\n' ' ')" = \
    "gradient norm,training learning rate,training loss,training loss,validation speed,training token accuracy,training token accuracy,validation wer,validation "
check "four points of training" test "$(grep -c ',loss,training,' all)" -eq 4
check "two of validation" test "$(grep -c ',wer,validation,' all)" -eq 2
logged=$(sed -n 's/.*"progress","update":20,.*"loss":\([0-9.]*\),.*/\1/p' first.json)
check "the loss of update 20" test "$(sed -n 's/^"first",loss,training,20,//p' all)" = "$logged"
logged=$(sed -n 's/.*"validation","update":40,.*"accuracy":\([0-9.]*\),.*/\1/p' first.json)
check "accuracy in per cent" awk -v of="$logged" -F, '/token accuracy,validation,40/ { ok = ($5 - 100 * of) ^ 2 < 1e-9 } END { exit !ok }' all
numbers first.json --only loss,rate >some
check "some of it" test "$(cut -d, -f2 some | sort -u | tr '\n' ' ')" = "learning rate loss "
numbers first.json second.json --only metric >both
check "two metrics of two runs" test "$(cut -d, -f1,2 both | sort -u | tr '\n' ' ')" = '"first",wer "second",exact '
expect 2 "only what" "some of loss,metric,accuracy,rate,speed,gradient, got 'los'" "$trf" plot first.json --only loss,los
expect 2 "only nothing" "got ''" "$trf" plot first.json --only ''
line 10 2.5 1e-3 >point.json
expect 1 "only what no log has" "no log has numbers for --only speed" "$trf" plot point.json --only speed

# The shortest names that differ.
mkdir -p a/x b/x
cp first.json a/x/log.json; cp second.json b/x/log.json
check "the folders, where the files have one name" test "$(numbers a/x/log.json b/x/log.json | cut -d, -f1 | sort -u | tr '\n' ' ')" = '"a" "b" '
cp first.json b/x/other.json
check "one folder has two: the folders without the extension" test "$(numbers a/x/log.json b/x/log.json b/x/other.json |
    cut -d, -f1 | sort -u | tr '\n' ' ')" = '"a/x/log" "b/x/log" "b/x/other" '
cp second.json a/x/log.jsonl
check "the extensions" test "$(numbers a/x/log.json a/x/log.jsonl | cut -d, -f1 | sort -u | tr '\n' ' ')" = '"log.json" "log.jsonl" '
cp first.json first
check "all of it" test "$(numbers ./first a/x/log.json | cut -d, -f1 | sort -u | tr '\n' ' ')" = '"first" "log" '
expect 2 "one log twice" "'first.json' and './first.json' are the same log" "$trf" plot first.json ./first.json
expect 2 "standard input twice" "are the same log" "$trf" plot - -
check "standard input" test "$(numbers - <point.json | head -n 1)" = '"standard input",loss,training,10,2.5'

# A run that was killed and resumed: what was behind the checkpoint is not drawn.
{ line 10 3 1e-3; line 20 2 1e-3; line 30 1 1e-3; echo '{"event":"start","version":"0","update":20}'; line 30 1.5 1e-3; line 40 1.2 1e-3; } >killed.json
check "resumed" test "$(numbers killed.json --only loss | cut -d, -f4,5 | tr '\n' ' ')" = "10,3 20,2 30,1.5 40,1.2 "
{ cat killed.json; line 30 9 1e-3; } >back.json
check "a number that goes back" test "$(numbers back.json --only loss | cut -d, -f4,5 | tr '\n' ' ')" = "10,3 20,2 30,9 "

# Old logs, and those of another program that writes JSON with blanks.
printf '{"event": "progress", "update": 5, "loss": 2.5}\n{"event":"validation","update":5,"loss":2,"metric":"wer","score":50}\n' >old.json
check "an old log" test "$(numbers old.json | cut -d, -f2- | tr '\n' ' ')" = "loss,training,5,2.5 loss,validation,5,2 wer,validation,5,50 "
printf '{"event":"validation","update":5,"loss":2,"accuracy":0.5,"metric":"accuracy","score":50}\n' >labels.json
check "accuracy of labels is drawn once" test "$(numbers labels.json --only metric,accuracy)" = '"labels",token accuracy,validation,5,50'

# Broken logs.
: >empty.json
expect 1 "an empty log" "empty.json is empty" "$trf" plot empty.json
sed -n 1p first.json >start.json
expect 1 "no update yet" "no numbers of a training run" "$trf" plot start.json
echo 'once upon a time' >story.json
expect 1 "no log" "no numbers of a training run" "$trf" plot story.json
expect 1 "a log that is not there" "cannot read 'nowhere.json': No such file" "$trf" plot first.json nowhere.json
expect 1 "a folder" "cannot read 'a': Is a directory" "$trf" plot a
head -c "$(($(wc -c <first.json) - 30))" first.json >cut.json
expect 0 "a last line that is cut" "" "$trf" plot cut.json --csv
check "nothing is said of it" test ! -s err
{ sed -n 1,3p first.json; echo '{"event":"progress","update":1'; sed -n '4,$p' first.json; echo '[]'; } >broken.json
expect 1 "a line that is cut in the middle" "broken.json:4: not a complete JSON object; 2 such lines are left out" "$trf" plot broken.json --csv
check "the rest is there" test "$(wc -l <out)" -eq "$(($(wc -l <all) + 1))"
{ line 1 2 1e-3; printf '{"event":"progress",\0"update":2,"loss":3}\n'; printf '{"event":"progress","update":2,"loss":3,"\377":1}\n'; line 3 1 1e-3; } >bytes.json
expect 1 "a NUL and a bad byte" "bytes.json:2: a NUL byte; 2 such lines are left out" "$trf" plot bytes.json --csv
printf '{"event":"progress","update":null,"loss":3}\n{"update":2}\n' >keys.json; line 3 1 1e-3 >>keys.json
expect 1 "no number of an update" 'keys.json:1: no number after "update"' "$trf" plot keys.json --csv
{ line 1 NaN 1e-3; line 2 1.5 1e-3; line 3 null 1e-3; line 4 Infinity 1e-3; line 5 1e999 1e-3; line 6 2 1e-3; line 7 -1e308 1e-3; } >nan.json
check "numbers that are none" test "$(numbers nan.json --only loss | cut -d, -f4,5 | tr '\n' ' ')" = "1, 2,1.5 3, 4, 5, 6,2 7,-1e+308 "
line 1 null null >none.json
expect 1 "no number at all" "no numbers of a training run" "$trf" plot none.json
sed 's/"metric":"wer"/"metric":"<script>alert(1)"/' first.json >metric.json
check "a metric that is none" test "$(numbers metric.json | grep -c 'script\|wer')" -eq 0

# Options that a picture does not have, and misspelt pictures.
expect 2 "no log" "give a log" "$trf" plot
expect 2 "a schedule's option for a log" "--warmup is for trf plot schedule" "$trf" plot first.json --warmup 100
expect 2 "a log's for a schedule" "--only is for logs" "$trf" plot schedule --only loss
expect 2 "a mask's for positions" "--kind is for trf plot masks" "$trf" plot positions --kind full
expect 2 "a log beside a schedule" "schedule takes only options, got 'first.json'" "$trf" plot schedule first.json
expect 2 "a misspelt picture" "did you mean trf plot schedule" "$trf" plot schedul
expect 2 "a misspelt option" "did you mean --warmup" "$trf" plot schedule --warmpu 5
expect 2 "what is no picture" "takes an .svg, .png or .pdf, got 'x.gif'" "$trf" plot first.json --output x.gif
expect 2 "numbers in a picture" "--csv writes numbers, but 'x.svg' is the name of a picture" "$trf" plot first.json --csv --output x.svg
expect 0 "numbers in a file" "" "$trf" plot first.json --csv --output numbers.csv
check "are the same" eval '"$trf" plot first.json --csv | cmp -s - numbers.csv'
expect 1 "where nothing can be written" "cannot write '/nonexistent/x.svg'" "$trf" plot masks --output /nonexistent/x.svg
echo mine >mine.svg
for what in first.json schedule positions masks; do
    expect 1 "$what over a file" "'mine.svg' exists: --overwrite replaces it" "$trf" plot $what --output mine.svg
done
check "which is as it was" test "$(cat mine.svg)" = mine
cp first.json log.svg
expect 1 "over the log itself" "--output names the log" "$trf" plot log.svg --output log.svg --overwrite
check "which is as it was, too" same first.json log.svg

# Schedules: numbers by the paper's formula.
schedule() { "$trf" plot schedule --csv "$@"; }
schedule --warmup 100,400 --d-model 64 --updates 1000 >rates
check "noam: d^-0.5 min(s^-0.5, s w^-1.5)" awk -F, 'NR > 1 {
        w = $1 ~ /100/ ? 100 : 400; s = $2; a = s ^ -0.5; b = s * w ^ -1.5; want = 64 ^ -0.5 * (a < b ? a : b)
        if (!(($3 - want) ^ 2 < 1e-16 * want * want * 1e2)) bad = 1; n++ } END { exit bad || n != 2000 }' rates
check "which are named" test "$(cut -d, -f1 rates | sort -u | tr '\n' ' ')" = '"warm-up 100" "warm-up 400" schedule '
schedule --warmup 3 --updates 1000000000000 >far
check "the highest rate is drawn, however far" awk -F'",' 'NR == 2 { split($2, a, ","); exit a[1] != 3 }' far
check "and the last update" test "$(tail -n 1 far | cut -d, -f5)" = 1000000000000
schedule --schedule inverse-sqrt,cosine,constant --warmup 100 --learning-rate 0.5 --updates 1000 >kinds
check "half a cosine ends at 0" test "$(grep '"cosine",1000,' kinds | cut -d, -f3)" = 0
check "constant stays" test "$(grep '"constant",1000,' kinds | cut -d, -f3)" = 0.5
check "inverse-sqrt falls" awk -F, '/"inverse-sqrt",400,/ { ok = ($3 - 0.25) ^ 2 < 1e-18 } END { exit !ok }' kinds
schedule --schedule noam,constant --d-model 64,256 --warmup 10 --updates 20 | cut -d, -f1,2 | sort -u >widths
check "the width matters to noam alone" test "$(grep -c . widths)" -le 41
expect 2 "what is no number" "--warmup takes whole numbers from 1 to .*, got '10,x'" "$trf" plot schedule --warmup 10,x
expect 2 "a fraction" "got '1.5'" "$trf" plot schedule --warmup 1.5
expect 2 "an end" "got '10,'" "$trf" plot schedule --warmup 10,
expect 2 "nothing" "got ''" "$trf" plot schedule --warmup ''
expect 2 "not a number" "got 'nan'" "$trf" plot schedule --learning-rate nan
expect 2 "17 numbers" "at most 16" "$trf" plot schedule --warmup 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
expect 2 "100 curves" "more than 32 curves" "$trf" plot schedule --warmup 1,2,3,4,5,6,7,8,9,10 --d-model 1,2,3,4,5,6,7,8,9,10
expect 2 "no schedule" "some of noam,inverse-sqrt,cosine,constant, got 'linear'" "$trf" plot schedule --schedule linear
expect 2 "a cosine that ends before it begins" "before the end of its warm-up of 4000 updates" "$trf" plot schedule --schedule cosine --updates 100
expect 2 "a width that does not matter" "--d-model is for --schedule noam" "$trf" plot schedule --schedule constant --d-model 5
expect 2 "the beginning of noam" "--initial-rate is not for --schedule noam" "$trf" plot schedule --initial-rate 1e-5
expect 2 "an end without a cosine" "--total-steps is for --schedule cosine" "$trf" plot schedule --total-steps 10

expect 2 "a rate below 0" "--initial-rate takes a number from 0 to 1e6, got '-1'" "$trf" plot schedule --schedule constant --initial-rate -1
expect 2 "updates without end" "--updates takes a whole number from 1 to 1000000000000000" "$trf" plot schedule --updates 9223372036854775807
check "as many as there may be" test "$(schedule --updates 1000000000000000 | tail -n 1 | cut -d, -f5)" = 1000000000000000

# Positions.
positions() { "$trf" plot positions --csv "$@"; }
positions --d-model 8 --max-length 20 >table
check "sin and cos in turn" awk -F, 'NR > 1 { for (j = 0; j < 8; j++) { a = $1 / 10000 ^ (2 * int(j / 2) / 8); want = j % 2 ? cos(a) : sin(a)
        if (!(($(j + 2) - want) ^ 2 < 1e-12)) bad = 1; n++ } } END { exit bad || n != 160 }' table
positions --d-model 8 --max-length 20 --positions halves --position-offset 2 >table
check "in halves, from position 2 on" awk -F, 'NR > 1 { for (j = 0; j < 8; j++) { a = $1 / 10000 ^ (2 * (j % 4) / 8); want = j > 3 ? cos(a) : sin(a)
        if (!(($(j + 2) - want) ^ 2 < 1e-12)) bad = 1; n++ } } END { exit bad || n != 160 || $1 != 21 }' table
positions --d-model 8 --max-length 20 --positions halves-n1 >table
check "tensor2tensor's" awk -F, 'NR > 1 { for (j = 0; j < 8; j++) { a = $1 / 10000 ^ ((j % 4) / 3); want = j > 3 ? cos(a) : sin(a)
        if (!(($(j + 2) - want) ^ 2 < 1e-12)) bad = 1; n++ } } END { exit bad || n != 160 }' table
positions --d-model 16 --max-length 30 --view similarity >cosines
check "the cosine depends on the distance alone" awk -F, 'NR > 1 { for (j = 0; j < 30; j++) { d = j > $1 ? j - $1 : $1 - j
        if (!(d in of)) of[d] = $(j + 2); if (!(($(j + 2) - of[d]) ^ 2 < 1e-11)) bad = 1 } } END { exit bad || !((of[0] - 1) ^ 2 < 1e-12) || !(of[1] < 1) }' cosines
check "one position of one dimension" test "$(positions --d-model 1 --max-length 1 | tail -n 1)" = "0,0"
expect 2 "no positions" "--max-length takes a whole number from 1" "$trf" plot positions --max-length 0
expect 2 "too many" "more than 4000000 numbers" "$trf" plot positions --max-length 100000
expect 2 "two widths" "one number for positions" "$trf" plot positions --d-model 8,16
expect 2 "too far" "--position-offset takes a whole number from 0 to 1048576, got 1048577" "$trf" plot positions --position-offset 1048577
check "as far as that" test "$(positions --d-model 2 --max-length 2 --position-offset 1048576 | cut -d, -f1 | tr '\n' ' ')" = "position 1048576 1048577 "
expect 2 "a rule without a table" "interleaved|halves-n1|halves, got 'learned'" "$trf" plot positions --positions learned
expect 2 "a dimension that is not there" "from 0 to 63" "$trf" plot positions --dimensions 64
expect 2 "all views as PNG" "only an .svg can have all views, got --output 'x.png'" "$trf" plot positions --output x.png
expect 0 "a heat map needs no gnuplot" "" env PATH=/nonexistent "$trf" plot positions --view heat --output heat.svg
check "a number on hover" grep -q '<title>position 1, dimension 0: 0.84147</title>' heat.svg
check "a cell for each" test "$(grep -c '<path d="M[0-9]* [0-9]*h1v1h-1z" fill' heat.svg)" -eq 3200
check "a background" grep -q '<rect width="100%" height="100%" fill="#fff"/>' heat.svg
check "which is XML" xml heat.svg
expect 0 "a large one is an image" "" "$trf" plot positions --view heat --d-model 1000 --max-length 1000 --output large.svg
check "and less than 5 MB" test "$(wc -c <large.svg)" -lt 5000000
check "with means on hover" grep -q '<title>position 0 to [0-9]*, dimension 0 to [0-9]*: mean ' large.svg
check "it is XML too" xml large.svg
expect 0 "in the terminal" "positions" "$trf" plot positions --view heat
expect 0 "the large one too" "Each cell is the mean of" "$trf" plot positions --view similarity --d-model 4 --max-length 1000

# Masks.
expect 0 "two masks" "causal (GPT, decoders): 36 of 64 pairs" "$trf" plot masks
check "BERT's is full" grep -q "full (BERT, encoders): 64 of 64 pairs" out
seen() { "$trf" plot masks --csv "$@" | awk -F, 'NR > 1 { row[$2] = row[$2] $4; n = $2 } END { for (i = 0; i <= n; i++) printf "%s ", row[i] }'; }
check "causal" test "$(seen --kind causal --length 4)" = "1000 1100 1110 1111 "
check "prefix" test "$(seen --kind prefix --prefix 2 --length 4)" = "1100 1100 1110 1111 "
check "a prefix of none is causal" test "$(seen --kind prefix --prefix 0 --length 4)" = "1000 1100 1110 1111 "
check "padding" test "$(seen --kind padding --padded 1 --length 4)" = "1110 1110 1110 1110 "
check "one token" test "$(seen --kind full,causal --length 1)" = "11 "
expect 2 "a prefix without one" "--prefix is for --kind prefix" "$trf" plot masks --prefix 2
expect 2 "a prefix beyond the tokens" "from 0 to 8, .*got '9'" "$trf" plot masks --kind prefix --prefix 9
expect 2 "no mask" "some of full,causal,prefix,padding, got 'window'" "$trf" plot masks --kind window
expect 2 "too many tokens" "1 to 1000 tokens, got 1001" "$trf" plot masks --length 1001
expect 2 "no words" "1 to 1000 tokens, got 0" "$trf" plot masks --words ' '
expect 2 "words and a length" "--words or --length, not both" "$trf" plot masks --words 'a b' --length 3
hostile=$(printf '<script>alert(1)</script> \047"& \377\376 \033[31m e\314\201 漢字 %0200d' 7)
expect 0 "hostile words" "" "$trf" plot masks --words "$hostile" --output words.svg
check "no tag of theirs" test "$(grep -c '<script\|[[:cntrl:]]\[31' words.svg)" -eq 0
check "but their text" grep -q '&lt;script&gt;alert(1)&lt;/script&gt;' words.svg
check "in XML" xml words.svg
expect 0 "hostile words in the terminal" "" "$trf" plot masks --words "$hostile"
check "drive none" test "$(LC_ALL=C tr -d '\n\040-\176\200-\377' <out | wc -c)" -eq 0

# Without gnuplot.
expect 1 "logs without gnuplot" "gnuplot, which draws curves, is not installed; --csv prints the numbers" env PATH=/nonexistent "$trf" plot first.json
expect 1 "into a file" "is not installed" env PATH=/nonexistent "$trf" plot first.json --output without.svg
check "there is none" test ! -e without.svg
expect 1 "positions without gnuplot" "is not installed" env PATH=/nonexistent "$trf" plot positions --output without.svg
check "nor this one" test ! -e without.svg
expect 1 "a heat map as PNG" "gnuplot, which draws .png, is not installed; trf itself writes an .svg" env PATH=/nonexistent "$trf" plot masks --output without.png
check "nor that" test ! -e without.png
mkdir bin
printf '#!/bin/sh\necho "a complaint" >&2\nexit 3\n' >bin/gnuplot
chmod +x bin/gnuplot
expect 1 "a gnuplot that fails" "gnuplot cannot draw the curves: a complaint" env PATH="$here/bin:$PATH" "$trf" plot first.json --output without.svg
check "leaves nothing" test ! -e without.svg
expect 0 "masks need none" "" env PATH=/nonexistent "$trf" plot masks

if command -v gnuplot >/dev/null; then
    for log in first.json point.json nan.json old.json killed.json labels.json; do
        drawn "$log as .svg" $log picture.svg
        check "$log: XML, without gnuplot's titles" eval 'xml picture.svg && ! grep -q "<title>\|<?xml" picture.svg'
    done
    drawn "as .png" first.json picture.png
    check "a PNG" test "$(head -c 4 picture.png | tail -c 3)" = PNG
    drawn "as .pdf" first.json picture.pdf
    check "a PDF" test "$(head -c 4 picture.pdf)" = %PDF
    drawn "schedules" schedule rates.svg
    expect 0 "hostile words as PNG" "" "$trf" plot masks --words "$hostile" --output words.png
    check "is a PNG too" test "$(head -c 4 words.png | tail -c 3)" = PNG
    expect 0 "a large table as PNG" "" "$trf" plot positions --view heat --d-model 1000 --max-length 1000 --output large.png
    check "of a thousand pixels" test "$(wc -c <large.png)" -gt 100000
    expect 0 "a mask as PDF" "" "$trf" plot masks --output masks.pdf
    check "is a PDF too" test "$(head -c 4 masks.pdf)" = %PDF
    drawn "positions" positions all.svg
    check "heat maps and curves in one" test "$(grep -c '<svg y=' all.svg)" -eq 2
    check "as XML" xml all.svg
    expect 0 "two runs" "" "$trf" plot first.json second.json --output two.svg
    check "with their names" eval 'grep -q ">first<" two.svg && grep -q ">second<" two.svg'
    odd=$(printf "a'b\"c \$d @e \`f\` <script> \\\\n \377.json")
    cp first.json "$odd"
    expect 0 "a hostile name" "" "$trf" plot "$odd" second.json --output hostile.svg
    check "of which nothing is run" eval 'xml hostile.svg && ! grep -q "<script" hostile.svg'
    cp second.json "'quoted'.json"
    expect 0 "a name that begins with a quote" "" "$trf" plot "'quoted'.json" second.json --output quoted.svg
    expect 0 "and in the terminal" "script" "$trf" plot "$odd" second.json
    expect 0 "one point in the terminal" " A " "$trf" plot point.json
    awk 'BEGIN { for (i = 1; i <= 1000000; i++) printf "{\"event\":\"progress\",\"update\":%d,\"loss\":%.4f}\n", i, 8 * exp(-i / 100000) + (i == 500000 ? 3 : 0) }' >million.json
    drawn "a million lines" million.json million.svg
    check "in less than 1 MB" test "$(wc -c <million.svg)" -lt 1000000
    "$trf" plot first.json second.json 2>err | head -n 1 >out
    check "a reader who leaves" test ! -s err
else echo "left out: gnuplot"
fi

finish

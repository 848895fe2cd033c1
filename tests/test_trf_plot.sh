#!/bin/sh
# trf plot: logs over one another; broken logs, hostile names, no gnuplot. sh tests/test_trf_plot.sh TRF

. "$(dirname "$0")/trf.sh"

line() { printf '{"event":"progress","update":%s,"loss":%s,"learning_rate":%s}\n' "$1" "$2" "$3"; }
# numbers LOG...: what --csv prints, without its first line
numbers() { "$trf" plot "$@" --csv | tail -n +2; }
xml() { ! command -v python3 >/dev/null || python3 -c 'import sys, xml.dom.minidom
for path in sys.argv[1:]: xml.dom.minidom.parse(path)' "$@"; }
drawn()
{
    expect 0 "$1" "" "$trf" plot "$2" --output "$3" --overwrite
    check "$1: nothing is said on standard error" test ! -s err
}

judged="--tsv train.tsv $model --warmup 20 --batch-tokens 256 --log-every 10 --seed 5 --threads 1"
"$trf" train $judged --metric wer --updates 40 --valid-every 20 --log first.json --model first 2>/dev/null
"$trf" train $judged --metric exact --updates 30 --valid-every 10 --log second.json --model second 2>/dev/null
check "train: progress events of the log have the token accuracy" \
    test "$(grep -c '"event":"progress".*"accuracy":0\.[0-9]*,' first.json)" -eq 4

# What is drawn, as numbers.
numbers first.json >all
check "plot: --csv has losses, the metric, accuracies, rate, speed and gradient norm" \
    test "$(cut -d, -f2,3 all | sort -u | tr '\n' ' ')" = \
    "gradient norm,training learning rate,training loss,training loss,validation speed,training "\
"token accuracy,training token accuracy,validation wer,validation "
check "plot: --csv has the four losses of training" test "$(grep -c ',loss,training,' all)" -eq 4
check "plot: --csv has the metric of the two validations" test "$(grep -c ',wer,validation,' all)" -eq 2
logged=$(sed -n 's/.*"progress","update":20,.*"loss":\([0-9.]*\),.*/\1/p' first.json)
check "plot: --csv has the loss of update 20 that the log has" test "$(sed -n 's/^"first",loss,training,20,//p' all)" \
    = "$logged"
logged=$(sed -n 's/.*"validation","update":40,.*"accuracy":\([0-9.]*\),.*/\1/p' first.json)
check "plot: --csv has the accuracy of the log in per cent" awk -v of="$logged" -F, \
    '/token accuracy,validation,40/ { ok = ($5 - 100 * of) ^ 2 < 1e-9 } END { exit !ok }' all
numbers first.json --only loss,rate >some
check "plot: --only loss,rate draws nothing else" test "$(cut -d, -f2 some | sort -u | tr '\n' ' ')" \
    = "learning rate loss "
numbers first.json second.json --only metric >both
check "plot: --only metric draws the different metrics of two runs" \
    test "$(cut -d, -f1,2 both | sort -u | tr '\n' ' ')" = '"first",wer "second",exact '
expect 2 "plot: --only with an unknown name is refused with the names that exist" \
    "some of loss,metric,accuracy,rate,speed,gradient, got 'los'" "$trf" plot first.json --only loss,los
expect 2 "plot: --only with an empty name is refused" "got ''" "$trf" plot first.json --only ''
line 10 2.5 1e-3 >point.json
expect 1 "plot: --only speed is refused where no log has speeds" "no log has numbers for --only speed" "$trf" plot \
    point.json --only speed

# The shortest names that differ.
mkdir -p a/x b/x
cp first.json a/x/log.json; cp second.json b/x/log.json
check "plot: logs of one name in two folders are named by the folders" \
    test "$(numbers a/x/log.json b/x/log.json | cut -d, -f1 | sort -u |
    tr '\n' ' ')" = '"a" "b" '
cp first.json b/x/other.json
check "plot: two logs of one folder, and one of another, are named by folders and files without the extension" \
    test "$(numbers a/x/log.json b/x/log.json b/x/other.json |
    cut -d, -f1 | sort -u | tr '\n' ' ')" = '"a/x/log" "b/x/log" "b/x/other" '
cp second.json a/x/log.jsonl
check "plot: logs that differ in the extension are named with it" \
    test "$(numbers a/x/log.json a/x/log.jsonl | cut -d, -f1 | sort -u |
    tr '\n' ' ')" = '"log.json" "log.jsonl" '
cp first.json first
check "plot: logs of different names are named by the file alone, without the extension" \
    test "$(numbers ./first a/x/log.json | cut -d, -f1 | sort -u | tr '\n' ' ')" = '"first" "log" '
expect 2 "plot: one log given twice is refused" "'first.json' and './first.json' are the same log" "$trf" plot \
    first.json ./first.json
expect 2 "plot: standard input given twice is refused" "are the same log" "$trf" plot - -
check "plot: a log on standard input is named so" test "$(numbers - <point.json | head -n 1)" \
    = '"standard input",loss,training,10,2.5'

# A run that was killed and resumed: what was behind the checkpoint is not drawn.
{ line 10 3 1e-3; line 20 2 1e-3; line 30 1 1e-3; echo '{"event":"start","version":"0","update":20}'; line 30 1.5 \
    1e-3; line 40 1.2 1e-3; } >killed.json
check "plot: a resumed run is drawn without what came after its checkpoint" \
    test "$(numbers killed.json --only loss | cut -d, -f4,5 | tr '\n' ' ')" = "10,3 20,2 30,1.5 40,1.2 "
{ cat killed.json; line 30 9 1e-3; } >back.json
check "plot: an update that goes back replaces those after it" test "$(numbers back.json --only loss | cut -d, -f4,5 |
    tr '\n' ' ')" = "10,3 20,2 30,9 "

# Old logs, and those of another program that writes JSON with blanks.
{
    printf '{"event": "progress", "update": 5, "loss": 2.5}\n'
    printf '{"event":"validation","update":5,"loss":2,"metric":"wer","score":50}\n'
} >old.json
check "plot: an old log, and JSON with blanks, are drawn" test "$(numbers old.json | cut -d, -f2- |
    tr '\n' ' ')" = "loss,training,5,2.5 loss,validation,5,2 wer,validation,5,50 "
printf '{"event":"validation","update":5,"loss":2,"accuracy":0.5,"metric":"accuracy","score":50}\n' >labels.json
check "plot: the accuracy of labels, which is also the metric, is drawn once" \
    test "$(numbers labels.json --only metric,accuracy)" = '"labels",token accuracy,validation,5,50'

# Broken logs.
: >empty.json
expect 1 "plot: an empty log is refused" "empty.json is empty" "$trf" plot empty.json
sed -n 1p first.json >start.json
expect 1 "plot: a log without an update is refused" "no numbers of a training run" "$trf" plot start.json
echo 'once upon a time' >story.json
expect 1 "plot: a file that is no log is refused" "no numbers of a training run" "$trf" plot story.json
expect 1 "plot: a log that is not there is refused" "cannot read 'nowhere.json': No such file" "$trf" plot first.json \
    nowhere.json
expect 1 "plot: a folder instead of a log is refused" "cannot read 'a': Is a directory" "$trf" plot a
head -c "$(($(wc -c <first.json) - 30))" first.json >cut.json
expect 0 "plot: a log whose last line is cut off is drawn" "" "$trf" plot cut.json --csv
check "plot: a last line that is cut off is not told" test ! -s err
{ sed -n 1,3p first.json; echo '{"event":"progress","update":1'; sed -n '4,$p' first.json; echo '[]'; } >broken.json
expect 1 "plot: a line that is cut off in the middle of a log is named, and left out" \
    "broken.json:4: not a complete JSON object; 2 such lines are left out" "$trf" plot broken.json --csv
check "plot: a line that is cut off in the middle of a log leaves the other numbers as they are" test "$(wc -l <out)" \
    -eq "$(($(wc -l <all) + 1))"
{ line 1 2 1e-3; printf '{"event":"progress",\0"update":2,"loss":3}\n'; printf \
    '{"event":"progress","update":2,"loss":3,"\377":1}\n'; line 3 1 1e-3; } >bytes.json
expect 1 "plot: lines with a NUL byte or a byte that is not UTF-8 are named, and left out" \
    "bytes.json:2: a NUL byte; 2 such lines are left out" "$trf" plot bytes.json --csv
printf '{"event":"progress","update":null,"loss":3}\n{"update":2}\n' >keys.json; line 3 1 1e-3 >>keys.json
expect 1 "plot: an event without a number of its update is named" 'keys.json:1: no number after "update"' "$trf" plot \
    keys.json --csv
{ line 1 NaN 1e-3; line 2 1.5 1e-3; line 3 null 1e-3; line 4 Infinity 1e-3; line 5 1e999 1e-3; line 6 2 1e-3; line 7 \
    -1e308 1e-3; } >nan.json
check "plot: a loss that is no number is a gap" test "$(numbers nan.json --only loss | cut -d, -f4,5 |
    tr '\n' ' ')" = "1, 2,1.5 3, 4, 5, 6,2 7,-1e+308 "
line 1 null null >none.json
expect 1 "plot: a log of one update without a number is refused" "no numbers of a training run" "$trf" plot none.json
sed 's/"metric":"wer"/"metric":"<script>alert(1)"/' first.json >metric.json
check "plot: a metric with an unknown name is not drawn" test "$(numbers metric.json | grep -c 'script\|wer')" -eq 0

# Wrong options, and what the studies draw.
expect 2 "plot: no log is refused" "give a log" "$trf" plot
expect 2 "plot: 'schedule', which is no log, is refused with the study that draws schedules" \
    "no log 'schedule'; examples/studies/schedules.c draws schedules" "$trf" plot schedule
expect 2 "plot: 'positions' beside a log is refused with the study that draws positions" \
    "no log 'positions'; examples/studies/position_table.c draws positions" "$trf" plot first.json positions
expect 2 "plot: 'masks', which is no log, is refused with the study that draws masks" \
    "no log 'masks'; examples/studies/masks.c draws masks" "$trf" plot masks --output masks.svg
for study in schedules position_table masks; do
    check "plot: the study $study, which messages name, is there" test -f "$source/examples/studies/$study.c"
done
cp first.json schedule
check "plot: a log that is named 'schedule' is drawn" test "$(numbers schedule | cut -d, -f1 | sort -u)" = '"schedule"'
expect 2 "plot: a misspelt --olny is refused, and --only is proposed" "did you mean --only" "$trf" plot first.json \
    --olny loss
expect 2 "plot: --output x.gif, which is no picture that it draws, is refused" \
    "takes an .svg, .png or .pdf, got 'x.gif'" "$trf" plot first.json --output x.gif
expect 2 "plot: --csv with the name of a picture as --output is refused" \
    "--csv writes numbers, but 'x.svg' is the name of a picture" "$trf" plot first.json --csv --output x.svg
expect 0 "plot: --csv writes its numbers to --output" "" "$trf" plot first.json --csv --output numbers.csv
check "plot: --csv writes to --output what it prints" eval '"$trf" plot first.json --csv | cmp -s - numbers.csv'
expect 1 "plot: --output in a folder that is not there is refused" "cannot write '/nonexistent/x.svg'" "$trf" plot \
    first.json --output /nonexistent/x.svg
echo mine >mine.svg
expect 1 "plot: a file that is there is not replaced without --overwrite" "'mine.svg' exists: --overwrite replaces it" \
    "$trf" plot first.json --output mine.svg
check "plot: a file that is not replaced stays as it was" test "$(cat mine.svg)" = mine
cp first.json log.svg
expect 1 "plot: --output that names a log is refused" "--output names the log" "$trf" plot log.svg --output log.svg \
    --overwrite
check "plot: a log that is named as --output stays as it was" same first.json log.svg

# Without gnuplot.
expect 1 "plot: without gnuplot curves in the terminal are refused, and --csv is proposed" \
    "gnuplot, which draws curves, is not installed; --csv prints the numbers" env PATH=/nonexistent "$trf" plot \
    first.json
expect 1 "plot: without gnuplot a picture is refused" "is not installed" env PATH=/nonexistent "$trf" plot first.json \
    --output without.svg
check "plot: without gnuplot no picture is left" test ! -e without.svg
mkdir bin
printf '#!/bin/sh\necho "a complaint" >&2\nexit 3\n' >bin/gnuplot
chmod +x bin/gnuplot
expect 1 "plot: a gnuplot that fails is told with its complaint" "gnuplot cannot draw the curves: a complaint" \
    env PATH="$here/bin:$PATH" "$trf" plot first.json --output without.svg
check "plot: a gnuplot that fails leaves no picture" test ! -e without.svg

if command -v gnuplot >/dev/null; then
    for log in first.json point.json nan.json old.json killed.json labels.json; do
        drawn "plot: $log is drawn as .svg" $log picture.svg
        check "plot: $log as .svg is XML without the titles of gnuplot" \
            eval 'xml picture.svg && ! grep -q "<title>\|<?xml" picture.svg'
    done
    drawn "plot: a log is drawn as .png" first.json picture.png
    check "plot: picture.png is a PNG" test "$(head -c 4 picture.png | tail -c 3)" = PNG
    drawn "plot: a log is drawn as .pdf" first.json picture.pdf
    check "plot: picture.pdf is a PDF" test "$(head -c 4 picture.pdf)" = %PDF
    expect 0 "plot: two runs are drawn in one picture" "" "$trf" plot first.json second.json --output two.svg
    check "plot: the picture of two runs has both names" eval 'grep -q ">first<" two.svg && grep -q ">second<" two.svg'
    odd=$(printf "a'b\"c \$d @e \`f\` <script> \\\\n \377.json")
    cp first.json "$odd"
    expect 0 "plot: a log of a hostile name is drawn" "" "$trf" plot "$odd" second.json --output hostile.svg
    check "plot: a hostile name of a log leaves the picture XML without a script" \
        eval 'xml hostile.svg && ! grep -q "<script" hostile.svg'
    cp second.json "'quoted'.json"
    expect 0 "plot: a log whose name begins with a quotation mark is drawn" "" "$trf" plot "'quoted'.json" second.json \
        --output quoted.svg
    expect 0 "plot: the terminal shows the curves of a log of a hostile name" "script" "$trf" plot "$odd" second.json
    expect 0 "plot: the terminal shows a curve of one point" " A " "$trf" plot point.json
    awk 'BEGIN {
        for (i = 1; i <= 1000000; i++)
            printf "{\"event\":\"progress\",\"update\":%d,\"loss\":%.4f}\n", i,
                8 * exp(-i / 100000) + (i == 500000 ? 3 : 0)
    }' >million.json
    drawn "plot: a log of a million lines is drawn" million.json million.svg
    check "plot: the picture of a million lines is smaller than 1 MB" test "$(wc -c <million.svg)" -lt 1000000
    "$trf" plot first.json second.json 2>err | head -n 1 >out
    check "plot: a reader of the terminal's curves that leaves early causes no message" test ! -s err
else echo "left out: gnuplot"
fi

finish

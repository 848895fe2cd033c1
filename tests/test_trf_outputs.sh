#!/bin/sh
# Files that trf writes, and what they are worth when it is stopped: sh tests/test_trf_outputs.sh build/trf
#
# An output is whole or not there. What was answered before an interruption is kept beside it, and
# --resume continues it. Links that somebody has planted are not followed.

. "$(dirname "$0")/trf.sh"

"$trf" train $files $small --updates 20 --valid-size 0 --model translator 2>err || cat err
awk -F '\t' '{ print $1 "\t" (NF > 0 && length($1) > 4 ? "long" : "short") }' train.tsv >labels.tsv
"$trf" train --tsv labels.tsv --objective classify $quick --updates 5 --valid-size 0 --model classifier 2>err || cat err
awk -F '\t' '{ t = $1; gsub(/[0-4]/, "low", t); gsub(/[5-9]/, "high", t); print $1 "\t" t }' train.tsv >tags.tsv
"$trf" train --tsv tags.tsv --objective tag $quick --updates 5 --valid-size 0 --model tagger 2>err || cat err

# --- answers that are interrupted ---------------------------------------------------------------
# interrupted NAME OUTPUT COMMAND...: an output that is cut anywhere becomes the same file with --resume
interrupted()
{
    what=$1 output=$2
    shift 2
    rm -f "$output"* whole
    "$@" --output "$output" 2>err || { cat err; check "$what: writes its output" false; return; }
    check "$what: nothing but the output is left" test "$(ls -d "$output"*)" = "$output"
    mv "$output" whole
    for share in 0 30 71 99; do
        head -c $(($(wc -c <whole) * share / 100)) whole >"$output.part"
        case $output in *.npy) head -c 128 npy.begun | cat - whole | head -c 128 >head
            { cat head; tail -c +129 whole; } | head -c $(($(wc -c <whole) * share / 100)) >"$output.part" ;;
        esac
        expect 1 "$what: an interrupted output is not begun again unasked" \
            "was interrupted: --resume continues it, --overwrite begins again" "$@" --output "$output"
        expect 0 "$what: an output that was cut at $share % is continued" "" "$@" --output "$output" --resume
        check "$what: cut at $share %, --resume gives the same bytes" same whole "$output"
        check "$what: the unfinished file has become the output" test ! -e "$output.part"
        rm -f "$output"
    done
}

: >npy.begun
interrupted translate answers "$trf" translate --model translator --input test.digits --buffer 7
interrupted "translate --n-best" answers "$trf" translate --model translator --input test.digits --buffer 7 --n-best 3
interrupted score answers "$trf" score --model translator --tsv test.tsv --buffer 7
interrupted classify answers "$trf" classify --model classifier --input test.digits --buffer 7
interrupted tag answers "$trf" tag --model tagger --input test.digits --buffer 7
interrupted "tag --conll" answers "$trf" tag --model tagger --input test.digits --buffer 7 --conll
interrupted embed answers "$trf" embed --model translator --input test.digits --buffer 7

"$trf" embed --model translator --input test.digits --buffer 7 --output whole.npy
mkfifo slow.npy.in
"$trf" embed --model translator --buffer 4 --output slow.npy <slow.npy.in 2>err &
exec 3>slow.npy.in
head -n 10 test.digits >&3
part_has() { [ "$(wc -c <"$1")" -ge "$2" ]; }
wait_until part_has slow.npy.part $((128 + 8 * 64))
kill -9 $!
wait $! 2>killed
exec 3>&-
expect 0 "embed: an .npy that kill -9 left is continued" "has the answers to 8 lines" "$trf" embed \
    --model translator --buffer 4 --input test.digits --output slow.npy --resume
check "embed: the .npy has the same bytes" same whole.npy slow.npy
head -c 100 /dev/zero >other.npy.part
head -c 200 /dev/zero >>other.npy.part
expect 1 "embed: --resume refuses an .npy.part that another program wrote" \
    "other.npy.part was begun with another model" \
    "$trf" embed --model translator --input test.digits --output other.npy --resume
check "embed: and leaves it there" test "$(wc -c <other.npy.part)" -eq 300

mkfifo slow.in
"$trf" translate --model translator --buffer 4 --output slow <slow.in 2>err &
exec 3>slow.in
head -n 10 test.digits >&3
part_lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }
wait_until part_lines slow.part 8
expect 1 "translate: an output that another process writes is refused with its number" \
    "cannot write 'slow.part': process $! is writing it" "$trf" translate --model translator \
    --input test.digits --output slow --overwrite
kill $!
wait $! 2>killed
status=$?
exec 3>&-
check "translate: SIGTERM ends it as a signal does" test $status -eq 143
check "translate: the message says what is kept" \
    grep -q "interrupted; slow.part has the answers so far: --resume continues" err
check "translate: after SIGTERM there is no output" test ! -e slow
check "translate: after SIGTERM its answers are kept" test "$(wc -l <slow.part)" -eq 8
expect 1 "translate: --resume refuses an input that has fewer lines" "has answers to 8 lines, but few has 3" sh -c \
    "head -n 3 test.digits >few; '$trf' translate --model translator --buffer 4 --input few --output slow --resume"
check "translate: refused, --resume leaves the answers" test "$(wc -l <slow.part)" -eq 8
expect 0 "translate: --resume passes over the lines of a pipe" "slow.part has the answers to 8 lines" \
    sh -c "cat test.digits | '$trf' translate --model translator --buffer 4 --output slow --resume"
"$trf" translate --model translator --input test.digits --output whole2
check "translate: the pipe gives the same bytes" same whole2 slow
expect 1 "translate: --resume says that an output is complete" "'slow' is complete" "$trf" translate \
    --model translator --input test.digits --output slow --resume
expect 1 "translate: --resume needs a file" "needs --output FILE" "$trf" translate --model translator \
    --input test.digits --resume
awk 'BEGIN { for (i = 0; i < 2000; i++) print "1 2 3" }' >long.input
(ulimit -f 1; exec "$trf" translate --model translator --beam 1 --input long.input --output limited) 2>err
check "translate: a full disk is told" grep -q "cannot write limited: File too large" err
check "translate: a full disk leaves no output" test ! -e limited
check "translate: a full disk keeps whole batches" grep -q "limited.part has the answers to the first" err
expect 0 "translate: with room it is continued" "" "$trf" translate --model translator --beam 1 --input long.input \
    --output limited --resume
check "translate: the continued output has all lines" lines_are 2000 limited

# --- words beside labels --------------------------------------------------------------------------
printf '1 2  3\n\n4\n' >three
"$trf" tag --model tagger three >labels
expect 0 "tag: --conll writes a word, a tab and its label in each line" "" "$trf" tag --model tagger three --conll
tr '\n' ' ' <labels | tr -s ' ' '\n' | sed '/^$/d' >inline
check "tag: --conll has the labels of the lines" sh -c "cut -sf 2 out | cmp - inline"
check "tag: --conll has the words, and an empty line behind each text, also behind an empty one" \
    test "$(cut -f 1 out | tr '\n' ,)" = "1,2,3,,,4,,"
expect 2 "tag: --conll and --json are refused together" "give --conll or --json" \
    "$trf" tag --model tagger three --conll --json

# --- links ----------------------------------------------------------------------------------------
echo precious >target
for command in "translate --model translator --input test.digits" "generate --model translator --input test.digits" \
    "embed --model translator --input test.digits" "score --model translator --tsv test.tsv"; do
    ln -sf target link
    expect 1 "a link is not followed: trf ${command%% *}" \
        "it is a symbolic link" "$trf" $command --output link --overwrite
    ln -sf target planted.part
    "$trf" $command --output planted --overwrite 2>err
    rm -f planted link planted.part
    check "a planted link keeps its target: trf ${command%% *}" test "$(cat target)" = precious
done

# --- training that cannot write -----------------------------------------------------------------
(ulimit -f 4; exec "$trf" train $plain --updates 12 --valid-size 0 --model full --checkpoint '') >out 2>err
check "train: a model that does not fit on the disk is an error" test $? -eq 1
check "train: it says why" grep -q "full.*File too large" err
check "train: it does not say that it is done" sh -c '! grep -q "done:" err'
check "train: nothing is left of the model" test -z "$(ls -d full* 2>/dev/null)"
(ulimit -f $(($(wc -c <translator) * 3 / 2 / 512)); exec "$trf" train $plain --updates 12 --valid-size 0 --model full) \
    >out 2>err
check "train: a checkpoint that does not fit is an error" test $? -eq 1
check "train: it says that not everything could be written" \
    grep -q "^ended, but not everything could be written: 12 updates.*model in full" err

# --- two trainings that write one file -----------------------------------------------------------
is_there() { [ -e "$1" ]; }
held="--tsv more.tsv $small --updates 100000 --valid-size 0"
"$trf" train $held --model twice --checkpoint-every 50 2>first &
first=$!
wait_until is_there twice.checkpoint
expect 1 "train: a --model that another process trains is refused with its number" \
    "cannot write './twice': process $first is writing it" "$trf" train $plain --updates 1 --model ./twice --overwrite
expect 1 "train: --resume of a training that runs is refused" "process $first is writing it" \
    "$trf" train $held --model twice --resume
expect 1 "train: --seeds is refused the same way" "process $first is writing it" \
    "$trf" train $plain --updates 1 --seeds 2 --model twice --overwrite
expect 1 "train: so is its checkpoint under another --model" "cannot write 'twice.checkpoint': process $first is" \
    "$trf" train $plain --updates 1 --model other --checkpoint twice.checkpoint --overwrite
kill -9 $first
wait $first 2>killed
check "train: kill -9 leaves the lock" test -e twice.lock
expect 0 "train: a lock that kill -9 left does not matter" "" "$trf" train $plain --updates 1 --model twice --overwrite
check "train: at the end there is no lock" test ! -e twice.lock -a ! -e twice.checkpoint.lock
"$trf" train $held --model third --checkpoint shared 2>first &
first=$!
wait_until is_there shared.lock
expect 1 "train: a --checkpoint that another process writes is refused" \
    "cannot write 'shared': process $first is writing it" "$trf" train $plain --updates 1 --model fourth \
    --checkpoint shared --overwrite
wait_for "training from update" first           # from then on it hears signals
kill $first
wait $first 2>killed
check "train: SIGTERM removes the locks" test ! -e third.lock -a ! -e shared.lock
echo mine >user.lock
expect 0 "train: a file of the user with the name of a lock stays" "" "$trf" train $plain --updates 1 --model user
check "train: it has its text" test "$(cat user.lock)" = mine
mkfifo slow.pairs
"$trf" prepare --model translator --output twice.tokens slow.pairs 2>first &
first=$!
wait_until is_there twice.tokens.part
expect 1 "prepare: an --output that another process writes is refused" "another process writes this file" \
    "$trf" prepare --model translator --output twice.tokens test.tsv --overwrite
cat test.tsv >slow.pairs
wait $first
check "prepare: the first one completes" test $? -eq 0 -a -s twice.tokens

# --- lines whose vectors are there ------------------------------------------------------------------
printf '3 1 4\n\n1 5 9\n2 6\n5 3 5\n' >some.digits
cut -f 1 more.tsv | head -n 200 >more.digits
cat some.digits more.digits >all.digits
"$trf" embed --model translator --input all.digits --output vectors.npy
"$trf" embed --model translator --query '3 1' --top 7 some.digits more.digits >nearest
expect 0 "embed: --index gives the lines that --query gives without it" "" "$trf" embed --model translator \
    --query '3 1' --top 7 --index vectors.npy some.digits more.digits
check "embed: with the same scores" same nearest out
"$trf" embed --model translator --query '2 6' --top 7 all.digits >nearest2
printf '3 1\n2 6\n' >questions
expect 0 "embed: --index answers each line of standard input" "" sh -c \
    "'$trf' embed --model translator --top 7 --index vectors.npy some.digits more.digits <questions"
{ cat nearest; echo; cat nearest2; echo; } >both
check "embed: questions have the answers of --query, and an empty line behind them" same both out
expect 0 "embed: with --json each answer has its question" '"line":1,"query":"2 6","score"' sh -c \
    "echo '2 6' | '$trf' embed --model translator --json --top 205 --index vectors.npy some.digits more.digits"
expect 1 "embed: a question without tokens is told, and the others are answered" \
    "standard input:1 has no tokens" sh -c \
    "printf '\n2 6\n' | '$trf' embed --model translator --top 7 --index vectors.npy all.digits"
check "embed: the other question has its answers" sh -c "sed 1d out | sed '\$d' | cmp - nearest2"
expect 1 "embed: an --index of other texts is refused with both numbers" "has 205 vectors, but the texts have 5 lines" \
    "$trf" embed --model translator --query '3 1' --index vectors.npy some.digits
sed '3s/$/ 9/' all.digits >changed.digits
expect 1 "embed: an --index of lines that have changed is refused" "has the vectors of other lines" \
    "$trf" embed --model translator --query '3 1' --index vectors.npy changed.digits
LC_ALL=C sed '1s/\(# trf [0-9a-f]*\) [0-9a-f]*/\1             /' vectors.npy >older.npy
check "which has as many bytes" [ $(wc -c <older.npy) -eq $(wc -c <vectors.npy) ]
expect 0 "embed: an array of trf 0.3 does not know its lines" "" "$trf" embed --model translator --query '3 1' \
    --index older.npy changed.digits
expect 1 "embed: an --index of another model is refused" \
    "is no array that trf embed --output has made with this model" \
    "$trf" embed --model classifier --query '3 1' --index vectors.npy all.digits
expect 1 "embed: an --index of another pooling is refused" "is no array that trf embed" \
    "$trf" embed --model translator --pooling max --query '3 1' --index vectors.npy all.digits
expect 1 "embed: an --index that is cut is refused" "ends within its vectors" sh -c \
    "head -c 300 vectors.npy >cut.npy; '$trf' embed --model translator --query '3 1' --index cut.npy all.digits"
expect 2 "embed: --index needs the files of its lines" "--index needs the files" "$trf" embed --model translator \
    --query '3 1' --index vectors.npy
if python3 -c 'import numpy' 2>/dev/null; then
    check "embed: NumPy reads the array with its comment" \
        python3 -c "import numpy; a = numpy.load('vectors.npy'); assert a.shape == (205, 16), a.shape"
else
    check "embed: Python reads the header with its comment" python3 -c "import ast
head = open('vectors.npy', 'rb').read(128)[10:].decode('latin1')
assert sorted(ast.literal_eval(head)) == ['descr', 'fortran_order', 'shape']"
fi

# --- lines without an end ---------------------------------------------------------------------------
# memory PATH: kB that a program took at most, as /usr/bin/time says in its last line
if [ -x /usr/bin/time ]; then timed="/usr/bin/time -f %M -o kilobytes"; else timed=; fi
takes_less() { [ -z "$timed" ] || [ "$(tail -n 1 kilobytes)" -lt "$1" ]; }
{ cat test.tsv; head -c 3000000 /dev/zero | tr '\0' x; printf '\t1\n'; head -n 2 test.tsv; } >long.tsv
expect 0 "train: a line of 3 MB is left out with its number" \
    "left out: long.tsv:41: more than 1048576 bytes (--max-line-bytes)" \
    "$trf" train --tsv long.tsv $small --updates 1 --valid-size 0 --model long
check "train: the message counts it by its kind" grep -q "1 longer than --max-line-bytes" err
expect 1 "train: with --strict such a line ends the run" "long.tsv:41: more than 1048576 bytes" \
    "$trf" train --tsv long.tsv $small --updates 1 --valid-size 0 --model strict --strict
expect 0 "train: a larger --max-line-bytes takes the line, whose word is too long" "left out: long.tsv:41: a word" \
    "$trf" train --tsv long.tsv $small --updates 1 --valid-size 0 --model long --overwrite \
    --tokens words --max-line-bytes 4000000
expect 0 "prepare: such a line is left out" "left out: long.tsv:41: more than 1048576 bytes" \
    "$trf" prepare --model translator --output long.tokens long.tsv
printf '1 2\r\n1 2 3\n1 2\n' >short
expect 1 "translate: a line of exactly --max-line-bytes is answered, and one byte more is not" \
    "short:2: answered with an empty line: more than 3 bytes" \
    "$trf" translate --model translator --max-line-bytes 3 short
check "translate: such a line has an empty answer" test "$(wc -l <out)" -eq 3 -a -z "$(sed -n 2p out)"
for command in "classify --model classifier" "tag --model tagger" "embed --model translator" \
    "generate --model translator --input"; do
    expect 1 "${command%% *}: a line that is too long is told" "short:2: .*more than 3 bytes" \
        "$trf" $command short --max-line-bytes 3
done
expect 1 "score: a line that is too long is told" "short:2: .*more than 3 bytes" "$trf" score --model translator \
    --source short --target short --max-line-bytes 3
expect 1 "eval: a line that is too long is told" \
    "short:2: .*more than 3 bytes" "$trf" eval short short --max-line-bytes 3
if "$trf" --version | grep -q "without zlib"; then echo "left out: packed files, without zlib"; else
    head -c 100000000 /dev/zero | tr '\0' x | gzip -1 >bomb.gz
    expect 1 "train: a small file that unpacks to a huge line has no text" "no line has a tab\|no pair is left" \
        $timed "$trf" train --tsv bomb.gz $small --updates 1 --valid-size 0 --model bomb
    check "train: memory does not depend on what a file unpacks to" takes_less 60000
    expect 1 "prepare: such a file has no text" "more than 1048576 bytes" $timed "$trf" prepare --model translator \
        --output bomb.tokens bomb.gz
    check "prepare: memory does not depend on what a file unpacks to" takes_less 60000
    expect 1 "train: nor does a SentencePiece model that unpacks to more" "got more than 256 MB" sh -c \
        "head -c 300000000 /dev/zero | gzip -1 >spm.gz
        exec '$trf' train $plain --sentencepiece spm.gz --updates 1 --model spm"
    gzip -c test.tsv | head -c 200 >cut.tsv.gz
    expect 1 "a packed file that is cut is told as such" "cut.tsv.gz:.*the gzip file is damaged or truncated" \
        "$trf" score --model translator --tsv cut.tsv.gz
    gzip -c test.tsv >damaged.tsv.gz
    printf '\377\377\377\377' | dd of=damaged.tsv.gz bs=1 seek=100 conv=notrunc 2>dd.err
    expect 1 "a packed file that is damaged is told as such" "the gzip file is damaged or truncated" \
        "$trf" score --model translator --tsv damaged.tsv.gz
fi

# --- memory -----------------------------------------------------------------------------------------
if [ -r /proc/self/status ] && command -v perl >/dev/null; then
    perl -e '$x = "a" x 300000000; exec @ARGV' "$trf" train $plain --updates 10 --valid-size 0 \
        --model light --log light.log 2>err
    most=$(sed -n 's/.*"megabytes":\([0-9]*\).*/\1/p' light.log | tail -n 1)
    check "train: the log tells the memory of trf, not of the program that started it" test "${most:-999}" -lt 200
fi

# --- words that another model does not know -----------------------------------------------------
{ cat train.tsv; printf '1 2\tone strange\n1 x\tone two\n'; } >strange.tsv
expect 0 "train: a few unknown target tokens are told with --init-from" \
    "^1 of the target's [0-9]* tokens is unknown to the vocabulary; --extend-vocabulary adds them" \
    "$trf" train --tsv strange.tsv $brief --warmup 20 --seed 5 --threads 1 --init-from translator --updates 1 \
    --valid-size 0 --model tuned
check "train: and of the source" grep -q "^1 of the source's [0-9]* tokens is unknown" err
expect 0 "train: a vocabulary that is cut tells what it does not know" "^1 of the target's [0-9]* tokens is unknown" \
    "$trf" train --tsv strange.tsv $small --updates 1 --valid-size 0 --min-count 90 --tokens words --model cut

finish

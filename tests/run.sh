#!/bin/sh
# Runs tests: sh tests/run.sh BUILD [check|all] [SUITE...]
#
# BUILD is the folder of the test programs, the examples and trf; SUITE names the programs to run (test_*,
# double_test_*, separate_test_*, cuda_test_*). Every tests/test_trf*.sh is a suite; some run with `check` only.
#
# `check` adds the suites of trf that take long (interruptions, folders of others, subwords, token files, several
# models, plots, real data, several processes by MPI), the header with the compilers that are here (compile.sh), its
# levels and columns (columns.sh), its files (test_header.sh), the manual's programs, the commands of all pages and a
# short demo. `all` adds what takes longest: every compiler with every option, every column, every case of each test,
# the studies, make demo, and the examples copy, reverse, classify, fill, resume and learn.
#
# Two jobs run at a time. compile.sh runs beside them with nice, so it takes only processor time that they leave. A job
# prints one line when it is done, with its seconds and those of the processor, and its output if it failed. The last
# line counts test cases.

build=${1:?usage: run.sh BUILD [check|all] [SUITE...]}
shift
check= all=
case ${1:-} in check) check=1; shift ;; all) check=1 all=1; shift ;; esac
build=$(cd "$build" && pwd) || exit 1
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
job=
second= below=
stop='kill $job $second $below 2>/dev/null; wait; exit 1'
trap "$stop" INT TERM HUP
[ -z "$all" ] || export TRF_TEST_ALL=1         # loops over every case, where the others take a part of them

# The seconds that a job may take, and those of compile.sh.
limit= longer=
if command -v timeout >/dev/null; then limit="timeout -k 10 1800" longer="timeout -k 10 5400"; fi

# job NAME KIND COMMAND: KIND is cmocka, count (its last line is "N passed, M failed") or status (the exit status)
jobs=0
job()
{
    jobs=$((jobs + 1))
    printf '%s\n' "$1" >"$work/$jobs.name"
    printf '%s\n' "$2" >"$work/$jobs.kind"
    printf '%s\n' "$3" >"$work/$jobs.command"
}

# Number of tests in cmocka's line "[  PASSED  ] 12 test(s)."
cmocka_count() { sed -n "s/^\[  $1  \] \([0-9]*\) test(s).*/\1/p" "$2" | tail -n 1; }

report()
{
    name=$(cat "$work/$1.name") kind=$(cat "$work/$1.kind") status=$(cat "$work/$1.status") out=$work/$1.out
    passed= failed=
    case $kind in
    cmocka) passed=$(cmocka_count PASSED "$out") failed=$(cmocka_count FAILED "$out") ;;
    count)  passed=$(tail -n 1 "$out" | sed -n 's/^\([0-9]*\) passed, [0-9]* failed$/\1/p')
            failed=$(tail -n 1 "$out" | sed -n 's/^[0-9]* passed, \([0-9]*\) failed$/\1/p') ;;
    status) [ "$status" -eq 0 ] && passed=1 ;;
    esac
    passed=${passed:-0} failed=${failed:-0}
    if [ "$status" -ne 0 ] || [ $((passed + failed)) -eq 0 ]; then
        [ "$failed" -gt 0 ] || failed=1         # it crashed, hung, or tested nothing
    fi
    echo "$passed $failed" >"$work/$1.counts"
    # `times` tells 1m2.5s of user and of system time, of the shell and, in the second line, of its programs.
    computed=$(awk 'function seconds(t, p) { split(t, p, /[ms]/); return 60 * p[1] + p[2] }
                    FNR == 2 { s = seconds($1) + seconds($2) - s }
                    END { printf "%.0f", s }' "$work/$1.before" "$work/$1.after")
    if [ "$failed" -eq 0 ]; then
        printf 'ok      %-24s %4d tests %4d s %4d s of processor\n' "$name" "$passed" "$(cat "$work/$1.time")" \
            "$computed"
        sed -n -e 's/^left out: /        left out: /p' \
            -e 's/^\[  SKIPPED \] \([a-zA-Z0-9_]*\)$/        left out: \1/p' "$out" | sort -u
    else
        printf 'FAILED  %-24s %4d of %d tests, exit status %d, %d s\n' "$name" "$failed" $((passed + failed)) \
            "$status" "$(cat "$work/$1.time")"
        if [ "$kind" = cmocka ]; then grep -v -e '^\[ RUN      \]' -e '^\[       OK \]' "$out"; else cat "$out"; fi |
            tail -n 60 | sed 's/^/    /'
    fi
}

# worker FIRST LAST: jobs from one to the other
worker()
{
    trap "$stop" INT TERM HUP           # a shell in the background has none
    i=$1
    while [ $i -le $2 ]; do
        if mkdir "$work/$i.taken" 2>/dev/null; then
            began=$(date +%s)
            times >"$work/$i.before"
            $limit sh -c "$(cat "$work/$i.command")" >"$work/$i.out" 2>&1 &
            job=$!                      # timeout itself, which passes on what ends it
            wait $job
            echo $? >"$work/$i.status"
            job=
            times >"$work/$i.after"
            echo $(($(date +%s) - began)) >"$work/$i.time"
            report $i >"$work/$i.report"
            cat "$work/$i.report"
        fi
        i=$((i + 1))
    done
}

first=1
if [ -n "$check" ]; then
    job compile.sh count "exec nice sh tests/compile.sh '$build'"
    { limit=$longer && worker 1 1; } & below=$!
    first=2
fi
# The long ones first, so that both workers end together.
[ -z "$check" ] || job columns.sh count "exec sh tests/columns.sh '$build'"
for suite in ${check:+signals} train; do
    job test_trf_$suite.sh count "exec sh tests/test_trf_$suite.sh '$build/trf'"
done
for suite in tests/test_trf*.sh; do
    case $suite in
    *_signals.sh | *_train.sh) continue ;;
    *_mpi.sh | *_real.sh | *_objectives.sh | *_prepare.sh | *_import.sh | *_export.sh | *_subwords.sh | \
    *_ensemble.sh | *_plot.sh)
        [ -n "$check" ] || continue ;;
    esac
    job "${suite##*/}" count "exec sh $suite '$build/trf'"
done
mkdir "$work/say" "$work/copy" "$work/ranks" "$work/raw" "$work/embed_text" "$work/classify" "$work/fill" "$work/chat"
[ -z "$all" ] || job "example copy" status \
    "cd '$work/copy' && '$build/copy' >out && cat out && grep -q '^5 9 7 -> 5 9 7\$' out"
[ -z "$all" ] || job "example reverse" status "exec '$build/reverse' 1"
[ -z "$check" ] || job test_manual.sh count "exec sh tests/test_manual.sh '$build'"
[ -z "$all" ] || job test_studies.sh count "exec sh tests/test_studies.sh '$build'"
mkdir "$work/translate"
[ -z "$check" ] || job test_readme.sh count "exec sh tests/test_readme.sh '$build/trf'"
# A part of make demo, which test_readme.sh runs whole in make check-all.
[ -z "$check" ] || [ -n "$all" ] || job "example translate" status \
    "cd '$work/translate' && echo 'The dog sees a cat' | '$build/translate' --quick"
[ -z "$check" ] || job test_header.sh count "exec sh tests/test_header.sh"
# The loss, which is exactly that of one rank alone, and falls.
job "example ranks" status "cd '$work/ranks' && '$build/ranks' 1 >alone && '$build/ranks' 3 >together && cat together &&
    cmp alone together && awk '/^update/ { loss = \$4 } END { exit !(NR == 4 && loss < 0.5) }' together"
job "example pipeline" status "'$build/pipeline' 3 4 >'$work/pipeline' && cat '$work/pipeline' &&
    grep -q '^weights [0-9a-f]*: the same bits\$' '$work/pipeline'"
if [ -n "$all" ] && [ -x "$build/tasks" ]; then
    # Test sentences combine words that no training sentence combines.
    job "example classify" status "cd '$work/classify' && '$build/tasks' kinds 4000 1 >kinds.tsv &&
        '$build/classify' kinds.tsv && '$build/tasks' kinds 1000 0 >test && cut -f 1 test >texts &&
        '$build/classify' classify.safetensors <texts >labels && head -n 3 labels && cut -f 1 labels >got &&
        cut -f 2 test | paste - got | 
            awk '\$1 == \$2 { n++ } END { print n \" of 1000 right\"; exit !(NR == 1000 && n >= 980) }'"
    job "example fill" status "cd '$work/fill' && '$build/tasks' grammar 20000 1 | cut -f 2 >german.txt &&
        '$build/fill' german.txt der die das den dem >out && cat out &&
        awk 'END { exit !(\$3 > 300 && \$1 >= 0.85 * \$3) }' out"
fi
job "example generate" status "exec '$build/generate' README.md 'The ' 20"
[ -z "$all" ] || job "example resume" status "exec sh tests/resume.sh '$build/resume'"
[ -z "$all" ] || job "example learn" status "exec sh tests/learn.sh '$build/learn'"
job "examples raw, threads" status "cd '$work/raw' &&
    awk 'BEGIN { for (i = 0; i < 300; i++) printf \"%d %d\\t%d %d\\n\", i % 7, i % 5, i % 5, i % 7 }' >pairs &&
    '$build/trf' train --tsv pairs --model m --updates 60 \
        --d-model 16 --n-heads 2 --encoder-layers 1 --decoder-layers 1 &&
    cut -f 1 pairs | head -n 50 >lines && '$build/raw' m <lines >answers &&
    '$build/trf' translate --model m <lines >expected &&
    grep -q . answers && cmp answers expected && '$build/threads' m <lines >answers && cmp answers expected"
# The nearest line is that of trf embed.
job "example embed_text" status "cd '$work/embed_text' &&
    '$build/trf' import '$PWD/tests/golden/import/bert' --output m &&
    '$build/embed_text' m 'a dog' '$PWD/tests/golden/import/bert/lines.txt' | sort -rn | head -n 1 |
        cut -c 10- >near && cat near &&
    '$build/trf' embed --model m --query 'a dog' --top 1 '$PWD/tests/golden/import/bert/lines.txt' |
        cut -f 2 | cmp - near"
# Made-up words of five letters, each with a phone; words that it has not seen.
job "example say" status "cd '$work/say' &&
    awk 'BEGIN { split(\"b B a AA d D i IY k K\", p, \" \"); for (i = 0; i < 3125; i++) {
        w = t = \"\"; n = i; for (k = 0; k < 5; k++) { c = 2 * (n % 5) + 1; n = int(n / 5)
            w = w p[c]; t = t (k ? \" \" : \"\") p[c + 1] }
        if (i % 7) print w \"\t\" t } }' >words.tsv &&
    '$build/trf' train --tsv words.tsv --tokens characters --target-tokens words --model words.safetensors \
        --d-model 32 --n-heads 4 --d-ff 64 --encoder-layers 1 --decoder-layers 1 --updates 500 --warmup 100 \
        --threads 1 &&
    printf 'bbbbb\tB B B B B\naaadi\tAA AA AA D IY\n' >wanted &&
    '$build/say' words.safetensors 'BBBBB, (Aaadi).' >out && cat out && cmp out wanted &&
    echo 'Bbbbb! aAadi.' | '$build/say' words.safetensors | cmp - wanted &&
    ! '$build/say' bbbbb 2>err && grep -q en-phones err"
# With tokens that mark who speaks: the answer of trf generate to the same text.
job "example chat" status "cd '$work/chat' && cp -R '$PWD/tests/golden/import/gpt2' folder && chmod -R u+w folder &&
    sed -i 's/<more2>/<|im_start|>/; s/<more5>/<|im_end|>/' folder/tokenizer.json &&
    '$build/trf' import folder --output m && echo 'the man' | '$build/chat' m 0 >answer && grep -q . answer &&
    text=\$(printf '<|im_start|>user\nthe man<|im_end|>\n<|im_start|>assistant\n.') &&
    '$build/trf' generate m --special --prompt \"\${text%.}\" --temperature 0 --repetition-penalty 1.1 --max-tokens \
        500 \
        >whole && tail -n +4 whole >wanted && sed '1s/^ //' answer | cmp - wanted"
job "example hooks" status "exec '$build/hooks'"
for suite in "$@"; do
    job "$suite" cmocka "exec '$build/$suite'"
done
worker $first $jobs & second=$!
worker $first $jobs & third=$!          # not this shell, whose `times` would count all the others
wait $second $third $below

total_passed=0 total_failed=0 i=1
while [ $i -le $jobs ]; do
    passed=0 failed=1                   # there are no counts of a job whose worker died
    [ ! -s "$work/$i.counts" ] || read -r passed failed <"$work/$i.counts"
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    i=$((i + 1))
done
echo "$total_passed passed, $total_failed failed"
[ $total_failed -eq 0 ]

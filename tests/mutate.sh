#!/bin/sh
# Tests of the tests: plants faults into a copy of the header and lists those that no suite sees.
#
#     sh tests/mutate.sh                  every fault
#     sh tests/mutate.sh crc beam         those whose name contains one of the words
#     sh tests/mutate.sh --suite ops host those that name one of the suites first: all of them take hours
#     sh tests/mutate.sh --changed HEAD~3 those in definitions that differ from a commit's
#     NAMED=1 sh tests/mutate.sh          every fault, by the suites that its row names alone: sooner
#     sh tests/mutate.sh --check          plants nothing: lists faults without a place or a suite
#
# A fault is a row of tests/faults.txt: name @@ suites, tried first @@ place @@ text @@ becomes. A
# line that begins with a blank continues the row. The place is the name of a function, macro,
# table, struct or enum; the text occurs in it exactly once. White space does not count. Where
# definitions share a name, the text is unique among all of them, or the place goes on with the
# first parameters: trf__put(float. tests/mutate.awk says more.
#
# A function with faults has its body once for each and once without: TRF_FAULT=5 in the
# environment chooses the body with fault 5 of those asked for. So each suite is compiled once. A
# fault outside a function gets a header of its own, and so does one that does not compile.
#
# A test that passes without the fault and fails with it kills the fault. So does a suite that
# crashes, or runs ten times as long as without the fault and a minute more. Two faults are tried at
# a time. CFLAGS and CPPFLAGS go to make.

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
program=
trap '[ -z "$program" ] || kill "$program"; exit 1' INT TERM

awk '/^[ \t]/ { sub(/^[ \t]+/, ""); row = row " " $0; next }
     { if (row) print row; row = $0 }
     END { print row }' "$root/tests/faults.txt" >"$work/table"

if [ "${1:-}" = --check ]; then
    status=0
    for suite in $(awk -F ' @@ ' '{ print $2 }' "$work/table" | tr ' ' '\n' | sort -u); do
        [ -f "$root/tests/test_$suite.c" ] || { echo "no suite: tests/test_$suite.c"; status=1; }
    done
    awk -f "$root/tests/mutate.awk" "$root/transformer.h" "$work/table" || status=1
    exit $status
fi

# --- which faults ---------------------------------------------------------------------------------
# The text of each definition, on one line behind its name, without the white space.
definitions()
{
    LIST= awk -f "$root/tests/mutate.awk" "$1" |
        awk 'NR == FNR { for (i = $2; i <= $3; i++) name[i] = $1; next }
             FNR in name { gsub(/[ \t]/, ""); text[name[FNR]] = text[name[FNR]] $0 }
             END { for (n in text) print n, text[n] }' - "$1" | sort
}

if [ "${1:-}" = --changed ]; then
    [ $# -eq 2 ] || { echo "usage: mutate.sh --changed COMMIT"; exit 2; }
    git -C "$root" show "$2:transformer.h" >"$work/before.h" || exit 2
    definitions "$work/before.h" >"$work/before"
    definitions "$root/transformer.h" | comm -13 "$work/before" - | sed 's/[( ].*//' >"$work/differ"
    awk -F ' @@ ' 'NR == FNR { differs[$1]; next }
                   { place = $3; sub(/\(.*/, "", place) } place in differs
                  ' "$work/differ" "$work/table" >"$work/chosen"
    mv "$work/chosen" "$work/table"
elif [ $# -gt 0 ]; then
    field=1
    [ "$1" != --suite ] || { field=2; shift; }
    : >"$work/chosen"
    for word in "$@"; do
        awk -F ' @@ ' -v field=$field -v word="$word" '
            field == 1 ? index($1, word) : $2 == word || index($2, word " ") == 1
        ' "$work/table" >>"$work/chosen"
    done
    sort -u "$work/chosen" >"$work/table"
fi
faults=$(wc -l <"$work/table")
[ "$faults" -gt 0 ] || { echo "no such fault"; [ "${1:-}" = --changed ]; exit; }

doubles=$(grep -l '^/\* build: .* double:' "$root"/tests/test_*.c | sed 's|.*/test_||;s|\.c$||' | tr '\n' ' ')
for tree in base 1 2; do
    mkdir -p "$work/$tree" && cd "$root" &&
    cp -r transformer.h Makefile tests examples tools "$work/$tree" || exit 1
done
mkdir "$work/sound"
echo '.*' >"$work/any"

# compile TREE FLAGS LOG NAMES
compile()
(
    cd "$work/$1" && log=$3 flags="${CFLAGS:--O1 -march=native} $2" && shift 3 &&
    # without -O all bodies of a function would have their variables on the stack at once
    make -s -k BUILD=build O0= CFLAGS="$flags" CPPFLAGS="$CPPFLAGS" "$@" >"$log" 2>&1
)

# The base has all faults of functions. Those that do not compile leave it, until these compile: C,
# C in double, C++.
alone=' '
while ALONE=$alone awk -f "$root/tests/mutate.awk" "$root/transformer.h" "$work/table" \
          >"$work/base/transformer.h"; do
    compile base -fsyntax-only "$work/errors" \
        build/test_ops build/double_test_ops build/gpu.o && break
    more=$(awk -F : 'NR == FNR { if ($1 ~ /transformer\.h$/ && /error|in expansion|required/)
                                     wrong[$2]; next }
                     /^else \{/ { fault = 0 }
                     match($0, /trf__fault == [0-9]+/) { fault = substr($0, RSTART + 14) + 0 }
                     FNR in wrong && fault { print fault }
                    ' "$work/errors" "$work/base/transformer.h")
    [ -n "$more" ] || break
    alone="$alone$(echo $more) "
done

# The names of the tests that failed by now.
failed() { sed -n '/ test(s), listed below:$/d; s/^\[  FAILED  \] \(.*\)$/\1/p' "$1"; }

# run PROGRAM FAULT TREE LOG SECONDS UNCOUNTED: 0 it ran to its end, or until a test failed whose
# name no line of UNCOUNTED matches, and `by` is that name; 1 it crashed or tested nothing; 3 it was
# stopped after SECONDS. `timeout` gives the program a group of its own, and ends its children too.
run()
{
    limit="timeout $5"
    command -v timeout >/dev/null || limit=
    (cd "$work/$3" && export TRF_FAULT="$2" && exec $limit "$1") >"$4" 2>&1 &
    program=$! by=
    {
        while [ -z "$by" ] && kill -0 $program; do
            sleep 0.5 || sleep 1
            by=$(failed "$4" | grep -vx -f "$6" | head -n 1)
            [ -z "$by" ] && [ -d "$work" ] || kill $program
        done
        wait $program
        code=$? program=
    } 2>/dev/null                       # the shell tells what it killed
    [ -z "$by" ] || return 0
    [ $code -ne 124 ] || return 3
    grep -q '^\[  PASSED  \] [1-9]' "$4"
}

# Builds a suite in the base and runs it without any fault, once; the other worker waits. Tests that
# fail there do not count.
sound()
{
    if mkdir "$work/sound/$1" 2>/dev/null; then
        log=$work/sound/$1.log answer=no
        until mkdir "$work/making" 2>/dev/null; do sleep 1; done    # suites share build/gpu.o and transformer.o
        compile base "" "$log" "build/$1" && answer=yes
        rmdir "$work/making"
        began=$(date +%s)
        [ $answer = no ] || run "$work/base/build/$1" 0 base "$log" 1800 "$work/any" ||
            answer=no
        echo $(($(date +%s) - began)) >"$work/sound/$1.seconds"
        failed "$log" | sort -u >"$log.failed"
        failing=$(cat "$log.failed")
        if [ $answer = no ]; then echo "        $1 does not run without a fault: it does not count"
        elif [ -n "$failing" ]; then echo "        $1 fails without a fault, uncounted:" $failing
        fi
        echo $answer >"$work/sound/$1.is"
    fi
    while [ ! -s "$work/sound/$1.is" ]; do sleep 1; done
    [ "$(cat "$work/sound/$1.is")" = yes ]
}

# The suites to try: those named first, then the double ones of them, then, without NAMED, all others.
suites()
{
    for name in $1; do echo "test_$name"; done
    for name in $1; do case " $doubles " in *" $name "*) echo "double_test_$name" ;; esac; done
    [ -z "$NAMED" ] || return
    for file in "$root"/tests/test_*.c; do file=${file##*/}; echo "${file%.c}"; done
    for name in $doubles; do echo "double_test_$name"; done
}

# look FAULT TREE: one line about one fault
look()
{
    line=$(sed -n "$1p" "$work/table")
    name=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $1 }')
    first=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $2 }')
    PLACE=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $3 }')
    TEXT=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $4 }')
    BECOMES=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $5 }')
    export PLACE TEXT BECOMES
    if grep -q "trf__fault == $1)" "$work/base/transformer.h"; then programs=base
    elif awk -f "$root/tests/mutate.awk" "$root/transformer.h" >"$work/$2/transformer.h"; then
        programs=$2
    else
        echo "ERROR     $name: $PLACE does not have its text exactly once"
        return 1
    fi
    for suite in $(suites "$first" | awk '!seen[$0]++'); do
        [ -f "$root/tests/${suite#double_}.c" ] || continue
        sound "$suite" || continue
        seconds=$((60 + 10 * $(cat "$work/sound/$suite.seconds")))
        if [ $programs != base ] && ! compile "$2" "" "$work/$2.log" "build/$suite"; then
            echo "ERROR     $name: $(grep -m 1 error "$work/$2.log" | cut -c1-150)"
            return 1
        fi
        run "$work/$programs/build/$suite" "$1" "$2" "$work/$2.log" $seconds \
            "$work/sound/$suite.log.failed"
        case $? in
        0)
            [ -n "$by" ] || continue
            echo "killed    $name: $suite ($by)"
            return 0 ;;
        1)
            echo "killed    $name: $suite (it crashed)"
            return 0 ;;
        *)
            echo "killed    $name: $suite (stopped after $seconds s)"
            return 0 ;;
        esac
    done
    echo "SURVIVED  $name"
    return 1
}

worker()
{
    fault=1
    while [ $fault -le "$faults" ]; do
        if mkdir "$work/$fault.taken" 2>/dev/null; then
            if look $fault "$1"; then echo killed; else echo survived; fi >"$work/$fault.lines"
            tail -n 1 "$work/$fault.lines" >"$work/$fault.result"
            sed '$d' "$work/$fault.lines"
        fi
        fault=$((fault + 1))
    done
}
worker 1 & second=$!
worker 2
wait $second

passed=$(cat "$work"/*.result | grep -c killed)
echo "$passed passed, $((faults - passed)) failed"
[ "$passed" -eq "$faults" ]

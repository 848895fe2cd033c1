#!/bin/sh
# How big the header is and how long it compiles: sh tools/bench/size.sh [OTHER_CHECKOUT]
#
# Bytes of README's program that only translates, stripped: with the C library of the system, with a static one, and
# with musl. Then, of the whole header: the processor time of compiling it (the least of three), and the bytes of code
# and data in its object. With another checkout the same of that one, and the ratio of the two; the exit status is 1 if
# a time or an object is more than 1.10 times the other's.

here=$(cd "$(dirname "$0")/../.." && pwd)
other=${1:+$(cd "$1" && pwd)} || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
cd "$work" || exit 1
printf '#define TRF_IMPLEMENTATION\n#include "transformer.h"\n' >all.c
bad=0

# line NAME UNIT OURS THEIRS [LIMIT]
line()
{
    awk -v name="$1" -v unit="$2" -v ours="$3" -v theirs="$4" -v limit="${5:-0}" 'BEGIN {
        printf "%-46s %12s %s", name, ours, unit
        if (theirs != "") printf "   was %s: %.3f times", theirs, ours / theirs
        print ""
        exit limit && theirs != "" && !(ours / theirs <= limit)
    }' || bad=1
}

program()       # NAME COMPILER OPTIONS
{
    command -v "$2" >/dev/null || { echo "left out: $2"; return; }
    was=
    for folder in $other "$here"; do
        $2 -Os -s -DTRF_NO_TRAIN -DTRF_NO_CBLAS -DTRF_STATIC $3 -I"$folder" "$folder/examples/raw.c" -o program -lm ||
            exit 1
        now=$(wc -c <program)
        [ "$folder" = "$here" ] || was=$now
    done
    line "$1" bytes $((now)) "${was:+$((was))}"
}

# The least user time of three, in seconds; `times` counts the children of its shell.
seconds()
{
    for i in 1 2 3; do (eval "$1" && times) | tail -n 1; done |
        awk -F '[ms ]' '{ t = $1 * 60 + $2; if (NR == 1 || t < least) least = t } END { printf "%.2f", least }'
}
bytes() { size "$1" | awk 'NR == 2 { print $1 + $2 }'; }

object()        # COMPILER OPTIONS
{
    command -v "$1" >/dev/null || { echo "left out: $1"; return; }
    was_seconds= was_bytes=
    for folder in $other "$here"; do
        now_seconds=$(seconds "$1 $2 -I'$folder' -c all.c -o all.o")
        now_bytes=$(bytes all.o)
        [ "$folder" = "$here" ] || { was_seconds=$now_seconds was_bytes=$now_bytes; }
    done
    line "compiling, $1 $2" s "$now_seconds" "$was_seconds" 1.10
    line "object, $1 $2" bytes "$now_bytes" "$was_bytes" 1.10
}

program "a program that translates" cc
program "the same, static" cc -static
program "the same, static, musl" musl-gcc -static
object gcc "-O2 -march=native -DTRF_NO_CBLAS"
object gcc "-O0 -DTRF_NO_CBLAS"
object clang "-O2 -march=native -DTRF_NO_CBLAS"
exit $bad

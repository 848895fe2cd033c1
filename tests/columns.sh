#!/bin/sh
# Same bits whatever the vectors: sh tests/columns.sh BUILD
#
# Builds tests/hash.c with the built-in product in many ways and compares what it prints. Three groups: with fused
# multiply-add, with contraction off, and columns compiled in other files. What this compiler or processor cannot do is left
# out, and said. When hashes differ, the first line in which two builds part is shown.

build=${1:?usage: columns.sh BUILD}
mkdir -p "$build" && build=$(cd "$build" && pwd) || exit 1
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d "$build/columns.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cc=${CC:-cc}
passed=0
failed=0

# has FLAG...: the processor can do all of these
has() { for flag; do grep -q -w "$flag" /proc/cpuinfo 2>/dev/null || return 1; done; }

# another compiler than CC, if there is one
other=
if command -v clang >/dev/null && ! $cc --version 2>/dev/null | grep -q clang; then other=clang; fi
if [ -z "$other" ] && command -v gcc >/dev/null && ! $cc --version 2>/dev/null | grep -q 'Free Software'; then other=gcc; fi
[ -n "$other" ] || echo "left out: a second compiler"

wide='-mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma'
middle='-mavx2 -mfma'
avx2= avx512= x86=
case $(uname -m) in x86_64 | amd64) x86=1 ;; *) echo "left out: all but this processor's own vectors and none" ;; esac
if [ -n "$x86" ] && has avx2 fma; then avx2=1; else echo "left out: AVX2"; fi
if [ -n "$avx2" ] && has avx512f avx512dq avx512bw avx512vl; then avx512=1; else echo "left out: AVX-512"; fi

# make GROUP NAME COMMAND: two at a time; the program is $work/GROUP.NAME
running=0
make()
{
    (eval "$3" >"$work/$1.$2.log" 2>&1 && "$work/$1.$2" stages >"$work/$1.$2.out" 2>&1) &
    running=$((running + 1))
    if [ $running -eq 2 ]; then wait; running=0; fi
}

# program GROUP NAME COMPILER FLAGS...
program()
{
    group=$1 name=$2 compiler=$3
    shift 3
    make "$group" "$name" "$compiler -O2 -DTRF_NO_CBLAS $* -I. -Itests tests/hash.c -o $work/$group.$name -lm"
}

# everything GROUP COMPILER TAG FLAGS...: one program for each vector there is
everything()
{
    group=$1 compiler=$2 tag=$3
    shift 3
    [ -z "$avx512" ] || program "$group" "avx512-$tag" "$compiler" "$@" $wide
    [ -z "$avx2" ] || program "$group" "avx2-$tag" "$compiler" "$@" $middle
}

# 1: fused multiply-add, as GNU modes have it
for compiler in "$cc" $other; do everything fused "$compiler" "$(basename "$compiler" | cut -d' ' -f1)"; done
[ -n "$avx2" ] || program fused native "$cc" -march=native

# 2: contraction off: one hash for all vectors and none
for compiler in "$cc" $other; do
    tag=$(basename "$compiler" | cut -d' ' -f1)
    everything separate "$compiler" "$tag" -ffp-contract=off
    program separate "baseline-$tag" "$compiler" -ffp-contract=off
    program separate "scalar-$tag" "$compiler" -ffp-contract=off -DTRF_SCALAR
done

# 3: columns: the program without flags picks at run time. Both must compute like group 1.
if [ -n "$avx2" ]; then
    for compiler in "$cc" $other; do
        tag=$(basename "$compiler" | cut -d' ' -f1)
        column="$compiler -O2 -DTRF_NO_CBLAS -I. -c -x c transformer.h -DTRF_COLUMN"
        program="$cc -O2 -DTRF_NO_CBLAS -I. -Itests tests/hash.c"
        make fused "column-avx2-$tag" "$column=avx2 $middle -o $work/avx2-$tag.o && \
            $program -DTRF_WITH_AVX2 $work/avx2-$tag.o -o $work/fused.column-avx2-$tag -lm"
        [ -z "$avx512" ] || make fused "column-avx512-$tag" "$column=avx2 $middle -o $work/second-$tag.o && \
            $column=avx512 $wide -o $work/avx512-$tag.o && \
            $program -DTRF_WITH_AVX2 -DTRF_WITH_AVX512 $work/second-$tag.o $work/avx512-$tag.o -o $work/fused.column-avx512-$tag -lm"
    done
fi
wait

# good NAME STATUS [SENTENCE]
good() { if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1${3:+: $3}"; fi; }

# compare GROUP: every program of the group ran, computed with the column its name says, and printed what the first one printed
compare()
{
    first=
    for log in "$work/$1".*.log; do
        name=${log%.log} short=$(basename "${log%.log}")
        if [ ! -s "$name.out" ]; then
            good "$short" 1 "did not build or run"
            head -n 5 "$log"
            continue
        fi
        case $short in
        *avx512*) column=avx512 ;; *avx2*) column=avx2 ;; *scalar*) column=scalar ;; *baseline*) column=${x86:+128-bit} ;; *) column= ;;
        esac
        [ -z "$column" ] || { head -n 1 "$name.out" | grep -q -x "column $column"; good "$short" $? "expected column $column, got $(head -n 1 "$name.out")"; }
        sed 1d "$name.out" >"$name.stages"
        if [ -z "$first" ]; then first=$name; continue; fi
        cmp -s "$first.stages" "$name.stages"
        good "$short" $? "another hash than $(basename "$first"), first at $(diff "$first.stages" "$name.stages" | sed -n 's/^> //p' | head -n 1)"
    done
}
compare fused
compare separate

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

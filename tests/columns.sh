#!/bin/sh
# Results have the same bits with every vector width and compiler: sh tests/columns.sh BUILD
#
# Builds tests/hash.c with the built-in product in many ways, and compares the hashes of models, training and
# translations that the programs print. There are two groups: with fused multiply-add, which is the default of GNU
# modes, and with contraction off. All programs of a group must print the same hashes.
#
# Where TRF_TEST_ALL is set there are all; elsewhere the levels of two compilers, and a program of one level.
# Most programs are one compile for any x86-64, run with each of its levels. Some have columns of ops that are compiled
# apart, some are compiled as a whole with the flags of a processor. The optimiser may not warn of anything. A line
# "left out: ..." names what this machine cannot build or run.

build=${1:?usage: columns.sh BUILD}
mkdir -p "$build" && build=$(cd "$build" && pwd) || exit 1
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d "$build/columns.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cp transformer.h tests/hash.c tests/kit.h tests/calls.h "$work" || exit 1
cc=${CC:-cc}
passed=0
failed=0

# a second compiler, if there is one
other=
if $cc --version 2>/dev/null | grep -q clang; then other=gcc; else other=clang; fi
command -v $other >/dev/null || { other=; echo "left out: a second compiler"; }
cxx=g++
command -v $cxx >/dev/null || { cxx=; echo "left out: g++"; }
tag_of() { basename "$1" | cut -d' ' -f1; }

# has FLAG...: the processor can do all of these
has() { for flag; do grep -q -w "$flag" /proc/cpuinfo 2>/dev/null || return 1; done; }
x86= avx2= avx512=
case $(uname -m) in x86_64 | amd64) x86=1 ;; esac
[ -n "$x86" ] && has avx2 fma && avx2=1 || echo "left out: AVX2"
[ -n "$avx2" ] && has avx512f avx512dq avx512bw avx512vl && avx512=1 || echo "left out: AVX-512"
avx2_flags='-mavx2 -mfma'
avx512_flags='-mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma'

# run COMMAND: two at a time; what it says comes into the log
running=0
run()
{
    (eval "$1") >>"$work/log" 2>&1 &
    running=$((running + 1))
    [ $running -lt 2 ] || { wait; running=0; }
}
finish() { wait; running=0; }

# One program has CBLAS too, where it is there: its optimiser may warn of that.
cblas='-UTRF_NO_CBLAS -Wl,--no-as-needed -lopenblas'
printf '#include <cblas.h>\nint main(void) { return 0; }\n' >"$work/cblas.c"
$cc "$work/cblas.c" -o "$work/empty" -lopenblas 2>/dev/null || cblas=

# whole GROUP NAME COMPILER FLAGS...: a program from one file, and no warning
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
whole()
{
    group=$1 name=$2 compiler=$3
    shift 3
    : >"$work/$group.$name.wanted"
    run "$compiler -O2 $warnings -DTRF_NO_CBLAS $* -I'$work' '$work/hash.c' -o '$work/$group.$name' -lm"
}

# column FILE NAME COMPILER FLAGS...: the ops alone, as column NAME, and no warning
column()
{
    file=$1 name=$2 compiler=$3
    shift 3
    run "$compiler -O2 $warnings -DTRF_NO_CBLAS -DTRF_COLUMN=$name $* -I'$work' -c '$work/hash.c' -o '$work/$file.o'"
}

# linked GROUP NAME APP COLUMN...: a program from objects
links=
linked()
{
    : >"$work/$1.$2.wanted"
    objects="'$work/$3.o'" output="'$work/$1.$2'"
    shift 3
    for object; do objects="$objects '$work/$object.o'"; done
    links="$links
$cc $objects -o $output -lm"
}

# again GROUP NAME PROGRAM KERNEL: a program of the group, with this kernel of 8 bits from the end of their table
again()
{
    echo "$4" >"$work/$1.$2.wanted"
    links="$links
ln '$work/$1.$3' '$work/$1.$2'"
}

# levels NAME COMPILER FLAGS...: a program of one compile, and no warning; each level of it is a program of a group. The
# group of 32 and 64 bytes is fused unless the flags say otherwise; SSE2 has nothing to fuse.
levels()
{
    name=$1 compiler=$2
    shift 2
    run "$compiler -O2 $warnings -DTRF_NO_CBLAS $* -I'$work' '$work/hash.c' -o '$work/levels.$name' -lm"
    case $* in *contract=off*) group=separate ;; *) group=fused ;; esac
    level separate "$name" 16
    level $group "$name" 32
    [ -z "$avx512" ] || level $group "$name" 64
}
level() { echo "0 $3" >"$work/$1.$2-$3.wanted"; links="$links
ln '$work/levels.$2' '$work/$1.$2-$3'"; }

# Elsewhere the optimiser of the second compiler does less, which takes half of the time.
quicker= less=
[ -n "${TRF_TEST_ALL:-}" ] || quicker="-O1 -DTRF_STATIC"
if [ -n "$avx2" ]; then
    for compiler in "$cc" $other; do
        tag=$(tag_of "$compiler")
        levels "levels-$tag" "$compiler" $less
        less=$quicker
    done
    # Columns that are compiled apart. The program is built without -O.
    tag=$(tag_of "$cc")
    run "$cc -DTRF_NO_CBLAS -DTRF_WITH_AVX2 -I'$work' -c '$work/hash.c' -o '$work/app.o'"
    column "avx2-$tag" avx2 "$cc" $avx2_flags
    linked fused "avx2-$tag" app "avx2-$tag"
    whole fused "whole-native-$tag" "$cc" -march=native -DTRF_STATIC
    again fused "whole-int8-avx2" "whole-native-$tag" 2
    again fused "whole-int8-c" "whole-native-$tag" 1
fi
if [ -n "$avx2" ] && [ -n "${TRF_TEST_ALL:-}" ]; then
    levels "off-levels" "$cc" -ffp-contract=off
    [ -z "$cxx" ] || levels "levels-$cxx" $cxx -x c++ -std=gnu++17          # g++ warns where gcc does not
    column "off-scalar-$tag" avx2 "$cc" -ffp-contract=off -DTRF_SCALAR
    linked separate "scalar-$tag" app "off-scalar-$tag"
    if [ -n "$avx512" ]; then
        run "$cc -DTRF_NO_CBLAS -DTRF_WITH_AVX2 -DTRF_WITH_AVX512 -I'$work' -c '$work/hash.c' -o '$work/both.o'"
        column "avx512-$tag" avx512 "$cc" $avx512_flags
        linked fused "both-$tag" both "avx2-$tag" "avx512-$tag"
    fi
    # The optimiser sees every function of $cc at -O3, and of the 32-bit compiler in C99; elsewhere those that are
    # called.
    [ -z "$other" ] || whole fused "whole-avx2-$other" $other $avx2_flags
    whole fused "whole-O3" "$cc" -O3 -march=native $cblas
    if command -v i686-linux-gnu-gcc >/dev/null; then
        for standard in c99 'gnu17 -DTRF_STATIC'; do
            whole separate "i686-${standard%% *}" i686-linux-gnu-gcc -std=$standard -static -msse2 -mfpmath=sse
        done
    else echo "left out: i686-linux-gnu-gcc"
    fi
elif [ -z "$avx2" ]; then
    for compiler in "$cc" $other; do
        tag=$(tag_of "$compiler")
        whole fused "whole-$tag" "$compiler"
        whole separate "whole-$tag" "$compiler" -ffp-contract=off
        whole separate "whole-scalar-$tag" "$compiler" -ffp-contract=off -DTRF_SCALAR
    done
    [ -z "$cxx" ] || whole separate "whole-$cxx" $cxx -x c++ -std=gnu++17 -ffp-contract=off
fi
finish
echo "$links" | while read -r command; do [ -z "$command" ] || eval "$command" >>"$work/log" 2>&1; done

# check NAME SENTENCE COMMAND...
check()
{
    name=$1 sentence=$2
    shift 2
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name: $sentence"; fi
}

# Every program of a group prints the same stages; the first line names the column that computes.
compare()
{
    first=
    for wanted in "$work/$1".*.wanted; do
        program=${wanted%.wanted} name=$(basename "${wanted%.wanted}")
        "$program" stages $(cat "$wanted") >"$program.out" 2>>"$work/log"
        check "program $name" "it is built, runs and prints hashes" test -s "$program.out"
        sed 1d "$program.out" >"$program.stages"
        if [ -z "$first" ]; then first=$program; continue; fi
        at=$(diff "$first.stages" "$program.stages" | sed -n 's/^> //p' | head -n 1)
        check "program $name" "its hashes are those of $(basename "$first"); first difference: $at" \
            cmp -s "$first.stages" "$program.stages"
    done
}
compare fused
compare separate
# The first line of a program names the column or level that computes.
chooses() { test "$(head -n 1 "$work/$1.out")" = "column $2"; }
tag=$(tag_of "$cc")
if [ -n "$avx512" ]; then
    [ -z "${TRF_TEST_ALL:-}" ] ||
        check "program fused.both-$tag" "it chooses the widest column, avx512" chooses "fused.both-$tag" avx512
    "$work/levels.levels-$tag" stages >"$work/widest.out"
    check "one compile" "it chooses the widest level, avx512" chooses widest avx512
fi
[ -z "$avx2" ] ||
    check "one compile, at most 32 bytes" "it chooses the level avx2" chooses "fused.levels-$tag-32" avx2
if [ -n "$avx2" ]; then
    fused=$work/fused.whole-native-$(tag_of "$cc").stages
    separate=$work/separate.levels-$(tag_of "$cc")-16.stages
    check "the groups fused and separate" "fused multiply-add changes the hashes" \
        sh -c '! cmp -s "$1" "$2"' sh "$fused" "$separate"
fi
[ $failed -eq 0 ] || head -n 20 "$work/log"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

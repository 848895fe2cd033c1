#!/bin/sh
# The header's manual: its program is compiled and run, its defaults compared: sh tests/test_manual.sh BUILD
#
# A program begins with a line "//     #define TRF_IMPLEMENTATION" and ends before the first line that is not indented
# like it. It must compile without a warning as C99 and as C++11 with gcc and clang. The compilers see it beside the
# header's public half, to save time: compile.sh compiles the implementation in all these ways. It is examples/dates.c,
# which test_readme.sh runs. Where TRF_TEST_ALL is set the compilers see it whole, and it is run here too. What comments
# call the default of a field is what the presets set (defaults.awk). BUILD is where all is made, and has transformer.o.

work=${1:?usage: test_manual.sh BUILD}/manual
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
passed=0 failed=0
check()
{
    name=$1; shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name"; fi
}

awk '
    /^#ifndef TRANSFORMER_H/ { exit }
    /^\/\/     #define TRF_IMPLEMENTATION$/ { file = "program" ++n ".c" }
    !/^\/\/     / && !/^\/\/$/ { file = "" }
    file { print substr($0, 8) >file }' "$root/transformer.h"
check "the manual has one program" eval '[ -f program1.c ] && [ ! -f program2.c ]'

quiet=-DTRF_NO_SLOW_WARNING
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror $quiet -I$root"
blas=-lopenblas flags=
echo 'int main(void) { return 0; }' >empty.c
cc empty.c -o empty $blas 2>errors || { blas='' flags=-DTRF_NO_CBLAS; echo "left out: -lopenblas"; }
whole=
[ -n "${TRF_TEST_ALL:-}" ] || whole=-DTRF__IMPLEMENTED
for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -x c++ -std=c++11' 'clang++ -x c++ -std=c++11'; do
    command -v ${compiler%% *} >/dev/null || { echo "left out: ${compiler%% *}"; continue; }
    check "the manual's program compiles without a warning: $compiler" $compiler $warnings $flags $whole \
        -fsyntax-only program1.c
done
check "the manual's program is built" cc -O2 -march=native $flags -DTRF__IMPLEMENTED -I"$root" program1.c \
    ../transformer.o -o program1 $blas -lm

awk -f "$root/tests/defaults.awk" "$root/transformer.h" >defaults.c
check "the program that compares defaults is built" cc -O0 $flags -I"$root" defaults.c ../transformer.o -o defaults \
    $blas -lm
check "defaults are what the comments say" sh -c './defaults >defaults.txt || { cat defaults.txt; exit 1; }'
check "100 defaults or more are compared with the comments" [ "$(sed -n 's/ defaults$//p' defaults.txt)" -ge 100 ]

if [ -n "${TRF_TEST_ALL:-}" ]; then
    check "the manual's program ends with 0" sh -c "./program1 >program1.out"
    check "the manual's program says how training goes, at most once a second" eval \
        '[ "$(grep -c -v "updates*, [0-9]* s: loss " program1.out)" -eq 1 ] && [ "$(wc -l <program1.out)" -ge 3 ]'
    check "the manual's program prints the date at last" \
        [ "$(tail -n 1 program1.out)" = "14 July 2001 -> 2001-07-14" ]
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

#!/bin/sh
# The header's manual: its programs are compiled and run, its defaults compared: sh tests/test_manual.sh BUILD
#
# A program begins with a line "//     #define TRF_IMPLEMENTATION" and ends before the first line that is not indented
# like it. Each must compile without a warning as C99 and as C++11 with gcc and clang, and must print what the manual
# says. The compilers see them beside the header's public half, to save time: compile.sh compiles the implementation in
# all these ways. The first is examples/dates.c, which test_readme.sh runs. Where TRF_TEST_ALL is set the compilers see
# it whole, and it is run here too. What comments call the default of a field is what the presets set (defaults.awk).
# BUILD is where all is made, and has transformer.o.

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
check "the manual has four programs" eval '[ -f program4.c ] && [ ! -f program5.c ]'

quiet=-DTRF_NO_SLOW_WARNING
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror $quiet -I$root"
blas=-lopenblas flags=
echo 'int main(void) { return 0; }' >empty.c
cc empty.c -o empty $blas 2>errors || { blas='' flags=-DTRF_NO_CBLAS; echo "left out: -lopenblas"; }
whole=
[ -n "${TRF_TEST_ALL:-}" ] || whole=-DTRF__IMPLEMENTED
for n in 1 2 3 4; do
    for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -x c++ -std=c++11' 'clang++ -x c++ -std=c++11'; do
        command -v ${compiler%% *} >/dev/null || { echo "left out: ${compiler%% *}"; continue; }
        check "the manual's program$n compiles without a warning: $compiler" $compiler $warnings $flags $whole \
            -fsyntax-only program$n.c
    done
    check "the manual's program$n is built" cc -O2 -march=native $flags -DTRF__IMPLEMENTED -I"$root" program$n.c \
        ../transformer.o -o program$n $blas -lm
    whole=-DTRF__IMPLEMENTED
done

awk -f "$root/tests/defaults.awk" "$root/transformer.h" >defaults.c
check "the program that compares defaults is built" cc -O0 $flags -I"$root" defaults.c ../transformer.o -o defaults \
    $blas -lm
check "defaults are what the comments say" sh -c './defaults >defaults.txt || { cat defaults.txt; exit 1; }'
check "100 defaults or more are compared with the comments" [ "$(sed -n 's/ defaults$//p' defaults.txt)" -ge 100 ]

# prints PROGRAM PATTERN COUNT LINES: it ends with 0 and prints COUNT lines of this pattern, LINES in all
prints()
{
    check "the manual's $1 ends with 0, to print: $2" sh -c "./$1 >$1.out"
    check "the manual's $1 prints $3 lines like: $2" [ "$(grep -c -x -E "$2" "$1.out")" -eq "$3" ]
    check "the manual's $1 prints $4 lines in all, with those like: $2" [ "$(wc -l <"$1.out")" -eq "$4" ]
}
if [ -n "${TRF_TEST_ALL:-}" ]; then
    check "the manual's program1 ends with 0" sh -c "./program1 >program1.out"
    check "the manual's program1 says how training goes, at most once a second" eval \
        '[ "$(grep -c -v "updates*, [0-9]* s: loss " program1.out)" -eq 1 ] && [ "$(wc -l <program1.out)" -ge 3 ]'
    check "the manual's program1 prints the date at last" \
        [ "$(tail -n 1 program1.out)" = "14 July 2001 -> 2001-07-14" ]
fi
prints program2 'the cat (sees|helps|hears|likes) the (dog|cat|king|girl|bird)' 4 4
prints program3 'German: 1\.00' 1 1
prints program4 'update (50|100|150|200)  loss [0-9.]+' 4 4
prints program4 'update (250|300|350|400)  loss [0-9.]+' 4 5
check "the manual's program4 continues from its checkpoint" grep -q -x 'continuing after update 200' program4.out

cp run.checkpoint whole
head -c 1000 whole >part
cp part run.checkpoint
./program4 >damaged 2>&1
check "the manual's program4 ends with 1 if its checkpoint is damaged" [ $? -eq 1 ]
check "the manual's program4 tells status and name of a damaged checkpoint" grep -q '^TRF_E_FORMAT: run.checkpoint' \
    damaged
check "the manual's program4 leaves a damaged checkpoint as it is" cmp part run.checkpoint

mv whole run.checkpoint
trap '' INT                             # until the program has its own handler
./program4 >program4.out & program=$!
while kill -INT $program 2>kill.txt; do sleep 1; done
wait $program
status=$?
trap - INT
check "the manual's program4 ends with 0 if it is interrupted" [ $status -eq 0 ]
check "the manual's program4 says that it was interrupted" grep -q -x interrupted program4.out
./program4 >program4.out
check "the manual's program4 continues from what an interruption has saved" grep -q \
    -x 'continuing after update [45][0-9][0-9]' program4.out

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

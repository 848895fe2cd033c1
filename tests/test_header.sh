#!/bin/sh
# transformer.h and its files in tools/header: sh tests/test_header.sh
#
# The header is what its files join to. An edit of the header alone is kept, and goes back into the files. Circles and
# other faults of the files are refused by name. Each file compiles alone, after what it includes. There -DTRF_STATIC
# makes every function static, so compilers tell a function that is called and not there. That takes long: TRF_TEST_ALL
# does it, with clang without vectors, whose declarations take half of the time, and with gcc with them.

. "$(dirname "$0")/checks.sh"
join=tools/header/join.sh

# A fresh copy of the header and its files, in which the checks work.
fresh()
{
    cd "$here" && rm -rf copy && mkdir -p copy/tools && cp -R "$source/tools/header" copy/tools &&
        cp "$source/transformer.h" copy && cd copy || exit 1
}
# refuses TEXT COMMAND...: the command fails, says TEXT and changes nothing
refuses()
{
    text=$1; shift
    rm -rf ../before && cp -R . ../before
    ! "$@" 2>../said && grep -q -F -e "$text" ../said && diff -r ../before . || { cat ../said; false; }
}
without_last() { sed '$d' transformer.h; }

fresh
check "the header is what its files join to" eval 'sh $join && cmp transformer.h "$source/transformer.h"'
rm transformer.h
check "join.sh makes a header that is not there" eval 'sh $join && cmp transformer.h "$source/transformer.h"'

# --- an edit of the header alone -------------------------------------------------------------------------------------
# edit WHAT AWK FILES: taking an edit of the header back changes FILES (-: any), and then they join to it
edit()
{
    fresh
    awk "$2" "$source/transformer.h" >transformer.h
    without_last >../wanted
    check "an edit of the header, $1: parts.sh takes it into the files" eval 'sh tools/header/parts.sh >../changed'
    [ "$3" = - ] || check "an edit of the header, $1: parts.sh changes only $3" \
        [ "$(sed 's@tools/header/@@' ../changed | sort | tr '\n' ' ')" = "$3 " ]
    check "an edit of the header, $1: the header keeps it" eval 'without_last | cmp - ../wanted'
    rm transformer.h
    check "an edit of the header, $1: the files join to it" eval 'sh $join && without_last | cmp - ../wanted'
}
edit "a line changes" '/^#define TRF_VERSION/ { $0 = "#define TRF_VERSION \"9\"" } 1' api/version.h
edit "lines go" '/^TRF__FN int64_t trf__round_up/ { next } { print } /^\/\/ >>gemm-kernels/ { getline; getline }' \
    "base/memory.h cpu/gemm.h"
edit "a chapter gets a new end" '{ print } /^#define TRF__ZERO/ { print "\n#define TRF__MORE 1" }' base/impl.h
edit "a chapter gets a new beginning" '{ print } /^\/\/ >>pool / { print "// and a sentence more" }' cpu/norm.h
edit "a new first line" 'NR == 1 { print "// new" } 1' manual/first_page.h
edit "a new last line" '{ print } /^\/\/ OUT OF OR/ { print "// and more" }' all.h
edit "a whole part goes" '/^\/\/ >>bpe /, /^\/\/ >>pieces-text/ { if (!/pieces-text/) next } 1' -
edit "every function gets a comment" '/^TRF__FN/ { print "/* new */" } 1' -

fresh
awk '/^#define TRF_VERSION/ { $0 = "#define TRF_VERSION \"9\"" } 1' transformer.h >../sent.h
check "parts.sh takes an edited copy of another name into the files and the header" \
    eval 'sh tools/header/parts.sh ../sent.h >../changed &&
        grep -q "VERSION .9" tools/header/api/version.h && grep -q "VERSION .9" transformer.h'
echo '/* more */' >>tools/header/base/impl.h
cp ../sent.h transformer.h
check "parts.sh refuses an edited copy if the header was edited too" refuses "transformer.h was edited" \
    sh tools/header/parts.sh ../sent.h
check "parts.sh refuses an edited header if its files have changed too" refuses "made from other files" \
    sh tools/header/parts.sh
check "join.sh refuses to replace an edited header" refuses "transformer.h was edited" sh $join
fresh
without_last >../sent.h
check "parts.sh refuses a header without its last line" refuses "does not say what the header was made from" \
    sh tools/header/parts.sh ../sent.h
check "parts.sh refuses a file that is not there" refuses "there is no such file" sh tools/header/parts.sh none.h

# --- faults of the files ---------------------------------------------------------------------------------------------
# fault WHAT TEXT COMMAND: after the command, run among the files, joining refuses WHAT with TEXT
fault()
{
    fresh
    (cd tools/header && eval "$3")
    check "join.sh refuses $1" refuses "$2" sh $join
}
# use FILE OTHER: FILE includes OTHER too
use() { { echo "#include \"$2\""; cat "$1"; } >"$here/used" && cp "$here/used" "$1"; }
fault "a circle of two files" "a circle: pass/packed.h -> pass/rows.h -> pass/packed.h" \
    'use pass/packed.h pass/rows.h; use pass/rows.h pass/packed.h'
fault "a file that includes itself" "a circle: base/impl.h -> base/impl.h" 'use base/impl.h base/impl.h'
fault "a circle over many files" "-> blocks/blocks.h -> " 'use base/errors.h blocks/blocks.h'
fault "a file that includes one that comes later" "cpu/gemm.h includes cuda/launches.h, which comes later in all.h" \
    'use cpu/gemm.h cuda/launches.h'
fault "an include of a file that is not there" "cpu/gemm.h includes cpu/none.h, which is missing or empty" \
    'use cpu/gemm.h cpu/none.h'
fault "an include of an empty file" "cpu/gemm.h includes cpu/none.h, which is missing or empty" \
    'use cpu/gemm.h cpu/none.h; : >cpu/none.h'
fault "a file that nobody includes" "cpu/more.h: no file includes it" 'echo "#pragma once" >cpu/more.h'
fault "an include after other text" "base/impl.h:" 'echo "#include \"api/version.h\"" >>base/impl.h'

# A file that is in no list goes before the first one that includes it, and is written once.
fresh
(cd tools/header && echo 'enum { TRF__FRESH = 1 };' >cpu/new.h && use cpu/norm.h cpu/new.h &&
    use cpu/loss.h cpu/new.h && sh join.sh)
check "join.sh writes a new file once, before its use, and the header compiles" \
    eval '[ "$(grep -c "enum { TRF__FRESH" transformer.h)" = 1 ] &&
        cc -O2 -fsyntax-only -DTRF_IMPLEMENTATION -DTRF_NO_SLOW_WARNING -x c transformer.h'
check "join.sh lists the names of a file that is read for each level" \
    grep -q "^#define TRF__FRESH TRF__NAMED(TRF__FRESH)" transformer.h
check "a new file leaves no two blank lines in a row in the header" \
    eval '[ -z "$(cat -s transformer.h | diff - transformer.h)" ]'

[ -n "${TRF_TEST_ALL:-}" ] || { finish; exit; }

# --- each file alone -------------------------------------------------------------------------------------------------
# alone COMPILER...: lists the files that it does not compile alone
alone()
{
    for file in $files; do
        echo "#include \"$file\"" | "$@" $vectors -DTRF_STATIC -DTRF_NO_SLOW_WARNING -I"$source/tools/header" \
            -I"$source/tests" \
            -Wall -Wextra -Wno-unused-function -Werror -fsyntax-only - || echo "tools/header/$file"
    done
}
cd "$source/tools/header" || exit 1
files=$(find . -name '*.h' ! -path './manual/*' ! -path './cuda/*' | sed 's|^\./||' | sort)
compilers= vectors=-DTRF_SCALAR
for compiler in clang gcc cc; do
    command -v $compiler >/dev/null || continue
    [ $compiler != cc ] || [ -z "$compilers" ] || continue
    compilers="$compilers $compiler"
    alone $compiler -std=c99 -DTRF_IMPLEMENTATION -x c >"$here/$compiler.alone" 2>&1 &
    vectors=
done
wait
for compiler in $compilers; do
    check "each file of tools/header compiles alone with $compiler" \
        eval '[ ! -s "$here/$compiler.alone" ] || { cat "$here/$compiler.alone"; false; }'
done
files=$(find cuda -name '*.h')
check "each file of tools/header/cuda compiles alone" eval '
    alone c++ -std=c++11 -DTRF_COLUMN=cuda "-DTRF__GPU_ON_CPU=\"gpu_on_cpu.h\"" -x c++ >"$here/cuda.alone" 2>&1
    [ ! -s "$here/cuda.alone" ] || { cat "$here/cuda.alone"; false; }'
cp -R "$source/tools/header" "$here/less" && cd "$here/less" && sed -i.old '/^#include "text\/vocab_use.h"/d' \
    model/texts.h
check "a compiler tells a function that a file calls without including it" eval '! echo "#include \"model/texts.h\"" |
    ${compilers##* } -std=c99 -DTRF_IMPLEMENTATION -DTRF_STATIC -DTRF_NO_SLOW_WARNING -I. -Wno-unused-function \
        -Werror -fsyntax-only -x c - 2>"$here/said" && grep -q trf_vocab "$here/said"'

finish

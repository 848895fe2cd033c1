#!/bin/sh
# The command line where address space is scarce and where OpenBLAS is not there: sh tests/test_trf_build.sh PATH_OF_TRF

. "$(dirname "$0")/trf.sh"

"$trf" train --tsv train.tsv --model m $small --updates 20 >/dev/null 2>&1
check "training writes a model" [ -s m ]
version=$("$trf" --version)
loads() { case $version in *"OpenBLAS, which is loaded when needed"*) true ;; *) false ;; esac; }

# --- little address space ----------------------------------------------------------------------------------------
# ends KB ARGUMENTS...: within two minutes, with success or a message about memory; what is begun is done or refused.
ends()
{
    kb=$1
    shift
    (ulimit -v "$kb" && exec timeout -s KILL 120 "$trf" "$@" >out 2>err </dev/null)
    status=$?
    [ $status -eq 0 ] && return
    [ $status -le 2 ] && grep -q -i -e 'memory' -e 'address space' -e 'system cannot start' -e 'cannot be loaded' err
}
# works KB ARGUMENTS...: with success
works()
{
    ends "$@" && [ $status -eq 0 ]
}
if grep -q -e __asan_init -e __tsan_init -e __msan_init "$trf"; then echo "left out: ulimit -v under a sanitizer"
elif ! (ulimit -v 150000 && : >/dev/null) 2>/dev/null; then echo "left out: ulimit -v"
else
    for kb in 100000 150000; do
        check "--help works in $kb KB of address space" works $kb --help
        check "--version works in $kb KB of address space" works $kb --version
        check "eval works in $kb KB of address space" works $kb eval test.names test.names
        check "inspect works in $kb KB of address space" works $kb inspect m
        check "score works in $kb KB of address space" works $kb score --model m test.digits test.names --threads 2
        check "translate works in $kb KB of address space" works $kb translate --model m test.digits --threads 2
        check "train works in $kb KB of address space" works $kb train --tsv train.tsv --model n$kb $model $brief \
            --updates 2 --warmup 1 --threads 2
    done
    for kb in 30000 60000 200000 300000 400000; do
        check "translate by CBLAS in $kb KB ends, done or refused for want of memory" ends $kb translate --model m \
            test.digits --products cblas --threads 2
    done
    check "train by CBLAS in 150000 KB ends, done or refused for want of memory" ends 150000 train --tsv train.tsv \
        --model c $model $brief --updates 2 --warmup 1 --products cblas
fi

# --- OpenBLAS is not there -----------------------------------------------------------------------------------------
mkdir none
: >none/libopenblas.so.0
: >none/libopenblas.so
without() { LD_LIBRARY_PATH="$PWD/none${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$trf" "$@"; }
if loads; then
    "$trf" translate --model m test.digits --products built-in >built-in
    check "translate by built-in products needs no OpenBLAS" without translate --model m test.digits \
        --products built-in --output answers
    check "translate by built-in products writes the same answers without OpenBLAS" same answers built-in
    check "translate --products auto needs no OpenBLAS" without translate --model m test.digits --products auto \
        --output auto
    check "translate --products auto writes 40 answers without OpenBLAS" lines_are 40 auto
    for command in "translate --model m test.digits" "score --model m test.digits test.names" \
                   "train --tsv train.tsv --model no $small --updates 1"; do
        expect 2 "${command%% *} --products cblas without OpenBLAS is refused" \
            'products cblas: OpenBLAS cannot be loaded: .*libopenblas' \
            without $command --products cblas
    done
    check "train --products cblas without OpenBLAS writes no model" [ ! -e no ]
else echo "left out: trf without OpenBLAS (it is linked with it, or built without)"
fi

# --- OpenBLAS is there ---------------------------------------------------------------------------------------------
# Batches of more than 16 rows, which OpenBLAS multiplies; its thread number in the environment is not trf's matter.
if loads && "$trf" translate --model m test.digits --products cblas --output cblas 2>err; then
    check "translate by OpenBLAS writes 40 answers" lines_are 40 cblas
    "$trf" train --tsv train.tsv --model one $small --updates 20 --products cblas >/dev/null 2>err
    check "train by OpenBLAS writes a model" [ -s one ]
    OPENBLAS_NUM_THREADS=3 "$trf" train --tsv train.tsv --model three $short --seed 5 --updates 20 --threads 3 \
        --products cblas >/dev/null 2>err
    check "train by OpenBLAS writes the same model with three threads" same one three
    "$trf" score --model one test.digits test.names >one.scores 2>/dev/null
    "$trf" score --model m test.digits test.names >m.scores 2>/dev/null
    check "train by OpenBLAS makes the scores of built-in products, but for rounding" \
        awk 'NR == FNR { a[FNR] = $1; next }
        { d = a[FNR] - $1; if (!(d * d < 1e-4)) bad = 1; n++ } END { exit bad || n != 40 }' one.scores m.scores
else echo "left out: products by OpenBLAS"
fi

finish

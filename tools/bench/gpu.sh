#!/bin/sh
# Everything there is to know of one GPU: sh tools/bench/gpu.sh [PART...] [FOLDER]
#
# PART     tests       the tests of the CUDA backend on the real card, two runs to the bit, compute-sanitizer
#          train       the card's own speeds; steps of tiny, base, big and of GPT-2's shape
#          attention   attention alone, forward and backward
#          translate   one sentence and 32
#          peers       the same work by PyTorch, CTranslate2 and llm.c, as far as they are here
#          kernels     where the time of a step goes, by ncu
#          Without a PART all but the last: fifteen minutes. Each part alone takes less than ten.
# FOLDER   where what was said goes to, too (default: build/gpu)
#
# Needs nvcc, a C compiler and a driver; cmocka for the tests. CUDA= and ARCH= as for make. LLMC= is the folder of a
# built llm.c with its data and weights of GPT-2; without it that peer is left out. Exits with 1 if a test failed.

cd "$(dirname "$0")/../.." || exit 1
parts= out=build/gpu
for word; do
    case $word in
    tests | train | attention | translate | peers | kernels) parts="$parts $word" ;;
    *) out=$word ;;
    esac
done
parts="${parts:- tests train attention translate peers} "
mkdir -p "$out" || exit 1
CUDA=${CUDA:-/usr/local/cuda} ARCH=${ARCH:-sm_90} CC=${CC:-cc}
PATH=$CUDA/bin:$PATH
libraries="-L$CUDA/lib64 -Wl,-rpath,$CUDA/lib64 -lcublasLt -lcudart -lstdc++ -lm -pthread"
plain="-O2 -I. -Itests -DTRF_WITH_CUDA -DTRF_NO_CBLAS"
failed=0
exec 3>&1
say() { echo "$*" | tee -a "$out/said" >&3; }
limit() { timeout "$@"; }
asked() { case $parts in *" $1 "*) say "== $1" ;; *) false ;; esac; }
run() { limit 60 "$out/gpu" "$@" 2>&1 | tee -a "$out/said"; }
peer() { limit 200 python3 tools/bench/gpu_peers.py "$@" 2>&1 | tail -n 3 | tee -a "$out/said"; }
: >"$out/said"

say "== $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null ||
    echo 'no nvidia-smi'), $(nvcc --version | tail -n 1)"
printf '#define TRF_COLUMN cuda\n#include "transformer.h"\n' >"$out/cuda.c"
nvcc -O2 -arch="$ARCH" -I. -x cu -c "$out/cuda.c" -o "$out/cuda.o" || exit 1
$CC $plain -DGPU_RUNTIME -I"$CUDA/include" tools/bench/gpu.c "$out/cuda.o" -o "$out/gpu" $libraries || exit 1

# sanitize SECONDS TOOL...: of the ops' tests
sanitize()
{
    seconds=$1
    shift
    command -v compute-sanitizer >/dev/null || { say "left out: compute-sanitizer is not here"; return; }
    for tool; do
        limit "$seconds" compute-sanitizer --tool $tool --error-exitcode 9 "$out/test_cuda_ops" >"$out/$tool.log" 2>&1
        status=$?
        say "$tool: exit status $status, $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool.log" | tail -n 1)"
        [ $status -eq 0 ] || [ $status -eq 124 ] || failed=1    # 124: it did not end in time
    done
}

if asked tests; then
    for t in test_cuda_ops test_cuda; do
        if $CC $plain -DTEST_REAL_GPU "tests/$t.c" "$out/cuda.o" -o "$out/$t" -lcmocka $libraries 2>"$out/$t.log"; then
            limit 150 "$out/$t" >"$out/$t.log" 2>&1 || failed=1
            grep -E 'PASSED|FAILED|ERROR|off by' "$out/$t.log" | tee -a "$out/said"
            [ $t = test_cuda ] || sanitize 90 memcheck synccheck racecheck
        else say "left out: $t does not build (cmocka?): $(head -n 1 "$out/$t.log")"; fi
    done
    limit 60 "$out/gpu" same 500 >"$out/same.log" || failed=1
    tee -a "$out/said" <"$out/same.log"
fi
if asked train; then
    run card
    for work in 'tiny 2048' 'base 8192' 'big 8192' 'big 25000' 'gpt2 32768'; do
        run train $work
        [ "$work" != 'tiny 2048' ] || run train $work launches
    done
fi
if asked attention; then run attention; fi
if asked translate; then
    for work in '1 4' '32 4'; do
        run translate base $work
        run translate base $work launches
    done
fi
if asked peers; then
    for work in 'base 8192' 'big 25000'; do peer train $work; done
    peer gpt2 32768
    peer attention
    for work in '1 4' '32 4'; do peer translate base $work; done
    if [ -x "${LLMC:-/nowhere}/train_gpt2cu" ]; then
        # 20 steps of 32 x 1,024 tokens
        (cd "$LLMC" && limit 100 ./train_gpt2cu -b 32 -t 1024 -d 32768 -x 20 -v 0 -s 0 -h 0 2>&1) >"$out/llmc.log"
        say "llm.c: $(grep 'tok/s' "$out/llmc.log" | tail -n 1)"
    else say "llm.c: left out, LLMC= names no folder with train_gpt2cu"; fi
fi
if asked kernels; then
    if command -v ncu >/dev/null; then
        limit 300 ncu --clock-control none --metrics gpu__time_duration.sum --print-units base --launch-skip 9000 \
            --launch-count 900 --kill yes --csv "$out/gpu" train big 25000 launches >"$out/ncu.csv" 2>"$out/ncu.log"
        # microseconds, launches and the kernel, the largest sums first
        awk -F '","' '/gpu__time_duration/ { name = $5; sub(/[(<].*/, "", name); n[name]++
                time = $NF; gsub(/[",]/, "", time); sum[name] += time / 1000 }
            END { for (k in n) printf "%10.0f us %5d  %s\n", sum[k], n[k], k }' "$out/ncu.csv" |
            sort -rn | head -n 20 | tee -a "$out/said"
    else say "left out: ncu is not here"; fi
fi
say "== $([ $failed -eq 0 ] && echo 'all that ran is right' || echo 'NOT RIGHT')"
exit $failed

#!/bin/sh
# Everything there is to know of one GPU, in ten minutes: sh tools/bench/gpu.sh [FOLDER]
#
# First whether it is right: the tests of the CUDA backend on the real card, then compute-sanitizer. Then how fast,
# beside PyTorch and CTranslate2 as far as they are here. What was said goes to FOLDER (default: build/gpu) too. Needs
# nvcc, a C compiler and a driver; cmocka for the tests. CUDA= and ARCH= as for make. Exits with 1 if a test failed.

cd "$(dirname "$0")/../.." || exit 1
out=${1:-build/gpu}
mkdir -p "$out" || exit 1
CUDA=${CUDA:-/usr/local/cuda} ARCH=${ARCH:-sm_90} CC=${CC:-cc}
PATH=$CUDA/bin:$PATH
libraries="-L$CUDA/lib64 -Wl,-rpath,$CUDA/lib64 -lcublasLt -lcudart -lstdc++ -lm -pthread"
plain="-O2 -I. -Itests -DTRF_WITH_CUDA -DTRF_NO_CBLAS"
failed=0
exec 3>&1
say() { echo "$*" | tee -a "$out/said" >&3; }
limit() { timeout "$@"; }
: >"$out/said"

say "== $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null ||
    echo 'no nvidia-smi'), $(nvcc --version | tail -n 1)"
printf '#define TRF_COLUMN cuda\n#include "transformer.h"\n' >"$out/cuda.c"
nvcc -O2 -arch="$ARCH" -I. -x cu -c "$out/cuda.c" -o "$out/cuda.o" || exit 1
$CC $plain -DGPU_RUNTIME -I"$CUDA/include" tools/bench/gpu.c "$out/cuda.o" -o "$out/gpu" $libraries || exit 1

say "== tests on the card"
for t in test_cuda_ops test_cuda; do
    if $CC $plain -DTEST_REAL_GPU "tests/$t.c" "$out/cuda.o" -o "$out/$t" -lcmocka $libraries 2>"$out/$t.log"; then
        limit 150 "$out/$t" >"$out/$t.log" 2>&1 || failed=1
        grep -E 'PASSED|FAILED|ERROR|off by' "$out/$t.log" | tee -a "$out/said"
        if command -v compute-sanitizer >/dev/null && [ $t = test_cuda_ops ]; then
            for tool in memcheck racecheck synccheck; do
                limit 90 compute-sanitizer --tool $tool --error-exitcode 9 "$out/$t" >"$out/$tool.log" 2>&1
                status=$?
                say "$tool: exit status $status, $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool.log" |
                    tail -n 1)"
                [ $status -eq 0 ] || [ $status -eq 124 ] || failed=1    # 124: it did not end in time
            done
        fi
    else say "left out: $t does not build (cmocka?): $(head -n 1 "$out/$t.log")"; fi
done
limit 60 "$out/gpu" same 500 >"$out/same.log" || failed=1
tee -a "$out/said" <"$out/same.log"

say "== speed"
run() { limit 60 "$out/gpu" "$@" 2>&1 | tee -a "$out/said"; }
peer() { limit 100 python3 tools/bench/gpu_peers.py "$@" 2>&1 | tail -n 3 | tee -a "$out/said"; }
run card
run attention
for work in 'tiny 2048' 'base 8192' 'big 8192' 'big 25000'; do
    run train $work
    [ "$work" != 'tiny 2048' ] || run train $work launches
    peer train $work
done
for work in '1 4' '32 4'; do
    run translate base $work
    run translate base $work launches
    peer translate base $work
done
peer attention
say "== $([ $failed -eq 0 ] && echo 'all that ran is right' || echo 'NOT RIGHT')"
exit $failed

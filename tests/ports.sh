#!/bin/sh
# The header on other systems, compilers and languages: sh tests/ports.sh BUILD [PATTERN]
#
# Each port compiles tests/ports.c without a warning and runs it: examples/copy.c, training, translating, files
# and checkpoints, and models that were made on x86-64. PATTERN: only ports of such names ("qemu", "musl|wine").
# What is missing on this machine is left out by name. All of them, on Debian:
#
#     apt-get install --no-install-recommends gcc g++ clang libopenblas-dev musl-tools qemu-user wine64 nodejs \
#         emscripten gcc-mingw-w64-x86-64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
#         gcc-s390x-linux-gnu libc6-dev-s390x-cross gcc-i686-linux-gnu libc6-dev-i386-cross
#     dpkg --add-architecture arm64 && apt-get update && apt-get install --no-install-recommends libcmocka-dev:arm64
#
# Two jobs run at a time. On an emulated processor examples/copy.c trains for fewer updates.

work=${1:?usage: ports.sh BUILD [PATTERN]}/ports
pattern=${2:-.}
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
work=$PWD
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
old=$root/tests/golden/old
NODE_PATH=${NODE_PATH:-/usr/share/nodejs}       # Debian's emscripten needs modules from there, whoever's node this is
export NODE_PATH

jobs=0
# job NAME SHELL_CODE: runs in a folder of its own, and prints "N passed, M failed" last
job()
{
    printf '%s\n' "$1" | grep -q -E -e "$pattern" || return 0
    jobs=$((jobs + 1))
    mkdir "$work/$jobs" || exit 1
    printf '%s\n' "$1" >"$jobs/name"
    printf '%s\n' "$2" >"$jobs/code"
}

has() { command -v "$1" >/dev/null; }
missing() { printf '%s\n' "$1" | grep -q -E -e "$pattern" && echo "left out: $1: $2 is not here"; return 0; }

# port NAME COMPILER OPTIONS LIBRARIES [RUNNER]: by an emulator, if there is a runner
port()
{
    has "${2%% *}" || { missing "$1" "${2%% *}"; return; }
    [ -z "${5:-}" ] || has "${5%% *}" || { missing "$1" "${5%% *}"; return; }
    few=
    case ${5:-} in *qemu*) few='s/step <= 400/step <= 20/' ;; esac
    job "$1" "sed '$few' '$root/examples/copy.c' >copy.c &&
        $2 $warnings -O2 $3 -I. -I'$root' '$root/tests/ports.c' -o ports $4 && ${5:-} ./ports '$old' 2"
}

# --- compilers and languages of this machine -----------------------------------------------------------------------
bare=-DTRF_NO_CBLAS
port "x86-64, gcc, C99, no threads" gcc "-std=c99 -DTRF_NO_THREADS $bare" -lm
port "x86-64, gcc, C11, -march=native" gcc "-std=c11 -march=native $bare" -lm
port "x86-64, clang, C17" clang "-std=c17 $bare" -lm
port "x86-64, g++, C++11" 'g++ -x c++' "-std=c++11 $bare" -lm
port "x86-64, clang++, C++20" 'clang++ -x c++' "-std=c++20 $bare" -lm
echo '#include <cblas.h>' >has_cblas.c
if gcc -fsyntax-only has_cblas.c 2>/dev/null; then
    port "x86-64, gcc, C17, OpenBLAS" gcc -std=c17 '-lopenblas -lm'
else missing "x86-64, gcc, OpenBLAS" cblas.h
fi

# --- other libraries, processors and systems -----------------------------------------------------------------------
port "musl, static" musl-gcc "-std=c99 -static" -lm        # it has no cblas.h
port "i686 with SSE2" i686-linux-gnu-gcc "-std=c99 -msse2 -mfpmath=sse -static $bare" -lm
port "ARM64, by qemu" aarch64-linux-gnu-gcc "-std=c99 -static $bare" -lm qemu-aarch64
# The suites of 8 and of 16 bits on processors with smmla and bfmmla, with sdot alone, and with neither.
arm=aarch64-linux-gnu-gcc
for suite in test_int8 test_bf16; do
    if has $arm && has qemu-aarch64 && [ -f "$($arm -print-file-name=libcmocka.so)" ]; then
        job "ARM64, by qemu: $suite" "$arm -O2 $bare -DTRF_NO_SLOW_WARNING -I'$root' -I'$root/tests' \
                '$root/tests/$suite.c' -o suite -lcmocka -lm && for cpu in max cortex-a76 cortex-a57; do
                    qemu-aarch64 -cpu \$cpu ./suite >out 2>&1 || { tail -n 20 out; exit 1; }
                done && echo '3 passed, 0 failed'"
    else missing "ARM64, by qemu: $suite" "$arm, qemu-aarch64 or cmocka"; fi
done
# There -std=c99 computes floats in double (FLT_EVAL_METHOD 1), which the header refuses.
port "s390x, whose numbers are big-endian, by qemu" s390x-linux-gnu-gcc "-std=gnu99 -static $bare" -lm qemu-s390x

windows=x86_64-w64-mingw32-gcc
wine=$(for w in wine64 wine /usr/lib/wine/wine64; do ! has $w || echo $w; done | head -n 1)
if ! has $windows; then missing "Windows, by wine" $windows
elif [ -z "$wine" ]; then missing "Windows, by wine" wine
else
    WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
    export WINEPREFIX WINEDEBUG WINEDLLOVERRIDES
    job "Windows, by wine" "cp '$root/examples/copy.c' . && cp '$old/words' '$old/causal' . &&
        $windows $warnings -std=c99 -O2 $bare -I. -I'$root' '$root/tests/ports.c' -o ports.exe -static -lm &&
        $wine ./ports.exe . 2 2>wine.log | tr -d '\r'"
fi

# NODERAWFS: the files of the machine. This node may have a fetch that old emscriptens take for a browser's.
node="node -e 'delete globalThis.fetch; process.argv.splice(1, 0, \"ports\"); require(\"./ports.js\")'"
for simd in '' -msimd128; do
    name="WebAssembly${simd:+ with $simd}, by node"
    if ! has emcc; then missing "$name" emcc
    elif ! has node; then missing "$name" node
    else
        job "$name" "cp '$root/examples/copy.c' . &&
            emcc $warnings -std=c99 -O2 $simd $bare -I. -I'$root' '$root/tests/ports.c' -o ports.js \
                -sALLOW_MEMORY_GROWTH=1 -sNODERAWFS=1 &&
            $node '$old' 2 2>node.log || { cut -c 1-200 node.log | grep -v '^ *\$' | tail -n 5; false; }"
    fi
done

# --- shared libraries ------------------------------------------------------------------------------------------------
# A plug-in that shows one function of its own, loaded, called and closed twice; and a library of the header that shows
# the public functions alone.
cat >plug.c <<'END_OF_PLUG'
#define TRF_IMPLEMENTATION
#include "transformer.h"
__attribute__((visibility("default"))) int plug_translate(const char *path, const char *text,
                                                                 char *answer, size_t size);
int plug_translate(const char *path, const char *text, char *answer, size_t size)
{
    trf_error err;
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_search search = trf_search_defaults();
    int failed;
    search.threads = 2;
    failed = trf_model_load(&model, path, NULL, &err) || trf_translator_create(&translator, model, &search, &err) ||
             trf_translate_text(translator, text, answer, size, &err);
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    return failed;
}
END_OF_PLUG
cat >host.c <<'END_OF_HOST'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static const char *path;
static void *load(void *right)
{
    void *plug = dlopen("./plug.so", RTLD_NOW | RTLD_LOCAL);
    int (*translate)(const char *, const char *, char *, size_t) = NULL;
    char answer[64];
    if (!plug) return NULL;
    *(void **)&translate = dlsym(plug, "plug_translate");
    if (translate && !translate(path, "2 0 1", answer, sizeof answer) && !strcmp(answer, "one zero two") &&
        !dlclose(plug))
        ++*(int *)right;
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t thread;
    int i, right = 0;
    if (argc != 2) return 2;
    path = argv[1];
    for (i = 0; i < 2; i++)
        if (!pthread_create(&thread, NULL, load, &right)) pthread_join(thread, NULL);
    load(&right);
    printf("%d passed, %d failed\n", right, 3 - right);
    return right != 3;
}
END_OF_HOST
cat >links.c <<'END_OF_LINKS'
#include "transformer.h"
#include <stdio.h>
int main(void)
{
    trf_error err;
    trf_model *model = NULL;
    trf_config config = trf_config_preset(TRF_TINY);
    config.source_vocab = config.target_vocab = 9;
    if (trf_model_create(&model, &config, NULL, &err)) puts(err.message);
    trf_model_destroy(model);
    printf("%d passed, %d failed\n", model != NULL, model == NULL);
    return !model;
}
END_OF_LINKS
for c in gcc clang; do
    if ! has $c; then missing "shared library, $c" $c; continue; fi
    shared="$c $warnings -std=gnu99 -O1 -fPIC -shared -fvisibility=hidden $bare -I'$root'"
    job "shared library, $c: a plug-in of one function" "$shared ../plug.c -o plug.so -lm -pthread &&
        nm -D --defined-only plug.so | cut -d ' ' -f 3 >shown &&
        cat shown && [ \"\$(cat shown)\" = plug_translate ] &&
        $c -Wall -Werror -O1 ../host.c -o host -ldl -pthread && ./host '$old/words'"
    job "shared library, $c: public functions alone" \
        "printf '#define TRF_IMPLEMENTATION\n#include \"transformer.h\"\n' >all.c &&
        $shared '-DTRF_API=extern __attribute__((visibility(\"default\")))' all.c -o libtransformer.so -lm -pthread &&
        nm -D --defined-only libtransformer.so | cut -d ' ' -f 3 >shown && ! grep -v '^trf_[a-z]' shown &&
        ! grep '^trf__' shown && [ -s shown ] &&
        $c $warnings -std=c99 -I'$root' ../links.c -o links -L. -ltransformer '-Wl,-rpath,.' && ./links"
done

# --- run them, two at a time -----------------------------------------------------------------------------------------
report()
{
    passed=$(sed -n 's/^\([0-9]*\) passed, [0-9]* failed$/\1/p' "$1/out" | tail -n 1)
    failed=$(sed -n 's/^[0-9]* passed, \([0-9]*\) failed$/\1/p' "$1/out" | tail -n 1)
    passed=${passed:-0} failed=${failed:-0}
    if [ "$2" -ne 0 ] || [ "$passed" -eq 0 ]; then [ "$failed" -gt 0 ] || failed=1; fi
    echo "$passed $failed" >"$1/counts"
    if [ "$failed" -eq 0 ]; then printf 'ok      %-46s %3d tests %4d s\n' "$(cat "$1/name")" "$passed" "$3"
    else
        printf 'FAILED  %-46s exit status %d, %d s\n' "$(cat "$1/name")" "$2" "$3"
        head -n 30 "$1/out" | cut -c 1-200 | sed 's/^/    /'
    fi
}

limit=
if has timeout; then limit="timeout -k 10 1200"; fi
worker()
{
    i=1
    while [ $i -le $jobs ]; do
        if mkdir "$i/taken" 2>/dev/null; then
            began=$(date +%s)
            (cd "$i" && exec $limit sh ./code) >"$i/out" 2>&1
            status=$?
            report $i $status $(($(date +%s) - began)) >"$i/report"
            cat "$i/report"
        fi
        i=$((i + 1))
    done
}
worker & second=$!
worker
wait $second
rm -rf wine

total_passed=0 total_failed=0 i=1
while [ $i -le $jobs ]; do
    passed=0 failed=1
    [ ! -s $i/counts ] || read -r passed failed <$i/counts
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    i=$((i + 1))
done
[ $jobs -gt 0 ] || { echo "no port has such a name, or its compiler"; total_failed=1; }
echo "$total_passed passed, $total_failed failed"
[ $total_failed -eq 0 ]

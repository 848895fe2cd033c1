#!/bin/sh
# Compiles the header, the examples and the studies with every compiler that is here: sh tests/compile.sh BUILD
#
# Checks that
#   - there is no warning in any language standard or with any option,
#   - the parts of a program link, in C and in C++,
#   - what must not compile is refused,
#   - the object file exports and calls only what it should, and has no writable data,
#   - the header's and README's words agree with the examples.
# The compilers are gcc, g++, clang, clang++ and nvcc; a line "left out: ..." names one that is not here. Two jobs run
# at a time. Where TRF_TEST_ALL is set, every compiler sees every option and every example; elsewhere each sees the
# header once, and one compiler the rest.

work=${1:?usage: compile.sh BUILD}/compile
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1

quiet=-DTRF_NO_SLOW_WARNING
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror $quiet"
c_compilers= cxx_compilers= cblas='-DTRF_NO_CBLAS'
for c in gcc clang; do command -v $c >/dev/null && c_compilers="$c_compilers $c" || echo "left out: $c"; done
for c in g++ clang++; do
    command -v $c >/dev/null && cxx_compilers="$cxx_compilers $c -x c++ ;" || echo "left out: $c"
done
command -v nvcc >/dev/null || echo "left out: nvcc"
whole=${TRF_TEST_ALL:-}
gcc_like=${c_compilers# }
gcc_like=${gcc_like%% *}
[ -n "$gcc_like" ] || { echo "neither gcc nor clang is here"; exit 1; }
echo '#include <cblas.h>' >has_cblas.c
$gcc_like -fsyntax-only has_cblas.c 2>/dev/null && cblas=

cat >all.c <<'END'
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "transformer.h"        /* a second time changes nothing */
#if defined(__OPTIMIZE_SIZE__)
#error the header defines what the compiler did not
#endif
END
cat >reasons.c <<'END'
#define TRF_IMPLEMENTATION
#include "transformer.h"
int main(int n, char **paths)
{
    trf_dataset *data;
    trf_error err;
    if (n < 2 || trf_dataset_create(&data, NULL, &err) || trf_dataset_read(data, paths[1], NULL, 0, &err)) return 1;
    if (trf_dataset_finish(data, &err)) return 2;
    printf("%s\n", trf_dataset_results(data)->recipe->reasons);
    fprintf(stderr, "%s", trf_dataset_results(data)->recipe->reasons);
    trf_dataset_destroy(data);
    return 0;
}
END
printf '#define TRF_COLUMN wide\n#include "transformer.h"\n' >column.c
printf '#define TRF_COLUMN avx2\n#define TRF_IMPLEMENTATION\n#include "transformer.h"\n' >both.c
printf '#include "transformer.h"\n#include "transformer.h"\n' >public.c
cat >caller.c <<'END'
#include "transformer.h"
#include <stdio.h>
#include <string.h>
int main(void)
{
    char text[500];
    trf_error err;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();
    config.source_vocab = config.target_vocab = 9;
    config.d_model = config.d_ff = 8;
    config.device.threads = training.threads = 1;
    if (trf_model_create(&model, &config, NULL, &err) || trf_trainer_create(&trainer, model, &training, &err))
        puts(err.message);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return !model || !trainer || strncmp(trf_device_text(NULL, text, sizeof text), "transformer.h ", 14);
}
END

cat >frozen.c <<'END'
#include "transformer.h"
#include <stdio.h>
int main(void)
{
    int32_t source[5] = {5, 9, 7, 4, 12}, n = 5, i;
    trf_sequences one = {source, &n, 1};
    const trf_hypothesis *best;
    trf_error err;
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_search search = trf_search_defaults();
    config.source_vocab = config.target_vocab = 24;
    config.device.threads = search.threads = 1;
    search.min_length = 8;
    if (trf_model_create(&model, &config, NULL, &err) || trf_model_save(model, "frozen", NULL, &err)) return 1;
    trf_model_destroy(model);
    if (trf_model_load(&model, "frozen", NULL, &err) || trf_translator_create(&translator, model, &search, &err))
        return 2;
    if (trf_translate(translator, &one, NULL, &err)) return 3;
    best = trf_translator_answer(translator, 0, 0);
    for (i = 0; i < best->n; i++) printf("%d ", (int)best->ids[i]);
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    return 0;
}
END

# An update, a copy, a translation, and answers that begin with nothing.
cat >little.c <<'END'
#define TRF_IMPLEMENTATION
#include "transformer.h"
int main(void)
{
    int32_t ids[3] = {5, 9, 7}, lengths[1] = {3}, none[1] = {0}, n;
    trf_batch batch = {{ids, lengths, 1}, {ids, lengths, 1}, 0, {0, 0, 0}},
              begin = {{ids, lengths, 1}, {NULL, none, 1}, 0, {0, 0, 0}};
    trf_error err;
    trf_model *model, *copy;
    trf_trainer *trainer;
    trf_translator *translator;
    trf_sampler *generator;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();
    trf_search search = trf_search_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    config.source_vocab = config.target_vocab = 24;
    config.device.threads = training.threads = search.threads = sampling.threads = 1;
    if (trf_model_create(&model, &config, NULL, &err) || trf_trainer_create(&trainer, model, &training, &err)) return 1;
    if (trf_trainer_step(trainer, &batch, NULL, &err)) return 2;
    trf_trainer_destroy(trainer);
    if (trf_model_copy(&copy, model, &err) || trf_translator_create(&translator, copy, &search, &err)) return 3;
    if (trf_translate(translator, &batch.source, NULL, &err)) return 4;
    if (trf_sampler_create(&generator, copy, &sampling, &err) || trf_sampler_begin(generator, &begin, &err)) return 5;
    if (trf_sampler_step(generator, 3, &n, &err)) return 6;
    trf_sampler_destroy(generator); trf_translator_destroy(translator);
    trf_model_destroy(copy); trf_model_destroy(model);
    return 0;
}
END

# --- jobs --------------------------------------------------------------------------------------------------
# job NAME SHELL_CODE: passes if the code exits with 0. `no` turns a command's result round.
jobs=0
job()
{
    jobs=$((jobs + 1))
    printf '%s\n' "$1" >job$jobs.name
    printf 'no() { if "$@"; then return 1; else return 0; fi; }\n%s\n' "$2" >job$jobs.sh
}

# clean COMPILER_AND_LANGUAGE OPTIONS FILE: no warning
clean()
{
    job "${3##*/} compiles without a warning: $1 $2" "$1 $warnings -I'$root' $cblas $2 $4 '$3' -o /dev/null"
}

# each C++ compiler is a word list ended by a semicolon: "g++ -x c++ ; clang++ -x c++ ;"
for_cxx()
{
    rest=$cxx_compilers
    while [ -n "$rest" ]; do
        compiler=${rest%%;*}
        compiler=$(echo $compiler)
        rest=${rest#*;}
        "$@"
    done
}

# --- standards and options -----------------------------------------------------------------------------------
# The long ones first: optimisers see what the front end does not (tests/columns.sh has clang and g++ at -O2, and cc at
# -O3 where there is AVX2).
can_avx2= ; [ -r /proc/cpuinfo ] && grep -q -w avx2 /proc/cpuinfo && can_avx2=1
if [ -z "$can_avx2" ]; then
    job "gcc -O2 prints the reasons of a recipe without a warning" \
        "! command -v gcc >/dev/null || gcc -std=gnu99 $warnings -O2 -I'$root' $cblas -c reasons.c -o reasons.o"
    job "gcc -O3 compiles the header without a warning" \
        "! command -v gcc >/dev/null || gcc -std=gnu99 $warnings -O3 -march=native -I'$root' $cblas -c all.c -o o3.o"
fi
if command -v clang >/dev/null; then
    msvc="clang -std=c11 -fms-compatibility -fms-extensions -fgnuc-version=0 -U__clang__ -DTRF_NO_CBLAS"
    msvc="$msvc -I'$root' -Wall -Wextra -Wno-unused-parameter"
    job "the public half uses no extension of GNU, by the rules of MSVC as far as clang knows them" \
        "echo '#include \"transformer.h\"' >public.c && $msvc -Wpedantic -Werror -fsyntax-only public.c"
    job "nor does the implementation" \
        "$msvc -Werror -Wno-literal-range -Wno-unused-function -DTRF_NO_SLOW_WARNING -c all.c -o msvc.o"
else echo "left out: MSVC's rules, by clang"; fi
[ -n "$whole" ] || job "make release: the declarations have at most 4,000 lines" \
    "sh '$root/tools/header/release.sh' release && [ \$(wc -l <release/transformer.h) -le 4000 ]"
[ -z "$whole" ] || job "make release: two files of the same code, and a message for who defines TRF_IMPLEMENTATION" "
    sh '$root/tools/header/release.sh' release && [ \$(wc -l <release/transformer.h) -le 4000 ] &&
    printf '#define TRF_IMPLEMENTATION\\n#include \"transformer.h\"\\n' >whole.c &&
    cc $cblas -O0 -DTRF_NO_SLOW_WARNING -I'$root' -c whole.c -o whole.o &&
    cc $cblas -O0 -DTRF_NO_SLOW_WARNING -c release/transformer.c -o two.o &&
    objdump -d whole.o | sed 1,3d >whole.text && objdump -d two.o | sed 1,3d | cmp - whole.text &&
    no cc -DTRF_IMPLEMENTATION -fsyntax-only release/transformer.h 2>message && grep -q 'compile transformer.c' message"
[ -n "$whole" ] && command -v nvcc >/dev/null &&
    job "nvcc compiles the header in one file without a warning" \
        "nvcc -x cu -arch=sm_80 -DTRF_CUDA -Xptxas -O0 \
        -Xcompiler -Wall,-Wextra,-Wconversion,-Wshadow -I'$root' $cblas -c all.c -o cu.o >nvcc.txt 2>&1
        cat nvcc.txt; [ -s cu.o ] && no grep -q -i warning nvcc.txt"
# The column for two generations of GPUs: no warning, no register spilled. Elsewhere the first page's build line has it.
code='-gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=sm_80'
printf '#define TRF_COLUMN cuda\n#include "transformer.h"\n' >cuda.c
[ -n "$whole" ] && command -v nvcc >/dev/null &&
    job "nvcc compiles the column: no warning, no register spilled: $code" \
        "nvcc -O2 $code -x cu \
        -Xptxas -v -Xcompiler -Wall,-Wextra,-Wconversion,-Wshadow -I'$root' -c cuda.c -o column_cu.o >column_cu.txt 2>&1
        grep -v -e '0 bytes spill stores, 0 bytes spill loads' -e 'ptxas info' column_cu.txt
        [ -s column_cu.o ] && no grep -q -i warning column_cu.txt &&
        grep -q 'for .sm_80.' column_cu.txt && grep -q 'for .sm_90.' column_cu.txt &&
        grep -q 'bytes spill' column_cu.txt &&
        [ \$(grep 'bytes spill' column_cu.txt | grep -c -v '0 bytes spill stores, 0 bytes spill loads') -eq 0 ]"

# gcc does not look at sums of a pointer that is NULL; and here a library for sanitizers may be missing.
echo 'int main(void) { return 0; }' >nothing.c
if clang -fsanitize=undefined nothing.c -o nothing 2>/dev/null; then
    job "clang -fsanitize=undefined finds nothing in training, translating and sampling" \
        "clang -O0 -DTRF_STATIC -fsanitize=undefined -fno-sanitize-recover=undefined -I'$root' \
        -DTRF_NO_CBLAS little.c -lm -o little && ./little"
else echo "left out: clang -fsanitize=undefined"
fi
nccl=$(for d in /usr/include /usr/local/include /usr/local/cuda/include; do [ ! -f $d/nccl.h ] || echo $d; done |
    head -n 1)
[ -z "$nccl" ] || job "examples/ranks.c compiles with NCCL" \
    "$gcc_like $warnings -isystem $nccl -DRANKS_NCCL -DTRF_WITH_CUDA -DTRF__IMPLEMENTED -I'$root' -fsyntax-only \
    '$root/examples/ranks.c'"

# Of each language the last compiler, the quickest, sees option by option, the others several at a time. The header does
# not ask which C it is in; C11 and C17 differ in nothing but that.
quick=${c_compilers##* } quick_cxx=${cxx_compilers% ;}
quick_cxx=${quick_cxx##*; }
quick_cxx=${quick_cxx# }
options='-DTRF_NO_CBLAS -DTRF_DOUBLE -DTRF_NO_TRAIN -DTRF_STATIC -DTRF_SCALAR -DTRF_NO_THREADS -fshort-enums'
several='-DTRF_DOUBLE -DTRF_SCALAR -DTRF_NO_CBLAS -DTRF_NO_TRAIN -DTRF_STATIC'
platform='-DNDEBUG -funsigned-char -D_FILE_OFFSET_BITS=64'
# standards STANDARDS: the first with every option
standards()
{
    first=${1%% *}
    if [ -z "$whole" ] && [ "$compiler" != "$quick" ]; then
        for file in all public column; do clean "$compiler" "-std=$first" $file.c -fsyntax-only; done
        clean "$compiler" "-std=$first -O2 -DTRF_DOUBLE" all.c -fsyntax-only
        return
    fi
    for standard in $1; do
        for file in all public column; do clean "$compiler" "-std=$standard" $file.c -fsyntax-only; done
    done
    clean "$compiler" "-std=$first $several" all.c -fsyntax-only
    # the levels of one compile: the optimiser is on, but not called
    for option in -DTRF_NO_CBLAS -DTRF_DOUBLE '-DTRF_NO_TRAIN -march=x86-64-v3'; do
        clean "$compiler" "-std=$first -O2 $option" all.c -fsyntax-only
    done
    if [ "$compiler" != "$quick" ] && [ "$compiler" != "$quick_cxx" ]; then
        clean "$compiler" "-std=$first -DTRF_NO_THREADS -DTRF_STATIC -fshort-enums $platform" all.c -fsyntax-only
        clean "$compiler" "-std=$first -DTRF_NO_TRAIN -DTRF_NO_CBLAS ${vectors##* }" all.c -fsyntax-only
        clean "$compiler" "-std=$first -DTRF_DOUBLE ${vectors%% *}" all.c -fsyntax-only
        clean "$compiler" "-std=$first -DTRF_SCALAR" all.c -fsyntax-only
        clean "$compiler" "-std=$first -DTRF_NO_TRAIN -DTRF_DOUBLE" column.c -fsyntax-only
        clean "$compiler" "-std=$first -DTRF_SCALAR" column.c -fsyntax-only
        return
    fi
    for option in $options $vectors; do
        clean "$compiler" "-std=$first $option" all.c -fsyntax-only
        case $option in *DOUBLE|*SCALAR|*TRAIN) clean "$compiler" "-std=$first $option" column.c -fsyntax-only ;; esac
    done
    clean "$compiler" "-std=$first $platform" all.c -fsyntax-only
    [ -n "$cblas" ] || clean "$compiler" "-std=$first '-DTRF_CBLAS_HEADER=<cblas.h>'" all.c -fsyntax-only
}
case $(uname -m) in x86_64|amd64) vectors='-mavx2 -mavx512f' ;; *) vectors= ;; esac
for compiler in $c_compilers; do standards 'c99 gnu99 c17'; done
for_cxx standards 'c++11 c++20'

# --- examples and tools ----------------------------------------------------------------------------------------
mpi=$(pkg-config --cflags-only-I mpi-c 2>/dev/null | sed 's/-I/-isystem /g')
[ -n "$mpi" ] || echo "left out: MPI"
# One compiler sees each whole, as its build line has it; all see it beside the header's public half.
for file in "$root"/examples/*.c "$root"/examples/cmake/app.c; do
    more=
    case $file in */mpi.c) [ -n "$mpi" ] || continue; more=$mpi ;; esac
    clean "$quick" "-std=c99 $more" "$file" -fsyntax-only
    [ -n "$whole" ] || continue
    for compiler in $c_compilers; do clean "$compiler" "-std=c99 -DTRF__IMPLEMENTED $more" "$file" -fsyntax-only; done
    example_in_cxx() { clean "$compiler" "-std=c++11 -DTRF__IMPLEMENTED $more" "$file" -fsyntax-only; }
    for_cxx example_in_cxx
done
pipeline_mpi() { clean "$1" "$2 -DPIPELINE_MPI -DTRF__IMPLEMENTED $mpi" "$root/examples/pipeline.c" -fsyntax-only; }
pipeline_mpi_in_cxx() { pipeline_mpi "$compiler" -std=c++11; }
if [ -n "$mpi" ]; then
    for compiler in $c_compilers; do pipeline_mpi "$compiler" -std=c99; done
    for_cxx pipeline_mpi_in_cxx
fi
for file in "$root"/examples/studies/*.c; do
    [ -n "$whole" ] || break
    for compiler in $c_compilers; do clean "$compiler" '-std=c99 -DSTUDY_LINKED' "$file" -fsyntax-only; done
done
clean "$gcc_like" -std=c99 "$root/examples/studies/schedules.c" -fsyntax-only
rooms="-I'$root/tools/trf'"
for file in "$root"/tools/*/*.c "$root"/tools/trf/*/*.c; do
    case $file in */publish/import* | */publish/export*) continue ;; esac     # these need cJSON
    clean "$gcc_like" "-std=gnu99 $rooms" "$file" -fsyntax-only
done
[ -z "$mpi" ] || clean "$gcc_like" "-std=gnu99 $rooms -DTRF_WITH_MPI $mpi" "$root/tools/trf/train/mpi.c" -fsyntax-only
if [ -e /usr/include/sentencepiece_trainer.h ]; then
    subwords_in_cxx() { clean "$compiler" -std=c++17 "$root/tools/trf/train/spm.cc" -fsyntax-only; }
    for_cxx subwords_in_cxx
    clean "$gcc_like" "-std=gnu99 $rooms -DTRF_WITH_SENTENCEPIECE" "$root/tools/trf/train/subwords.c" -fsyntax-only
else echo "left out: libsentencepiece"
fi
if [ -e /usr/include/cjson/cJSON.h ]; then
    for file in "$root"/tools/trf/publish/*.c; do
        clean "$gcc_like" "-std=gnu99 $rooms -DTRF_WITH_CJSON" "$file" -fsyntax-only
    done
    if [ -e /usr/include/zip.h ]; then
        clean "$gcc_like" "-std=gnu99 $rooms -DTRF_WITH_CJSON -DTRF_WITH_LIBZIP" \
            "$root/tools/trf/publish/import_pytorch.c" -fsyntax-only
    else echo "left out: libzip"
    fi
else echo "left out: cJSON"
fi
if [ -e /usr/include/zlib.h ]; then
    clean "$gcc_like" "-std=gnu99 $rooms -DTRF_WITH_ZLIB" "$root/tools/trf/base/packed.c" -fsyntax-only
else echo "left out: zlib"
fi
echo '#include <cmocka.h>' >has_cmocka.c
if $gcc_like -fsyntax-only -include stdarg.h -include stddef.h -include stdint.h \
    -include setjmp.h has_cmocka.c 2>/dev/null; then
    for suite in programs ${whole:+decoding}; do
        clean "$gcc_like" "-std=c99 -I'$root/tests'" "$root/tests/test_$suite.c" -fsyntax-only
        suite_in_cxx()
        {
            clean "$compiler" "-std=c++11 -I'$root/tests'" "$root/tests/test_$suite.c" -fsyntax-only
        }
        for_cxx suite_in_cxx
    done
fi

# --- names that a program or its systems have made macros of --------------------------------------------------------
{ printf '#include <stdio.h>\n#include <stdlib.h>\n#include <tgmath.h>\nvoid found(void *p);\n'
  printf '#define %s\n' far near small min max 'X(a) (a)' 'CASE(a) (a)' 'free(p) found(p)'
  printf '#define TRF_IMPLEMENTATION\n#include "transformer.h"\nint main(void) { return X(0); }\n'; } >macros.c
clean "$gcc_like" "-std=c99 -DTRF_NO_CBLAS" "$PWD/macros.c" -fsyntax-only

# --- linking -----------------------------------------------------------------------------------------------------
# Without CBLAS: only libm. The quickest compiler makes what does not depend on the compiler. With -fno-pie, constant
# tables of pointers are constant in the object file too. These objects are compiled before all jobs; "what the object
# file shows", further down, looks at their symbols.
alone="-O0 $quiet -fno-pie -DTRF_NO_CBLAS -I'$root'"
objects=
object()
{
    objects="$objects
$2 -c $3 -o $1.o"
}
id_of() { echo "$1" | tr -dc 'a-z'; }
object c "$gcc_like $warnings -std=c99 $alone" all.c
object double "$quick $alone -DTRF_DOUBLE" all.c
object no_train "$quick $alone -DTRF_NO_TRAIN" all.c
object static "$quick $alone -DTRF_STATIC" all.c
object column "$quick $alone" column.c
object caller "$gcc_like $warnings -std=c99 $alone" caller.c
object caller_double "$gcc_like $alone -DTRF_DOUBLE" caller.c
object_cxx()
{
    object "$(id_of "$compiler")" "$compiler $alone" all.c
    object "caller_$(id_of "$compiler")" "$compiler $alone" caller.c
}
for_cxx object_cxx

# links LINKER PROGRAM OBJECT...: and the program runs
links() { echo "$1 -no-pie $3.o $4.o -lm -o $2 && ./$2"; }
job "a program of two files links and runs: C" "$(links "$gcc_like" two_c caller c)"
link_cxx()
{
    id=$(id_of "$compiler")
    job "a program of two files links and runs: C++ ($compiler)" \
        "$(links "${compiler%% *}" "two_$id" "caller_$id" "$id")"
    job "a program in C++ links with the implementation in C and runs ($compiler)" \
        "$(links "${compiler%% *}" "mix_$id" "caller_$id" c)"
}
for_cxx link_cxx
job "a program with TRF_DOUBLE does not link with an implementation without" "[ -s c.o ] &&
    no $gcc_like -no-pie caller_double.o c.o -lm -o mixed1 2>mixed1.txt && grep -q trf_model_create_double mixed1.txt"
job "a program without TRF_DOUBLE does not link with an implementation with it" "[ -s double.o ] &&
    no $gcc_like -no-pie caller.o double.o -lm -o mixed2 2>mixed2.txt && grep -q trf_model_create mixed2.txt"
job "a program links and runs with TRF_STATIC implementations in two files" \
    "sed 's/^#include \"trans/#define TRF_STATIC\n#define TRF_IMPLEMENTATION\n&/' \
    caller.c >static1.c &&
    $quick $warnings $alone static1.c static.o -no-pie -lm -o static && ./static"

job "an implementation with TRF_NO_TRAIN translates as the whole one does" \
    "mkdir -p frozen_all frozen_run && $gcc_like $alone -c frozen.c -o frozen.o &&
    $gcc_like frozen.o c.o -no-pie -lm -o frozen_all/program &&
    $gcc_like frozen.o no_train.o -no-pie -lm -o frozen_run/program &&
    (cd frozen_all && ./program >answer) && (cd frozen_run && ./program >answer) &&
    [ -s frozen_all/answer ] && cmp frozen_all/answer frozen_run/answer"

# --- plug-ins --------------------------------------------------------------------------------------------------------
# Loaded, computing on two threads, and unloaded again and again: no thread outlives the code that it ran. The model is
# small, as nothing is optimised.
cat >plugin.c <<'END'
#define TRF_IMPLEMENTATION
#include "transformer.h"
__attribute__((visibility("default"))) double plugin(int threads)
{
    int32_t ids[200], lengths[20], i;
    trf_batch batch = {{ids, lengths, 20}, {ids, lengths, 20}, 0, {0, 0, 0}};
    trf_error err;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();
    config.source_vocab = config.target_vocab = 24;
    config.d_model = config.d_ff = 16;
    config.n_heads = config.encoder_layers = config.decoder_layers = 1;
    training.threads = threads;
    for (i = 0; i < 200; i++) { ids[i] = 4 + i * i % 20; lengths[i / 10] = 10; }
    if (trf_model_create(&model, &config, NULL, &err) ||
        trf_trainer_create(&trainer, model, &training, &err)) return -1;
    for (i = 0; i < 3; i++) if (trf_trainer_step(trainer, &batch, &report, &err)) return -2;
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return report.loss;
}
END
cat >host.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    double first = 0;
    int i;
    for (i = 0; i < 20; i++) {
        void *file = dlopen(argv[1 + i % (argc - 1)], RTLD_NOW | (i & 2 ? RTLD_GLOBAL : RTLD_LOCAL));
        double (*plugin)(int);
        double loss;
        if (!file) return puts(dlerror()), 1;
        *(void **)&plugin = dlsym(file, "plugin");
        loss = plugin(i < 16 ? 2 : 1);
        if (i == 0) first = loss;
        if (dlclose(file) || !(loss > 0) || loss != first) return printf("round %d: %.17g, %.17g\n", i, loss, first), 2;
    }
    return 0;
}
END
job "a plug-in that computes on threads is loaded and unloaded again and again" \
    "$quick -O0 $quiet -DTRF_STATIC -fPIC -shared \
    -fvisibility=hidden -DTRF_NO_CBLAS -I'$root' plugin.c -o plugin1.so -lm &&
    cp plugin1.so plugin2.so && $gcc_like host.c -o plugin_host -ldl && ./plugin_host ./plugin1.so ./plugin2.so"
# Strict C hides what threads need; nothing of it may be missing, whatever the program asks for: else a call is
# undeclared.
job "threads compile without a warning, link and run in strict C99" \
    "$quick -std=c99 $warnings -O0 -DTRF_STATIC -I'$root' -DTRF_NO_CBLAS little.c -lm -o little_c99 &&
    ./little_c99"
for posix in -D_POSIX_SOURCE -D_POSIX_C_SOURCE=199309L -D_POSIX_C_SOURCE=200112L -D_GNU_SOURCE; do
    clean "$quick" "-std=c99 -DTRF_NO_CBLAS $posix" little.c -fsyntax-only
done
job "TRF_NO_THREADS leaves no call of pthreads" \
    "$quick -O0 -I'$root' -DTRF_NO_CBLAS -DTRF_NO_THREADS -c all.c -o one.o &&
    no sh -c 'nm one.o | grep -q pthread'"

# --- systems ---------------------------------------------------------------------------------------------------------
# The header's own POSIX functions, as if somebody had written them for another system.
{ printf '#include <fcntl.h>\n#include <sys/stat.h>\n#include <sys/types.h>\n#include <unistd.h>\n'
  sed -n "/^#define TRF_OS_SLASH '.'/,/ trf_os_pid/p" "$root/transformer.h"; } >os.h
job "a program with file functions of its own, by TRF_OS_HEADER, saves, loads and translates" \
    "mkdir -p own && $quick $warnings $alone -I. -DTRF_IMPLEMENTATION '-DTRF_OS_HEADER=\"os.h\"' \
    frozen.c -no-pie -lm -o own/program &&
    cd own && ./program >answer && [ -s answer ] && [ -s frozen ]"
# From the objects that are there, but for the two that ask for the library.
built=$(cd .. && pwd)
bare="cp -Rp '$built/objects' '$built/transformer.o' '$built/flags' '$built/flags.mpi' bare;\
    rm -f bare/objects/trf/main.c.o bare/objects/trf/train/subwords.c.o"
[ -z "$whole" ] || bare=:
job "trf is built without libsentencepiece, and refuses --tokens sentencepiece" \
    "mkdir -p bare; $bare; touch bare/flags; make -s -C '$root' BUILD=\"\$PWD/bare\" -o \"\$PWD/bare/flags\" \
    SENTENCEPIECE= CFLAGS=-O0 \"\$PWD/bare/trf\" &&
    printf 'ab cd\\tef gh\\n%.0s' 1 2 3 4 >bare/pairs.tsv &&
    no bare/trf train --tsv bare/pairs.tsv --tokens sentencepiece --updates 1 --model bare/m 2>bare/err &&
    grep -q 'built without libsentencepiece' bare/err"
# Where the names have blanks, and whatever this run was given.
given="BUILD='$built' PREFIX='/usr/my local' CFLAGS='-O2' -o '$built/trf' -o '$built/flags'"
there="root/usr/my local"
[ ! -x "$built/trf" ] || job "make install puts all down, pkg-config finds it, make uninstall takes all away" \
    "make -s -C '$root' $given DESTDIR=\"\$PWD/root\" install &&
    [ -x '$there/bin/trf' ] && cmp '$there/include/transformer.h' '$root/transformer.h' &&
    grep -q '^.TH TRF 1' '$there/share/man/man1/trf.1' && [ -s '$there/share/bash-completion/completions/trf' ] &&
    [ -s '$there/share/zsh/site-functions/_trf' ] && { ! command -v pkg-config >/dev/null ||
    PKG_CONFIG_PATH='$there/lib/pkgconfig' pkg-config --libs transformer | grep -q -e -lm; } &&
    make -s -C '$root' $given DESTDIR=\"\$PWD/root\" uninstall && [ -z \"\$(find root -type f)\" ]"

# CMake, as examples/cmake has it: what `make install` has put down and somebody has moved, a repository that is cloned,
# a checkout that is here. Each program translates with a model.
version=$(sed -n 's/^#define TRF_VERSION "\(.*\)"/\1/p' "$root/transformer.h")
if command -v cmake >/dev/null; then
    app() { echo "cmake --build $1 >$1.log 2>&1 &&
        [ \"\$($1/app '$root/tests/golden/old/words' '2 0 1')\" = 'one zero two' ]"; }
    debug="-DCMAKE_C_COMPILER=$quick -DCMAKE_BUILD_TYPE=Debug"
    [ ! -x "$built/trf" ] ||
        job "CMake finds what make install has put down, even moved, and only a version that fits" \
        "make -s -C '$root' $given DESTDIR=\"\$PWD/packed\" install &&
        mv packed 'un packed' &&
        cmake -S '$root/examples/cmake/installed' -B found $debug \
            \"-DCMAKE_PREFIX_PATH=\$PWD/un packed/usr/my local\" >found.log 2>&1 &&
            $(app found) &&
        mkdir later && echo 'cmake_minimum_required(VERSION 3.13)
            project(later LANGUAGES CXX)
            find_package(transformer 0.0.1)
            find_package(transformer 99)
            find_package(transformer $version EXACT REQUIRED)
            find_package(transformer REQUIRED)
            execute_process(COMMAND \${transformer_prefix}/bin/trf --version RESULT_VARIABLE failed)
            get_target_property(trf transformer::trf IMPORTED_LOCATION)
            if(failed OR NOT EXISTS \${trf})
              message(FATAL_ERROR \"no trf\")
            endif()' >later/CMakeLists.txt &&
        cmake -S later -B later/build \"-DCMAKE_PREFIX_PATH=\$PWD/un packed/usr/my local\" >later.log 2>&1 &&
        [ \$(grep -c 'version: $version' later.log) -eq 2 ] &&
        mv 'un packed' packed &&
        make -s -C '$root' $given DESTDIR=\"\$PWD/packed\" uninstall &&
        [ -z \"\$(find packed -name '*ransformer*')\" ]"
    job "CMake builds a program with a checkout that is here" \
        "cmake -S '$root/examples/cmake/fetched' -B checkout $debug \
        '-DFETCHCONTENT_SOURCE_DIR_TRANSFORMER=$root' >checkout.log 2>&1 &&
        $(app checkout)"
    if command -v git >/dev/null; then
        job "CMake builds a program with a repository that it clones" \
            "mkdir repository && (cd repository && mkdir tools &&
            cp -r '$root/tools/cmake' tools && cp '$root/transformer.h' . &&
            git init -q . && git checkout -q -b main && git add . &&
            git -c user.name=a -c user.email=b commit -q -m all) &&
            mkdir clone &&
            sed \"s|https://YOUR.HOST/transformer.h.git|file://\$PWD/repository|\" \
            '$root/examples/cmake/fetched/CMakeLists.txt' >clone/CMakeLists.txt &&
            cp '$root/examples/cmake/app.c' . && cmake -S clone -B fetched $debug >fetched.log 2>&1 && $(app fetched)"
    else echo "left out: CMake's FetchContent by git"
    fi
    # vcpkg itself runs the port by such lines, and then a program's find_package.
    job "CMake builds a program with what the vcpkg port installs; the port has the header's version" \
        "grep -q '\"version\": \"$version\"' '$root/tools/cmake/vcpkg/vcpkg.json' && mkdir port &&
        printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'set(PORT transformer-h)' \
            \"set(CURRENT_PACKAGES_DIR \$PWD/port/packages)\" \
            'include($root/tools/cmake/vcpkg/portfile.cmake)' >port/run.cmake && cmake -P port/run.cmake >port.log \
            2>&1 &&
        printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(app LANGUAGES C)' \
            'find_package(transformer REQUIRED)' 'add_executable(app $root/examples/cmake/app.c)' \
            'target_link_libraries(app PRIVATE transformer::transformer)' >port/CMakeLists.txt &&
        cmake -S port -B ported $debug \"-Dtransformer_DIR=\$PWD/port/packages/share/transformer-h\" >>port.log 2>&1 &&
        $(app ported)"
    if command -v conan >/dev/null; then
        job "conan makes a package, and a program with it" \
            "mkdir conan && mkdir conan/tools conan/examples && cp -r '$root/tools/cmake' conan/tools &&
            cp -r '$root/examples/cmake' conan/examples && cp '$root/transformer.h' '$root/LICENSE' conan &&
            export CONAN_HOME=\$PWD/conan/home && conan profile detect >conan.log 2>&1 &&
            conan create conan/tools/cmake/conan >>conan.log 2>&1"
    else echo "left out: conan"
    fi
else echo "left out: cmake"
fi
windows=x86_64-w64-mingw32-gcc
command -v $windows >/dev/null || { echo "left out: $windows"; windows=; }
[ -z "$windows" ] || job "a compiler for Windows takes the header without a warning" \
    "$windows $warnings -std=c99 -DTRF_SCALAR -I'$root' -fsyntax-only all.c"

# --- the build lines of the first page, in a folder that has nothing else ---------------------------------------------
# Word for word but for -O2, which the examples and tests/columns.sh are built with.
mkdir -p page
cp "$root/transformer.h" page
{ echo '#define TRF_IMPLEMENTATION'; cat caller.c; } >page/app.c
cp page/app.c page/app.cc
printf '#define TRF_COLUMN avx2\n#include "transformer.h"\n' >page/column.c
sed -n '/^\/\/ DO THIS/,/^\/\/ A COMPLETE/s/.*  \(c[c+]* -O2 .*\)$/\1/p' "$root/transformer.h" >page/lines
job "the header's first page has four build lines" "[ \$(wc -l <page/lines) -eq 4 ]"
page_line()
{
    case $1 in *openblas*) [ -z "$cblas" ] || { echo "left out: a build line with OpenBLAS"; return; } ;; esac
    job "a build line of the header's first page makes a program that runs: $1" \
        "cd page && rm -rf $2 && mkdir $2 && cp transformer.h app.c app.cc column.c $2 && cd $2 &&
        { $(echo "$1" | sed 's/ -O2 / -O0 /g'); } && ./a.out"
}
n=0
grep -v -e CUDA <page/lines >page/plain
while read -r line; do n=$((n + 1)); page_line "$line" "in$n"; done <page/plain
# With the CUDA backend; where no GPU can be used it says so, and the CPU goes on.
cat >page/gpu.c <<'END'
#define TRF_IMPLEMENTATION
#include "transformer.h"
int main(void)
{
    trf_error err;
    trf_model *model = NULL;
    trf_config config = trf_config_preset(TRF_TINY);
    config.source_vocab = config.target_vocab = 9;
    config.device.threads = 1;
    config.device.kind = TRF_DEVICE_CUDA;
    if (trf_model_create(&model, &config, NULL, &err) != TRF_OK &&
        (err.status != TRF_E_BACKEND || !strstr(err.message, "CUDA")))
        return 1;
    puts(model ? "a GPU computes" : err.message);
    trf_model_destroy(model);
    config.device.kind = TRF_DEVICE_CPU;
    if (trf_model_create(&model, &config, NULL, &err)) return 2;
    trf_model_destroy(model);
    return 0;
}
END
if command -v nvcc >/dev/null; then
    cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")/lib64
    lines="$(sed -n 's/.*  \(nvcc -O2 .*\)$/\1/p' "$root/transformer.h" | head -n 1) && $(grep CUDA page/lines)"
    [ -n "$cblas" ] || job "the build lines with CUDA of the header's first page make a program that runs" \
        "cd page && rm -rf gpu && mkdir gpu && cp transformer.h ../cuda.c gpu && cp gpu.c gpu/app.c && cd gpu &&
        { $(echo "$lines" | sed "s|\&\& cc -O2|\&\& cc -L$cuda -O0|;s|nvcc -O2|nvcc -O1 -Xcicc -O1 -Xptxas -O0|"); } &&
        LD_LIBRARY_PATH=$cuda ./a.out"
fi
[ -z "$can_avx2" ] || job "a column of another version does not link with the implementation" \
    "mkdir stale &&
    sed 's/^#define TRF__COLUMN_VERSION .*/#define TRF__COLUMN_VERSION 0/' '$root/transformer.h' >stale/transformer.h &&
    cp page/column.c stale && $quick -O0 -DTRF_NO_CBLAS -c stale/column.c -o stale/column.o &&
    $quick $alone -DTRF_WITH_AVX2 -c all.c -o stale/all.o &&
    no $gcc_like -no-pie caller.o stale/all.o stale/column.o -lm -o stale/program 2>stale/said &&
    grep -q 'trf_column_v[1-9][0-9]*_avx2' stale/said"

[ -z "$can_avx2" ] || job "a header of another name says what its levels need, and has them with that" \
    "mkdir -p renamed/lib && cp '$root/transformer.h' renamed/lib/trf.h &&
    printf '#define TRF_IMPLEMENTATION\n#include \"lib/trf.h\"\n#if !TRF__LEVELS\n#error one level\n#endif\n' \
        >renamed/app.c && cd renamed &&
    no $gcc_like -O2 -Wfatal-errors -DTRF_NO_CBLAS -fsyntax-only app.c 2>said && grep -q 'define TRF_THIS_FILE' said &&
    $gcc_like -O2 -Werror -DTRF_NO_CBLAS '-DTRF_THIS_FILE=\"trf.h\"' -fsyntax-only app.c"

# --- what the object file shows ------------------------------------------------------------------------------------
# Nothing that prints, ends the program or changes what is the program's.
called='__errno_location|chmod|close|cos|dup|erf|exp|fcntl|flock|free|fstat|fsync|getpid|ldexp|log|lseek|madvise'
called="$called|malloc|mem[a-z]*|mmap|munmap|open|pow"
called="$called|pread|read|rename|rint|sin|snprintf|sqrt|stat|strchr|strcmp|strcspn|strerror|strlen|strncmp"
called="$called|strrchr|strspn|strstr|strtod|unlink|vsnprintf|write|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|trf_.*"
called="$called|bsearch|difftime|frexp|time|timespec_get|__fstat|__(v?snprintf|mem[a-z]*)_chk"
called="$called|fegetenv|fesetenv|pthread_[a-z_]*|sched_getaffinity|sigfillset|sysconf"
# what __builtin_cpu_supports reads, and what g++ -O0 names where it inlines functions of other processors
called="$called|__cpu_model|__cpu_features2|__gxx_personality_v0"
seen()
{
    job "the object file exports and calls what it should and has no writable data: $1" \
        "[ -s $2.o ] && nm $2.o >$2.txt &&
        no awk '\$2 ~ /^[A-Z]\$/ && \$2 != \"U\" && \$3 !~ /^$3/ { print \"exported: \" \$3; bad = 1 }
            END { exit !bad }' $2.txt &&
        no awk '\$2 ~ /^[bBdDsSgGcC]\$/ { print \"writable: \" \$3; bad = 1 } END { exit !bad }' $2.txt &&
        no awk '\$1 == \"U\" && \$2 !~ /^($called)\$/ { print \"calls: \" \$2; bad = 1 } END { exit !bad }' $2.txt"
}
seen "C" c trf_
seen "C, double" double trf_
seen "C, no training" no_train trf_
seen "C, a column" column 'trf_column_v[0-9]+_wide'
seen "C, static" static 'nothing'
seen_cxx() { seen "$compiler" "$(id_of "$compiler")" trf_; }
for_cxx seen_cxx

# --- what must be refused ------------------------------------------------------------------------------------------
for compiler in $c_compilers; do
    for flag in -Ofast -ffast-math -ffinite-math-only; do
        job "the header refuses $compiler $flag" \
            "no $compiler $flag -Wfatal-errors -I'$root' -DTRF_NO_CBLAS -fsyntax-only all.c \
            2>fast_$compiler$flag.txt &&
            grep -q 'without -ffast-math' fast_$compiler$flag.txt"
        job "a column refuses $compiler $flag" \
            "no $compiler $flag -Wfatal-errors -I'$root' -fsyntax-only column.c 2>/dev/null"
    done
done
job "a column and the implementation in one file are refused" \
    "no $gcc_like -Wfatal-errors -I'$root' -fsyntax-only both.c 2>both.txt && grep -q 'exclude each other' both.txt"

# Floats in a wider type are refused, whatever computes them; a wider _Float16 is none of it.
x86_32=$(for c in i686-linux-gnu-gcc "$gcc_like -m32"; do ! $c -fsyntax-only public.c -I"$root" 2>/dev/null ||
    echo "$c"; done | head -n 1)
if [ -n "$x86_32" ]; then
    sse='-msse2 -mfpmath=sse'
    for standard in c99 gnu17; do
        job "header and column refuse the x87 of 32-bit x86: $standard" \
            "no $x86_32 -std=$standard -Wfatal-errors -DTRF_NO_CBLAS -DTRF_SCALAR -I'$root' -fsyntax-only all.c \
            2>x87_$standard.txt && grep -q -e '-msse2 -mfpmath=sse' x87_$standard.txt &&
            no $x86_32 -std=$standard -Wfatal-errors -I'$root' -fsyntax-only column.c 2>/dev/null"
    done
    # tests/columns.sh has both standards with -O2 of i686-linux-gnu-gcc
    for option in '-std=gnu17 -DTRF_DOUBLE' ${whole:+'-std=c99 -DTRF_SCALAR' '-std=c99 -DTRF_NO_TRAIN'}; do
        clean "$x86_32" "$option $sse -DTRF_NO_CBLAS" all.c -fsyntax-only
    done
    [ "$x86_32" = i686-linux-gnu-gcc ] ||
        job "32-bit x86 with SSE2 compiles the header at -O2 without a warning" \
            "$x86_32 $warnings -O2 $sse -DTRF_NO_CBLAS -I'$root' -c all.c -o x86_32.o"
else echo "left out: 32-bit x86"
fi
for method in -1 1 2; do
    job "the header refuses FLT_EVAL_METHOD $method" \
        "no $gcc_like -Wfatal-errors -U__FLT_EVAL_METHOD__ -D__FLT_EVAL_METHOD__=$method -I'$root' \
        -fsyntax-only all.c 2>method$method.txt &&
        grep -q 'floats have excess precision' method$method.txt"
done
job "the header takes FLT_EVAL_METHOD 16" \
    "$gcc_like -U__FLT_EVAL_METHOD__ -D__FLT_EVAL_METHOD__=16 $quiet -DTRF_NO_CBLAS \
    -I'$root' -fsyntax-only all.c"

# --- names of 0.3 ---------------------------------------------------------------------------------------------------
cat >before.c <<'END'
#include "transformer.h"
#include <stdio.h>
#include <string.h>
trf_status all(trf_model *m, trf_trainer *t, trf_translator *r, trf_vocab **v, trf_dataset *d, trf_sequences *s,
               trf_tensor *x, trf_corpus *k, double *p, const char *path, trf_error *e);
trf_status all(trf_model *m, trf_trainer *t, trf_translator *r, trf_vocab **v, trf_dataset *d, trf_sequences *s,
               trf_tensor *x, trf_corpus *k, double *p, const char *path, trf_error *e)
{
    trf_data_lines lines = trf_dataset_lines(d);
    trf_batch b;
    trf_step_report g;
    trf_config c = trf_config_tiny();
    int32_t n;
    trf_config_set_conventions(&c, TRF_CONVENTIONS_PAPER);
    *x = trf_trainer_gradient(t, 0);
    trf_dataset_recipe(d)->teachers = 0;
    if (trf_vocab_encode(v[0], path, NULL, 0, &n, e) || trf_dataset_read_held_out(d, path, NULL, e)) return 7;
    if (trf_config_check(&c, e)) return 8;
    if (trf_model_create(&m, &c, e) || !trf_model_source_vocab(m) || !trf_model_target_vocab(m)) return 5;
    trf_corpus_rewind(k);
    if (trf_corpus_size(k) || trf_corpus_epoch(k)) return 6;
    memset(&b, 0, sizeof b);
    if (trf_train_step(t, &b, &g, e) || trf_forward_backward(t, &b, NULL, e) || trf_optimizer_step(t, &g, e)) return 3;
    if (trf_evaluate(t, &b, &g, e) || trf_evaluate_all(t, &b, NULL, &g, e)) return 4;
    printf("a, (text) %d %s %d", (int)lines.n, trf_dataset_labels(d), (int)trf_dataset_stream(d));
    if (trf_model_save(m, path ? path : "a, b", e) || trf_checkpoint_save(t, NULL, /* a, comment */ path, e)) return 1;
    if (!v) return 2;
    if (trf_score(r, &b, p, e) || trf_embed(r, s, TRF_POOL_MEAN, 1, x, e)) return 3;
    if (trf_rank(r, path, &path, 1, p, NULL, e)) return 4;
    return trf_translate_batch(r, s, e) || trf_tag(r, s, x,
                                                   e);
}
trf_status parts(trf_context *c, trf_tensor *x, const trf_attention_shape *shape, trf_attention_params *p,
                 trf_error *e);
trf_status parts(trf_context *c, trf_tensor *x, const trf_attention_shape *shape, trf_attention_params *p,
                 trf_error *e)
{
    return trf_layer_norm(c, x, x, x, x, 1e-5, x, e) || trf_layer_norm_backward(c, x, x, x, x, x, x, 1e-5, x, e) ||
           trf_attention(c, x, x, x, x, shape, x, e) || trf_attention_backward(c, x, x, x, x, x, x, x, x, shape, x, e)
           || trf_multi_head_attention_backward(c, x, x, p, x, x, x, p, shape, x, e);
}
END
job "tools/rename.sh brings calls of 0.3 to today's, keeps the file as it was, and lists what is gone" "
    sh '$root/tools/rename.sh' before.c >renamed.txt && cmp -s before.c.orig before.c && exit 1
    $quick -std=c99 $warnings $cblas -I'$root' -fsyntax-only before.c &&
    grep -q 'trf_dataset_results(d)->labels' before.c &&
    sh '$root/tools/rename.sh' before.c >renamed.txt && [ ! -s renamed.txt ] &&
    echo 'int x = trf_is_perfect(1, 2); trf_tag(a, b, c, d); trf_trainer_step(t);' >before.c &&
    no sh '$root/tools/rename.sh' before.c >renamed.txt 2>&1 &&
    grep -q 'trf_trainer_step with 1' renamed.txt && grep -q 'orig is there already' renamed.txt &&
    grep -q 'before.c:1:.*trf_is_perfect.*api-changes' renamed.txt && grep -q trf_tag before.c"

# --- what is said ----------------------------------------------------------------------------------------------------
# Without -O: once, with what to type, and no error where warnings are errors. A column says it, not who links columns.
slow()
{
    job "$1 $2 says that it is slow without -O: messages: $3" \
        "$1 -Werror -DTRF_NO_CBLAS -I'$root' $2 -fsyntax-only 2>slow$jobs.txt || exit 1
        [ \$(grep -c 'message: .*without -O is slow: add -O2\|warning: .*without -O is slow: add -O2' \
            slow$jobs.txt) -eq $3 ]"
}
says_slow()
{
    slow "$compiler" all.c 1
    [ -n "$whole" ] || [ "$compiler" = "$quick" ] || return
    slow "$compiler" '-O1 all.c' 0
    slow "$compiler" "$quiet all.c" 0
    slow "$compiler" public.c 0
    slow "$compiler" column.c 1
    slow "$compiler" '-DTRF_WITH_AVX2 all.c' 0
}
for compiler in $c_compilers; do says_slow; done
[ -z "$whole" ] || for_cxx says_slow

# --- without CBLAS ---------------------------------------------------------------------------------------------------
# The headers of this machine but cblas.h: -DTRF_NO_CBLAS is not needed; with TRF_CBLAS_HEADER it is missed.
mkdir -p lean/machine lean/rest
machine=/usr/include/$($gcc_like -dumpmachine)
[ -d "$machine" ] || machine=/usr/include/$(gcc -print-multiarch 2>/dev/null)
for file in "$machine"/*; do case $file in */cblas*) ;; *) ln -s "$file" lean/machine ;; esac; done
for file in /usr/include/*; do case $file in */cblas*) ;; *) ln -s "$file" lean/rest ;; esac; done
bare="-nostdinc -isystem '$($gcc_like -print-file-name=include)' -isystem lean/machine -isystem lean/rest -I'$root'"
if eval "$gcc_like $bare -fsyntax-only public.c" 2>/dev/null &&
    ! eval "$gcc_like $bare -fsyntax-only has_cblas.c" 2>/dev/null; then
    for standard in c99 ${whole:+gnu17}; do
        job "without <cblas.h> the header compiles and computes with built-in products: $standard" \
            "$gcc_like $bare -std=$standard $warnings -DTRF_IMPLEMENTATION \
            -include '$root/transformer.h' caller.c \
            -lm -o lean/program_$standard &&
            ./lean/program_$standard && grep -q 'built-in products' lean/program_$standard"
    done
    job "without <cblas.h> TRF_CBLAS_HEADER is an error that names the file" \
        "no $gcc_like $bare -Wfatal-errors '-DTRF_CBLAS_HEADER=<cblas.h>' -fsyntax-only all.c 2>lean/said &&
        grep -q cblas.h lean/said"
else echo "left out: no <cblas.h>"
fi

# --- words -----------------------------------------------------------------------------------------------------------
job "the header's contents list its marks, in their order" "
    sed -n '/^\/\/ CONTENTS/,/^\/\/ NOTATION/p' '$root/transformer.h' | grep -o '>>[a-z_-]*' >contents.txt
    sed -n 's/^\/\/ \(>>[a-z_-]*\).*/\1/p' '$root/transformer.h' >marks.txt
    [ -s marks.txt ] && diff contents.txt marks.txt"
job "the program of the header's first page is that of examples/dates.c" "
    sed -n '/^\/\/ A COMPLETE PROGRAM/,/^\/\/ OPTIONS/p' '$root/transformer.h' |
        sed '1,2d;\$d' | sed 's/^\/\/     //;s/^\/\/\$//' | sed '\$d' >page.txt
    sed -n '/^#define/,\$p' '$root/examples/dates.c' >dates.txt
    [ -s dates.txt ] && diff page.txt dates.txt"
job "README's programs are in the examples" "
    [ -f '$root/README.md' ] || exit 0
    cat '$root'/examples/*.c >examples.txt
    awk -v readme='$root/README.md' '
        { all = all \$0 \"\n\" }
        END {
            while ((getline line <readme) > 0) {
                if (line ~ /^\`\`\`c\$/) { inside = 1; block = \"\"; continue }
                if (inside && line ~ /^\`\`\`/) {
                    inside = 0; blocks++
                    if (!index(all, block)) { print \"not in any example:\n\" block; bad = 1 }
                    continue
                }
                if (inside) block = block line \"\n\"
            }
            if (!blocks) print \"no C in the README\"
            exit bad || !blocks
        }' examples.txt"

# --- run them, two at a time -----------------------------------------------------------------------------------------
n=0
echo "$objects" >object.lines
while read -r line; do
    [ -n "$line" ] || continue
    eval "$line" &
    n=$((n + 1))
    [ $((n % 2)) -eq 1 ] || wait
done <object.lines
wait

worker()
{
    i=1
    while [ $i -le $jobs ]; do
        if mkdir job$i.taken 2>/dev/null; then
            if sh job$i.sh >job$i.out 2>&1; then echo passed >job$i.result; else echo failed >job$i.result; fi
        fi
        i=$((i + 1))
    done
}
worker & first=$!
worker
wait $first

passed=0 failed=0 i=1
while [ $i -le $jobs ]; do
    if [ "$(cat job$i.result)" = passed ]; then passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $(cat job$i.name)"
        head -n 12 job$i.out | cut -c1-200 | sed 's/^/    /'
    fi
    i=$((i + 1))
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

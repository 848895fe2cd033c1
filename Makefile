# transformer.h: who uses it needs no building; this joins it from tools/header and builds its examples, tools and
# tests. `make help` lists the targets.
# Set by hand what differs: make CC=clang, make BLAS= CPPFLAGS=-DTRF_NO_CBLAS,
# make test CFLAGS='-g -O1 -fsanitize=address,undefined'; all is built again when such a variable changes.

CC       = cc
CFLAGS   = -O2
CPPFLAGS =
LDFLAGS  =
BLAS     = -lopenblas
LDLIBS   = $(BLAS) -lm
PREFIX   = /usr/local
CUDA     = /usr/local/cuda
PYTHON   = python3
SENTENCEPIECE = $(wildcard /usr/include/sentencepiece_trainer.h)
CJSON    = $(wildcard /usr/include/cjson/cJSON.h)
LIBZIP   = $(wildcard /usr/include/zip.h)
MPI      =
MPICC    = mpicc
ZLIB     = $(wildcard /usr/include/zlib.h)
ICU      = $(wildcard /usr/include/unicode/ubrk.h)
ARCH     = sm_90
VERSION  = $(shell sed -n 's/^\#define TRF_VERSION "\(.*\)"/\1/p' transformer.h)

BUILD    = build
# As many jobs as processors; make -j1: one. Not below another make, and not where something is removed first.
ifeq ($(MAKELEVEL)$(filter clean uninstall,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
endif
COMPILE  = $(CC) $(CFLAGS) -I. $(CPPFLAGS)
TESTING  = $(LEVELCC) $(CFLAGS) $(NATIVE) -I. $(CPPFLAGS) $(LEVEL) $(OWN) -Itests
# One level compiles faster than all, and without the optimiser there is no other.
NATIVE   = $(if $(filter file,$(origin CFLAGS)),-march=native)
# AUTO is the built-in product in most suites; the variant plain: has it as it is.
OWN      = -DTRF__AUTO_IS_OWN=1
EXAMPLES = $(patsubst examples/%.c,$(BUILD)/%,$(wildcard examples/*.c))
STUDIES  = $(patsubst examples/studies/%.c,$(BUILD)/studies/%,$(wildcard examples/studies/*.c))
RUNS     = $(patsubst $(BUILD)/studies/%,$(BUILD)/studies/out/%.md,$(STUDIES))
# Each tests/test_X.c says in its first line how it is built and when it runs; tests/README.md explains the words.
# Here are two words for each program: test:test_X or check:double_test_X, and O1:test_X.
SUITES  := $(shell awk 'FNR == 1 { file = FILENAME; gsub(/^tests\/|\.c$$/, "", file); \
             if (!/^\/\* build: (O[01]|shared) /) { print "unsaid:" file; next } \
             print (/ slow / ? "check:" : "test:") file, $$3 ":" file; \
             for (i = 4; i < NF; i++) if ((n = split($$i, part, ":")) > 1) { \
               name = (part[1] == "long" ? "cuda" : part[1]) "_" file; \
               print (part[1] == "long" ? "long:" : part[1] == "cblas" || n == 3 ? "all:" : "check:") name, \
                 part[2] ":" name; \
               if (part[1] == "plain") print "all:cblas_" file, part[2] ":cblas_" file } \
             if (/ linked /) print "linked:" file; \
             if (/ races /) print "long:races_" file }' tests/test_*.c)
suites   = $(patsubst $1:%,$(BUILD)/%,$(filter $1:%,$(SUITES)))
TESTS    = $(call suites,test)
CHECKS   = $(call suites,check)
RARE     = $(call suites,all)
LONG     = $(call suites,long)
ifneq ($(call suites,unsaid),)
$(error the first line does not say how it is built: $(patsubst unsaid:%,tests/%.c,$(filter unsaid:%,$(SUITES))))
endif
LINK     = $(LDFLAGS) $(LDLIBS)
HEADERS  = transformer.h examples/grammar.h $(wildcard tests/*.h tests/golden/*.h tests/golden/old/*.h) $(BUILD)/flags

all: $(EXAMPLES) $(BUILD)/trf

# The header is joined from its files; an edit of the header alone is not overwritten. See tools/header/README.md.
transformer.h: $(wildcard tools/header/*.h tools/header/*/*.h tools/header/join.*)
	sh tools/header/join.sh

header:
	sh tools/header/join.sh

parts:
	sh tools/header/parts.sh $(EDITED)

# The same on GPUs too, in $(BUILD)/cuda; nvcc sees nothing but the column.
cuda: $(BUILD)/cuda/column.o
	$(MAKE) all BUILD=$(BUILD)/cuda CPPFLAGS='$(CPPFLAGS) -DTRF_WITH_CUDA' \
	  LDLIBS='$< $(LDLIBS) -L$(CUDA)/lib64 -Wl,-rpath,$(CUDA)/lib64 -lcublasLt -lcudart -lstdc++'

$(BUILD)/cuda/column.o: transformer.h $(BUILD)/flags
	@mkdir -p $(@D)
	printf '#define TRF_COLUMN cuda\n#include "transformer.h"\n' >$(@D)/column.c
	$(CUDA)/bin/nvcc -O2 -arch=$(ARCH) -I. -x cu -c $(@D)/column.c -o $@

demo: $(BUILD)/translate
	$(BUILD)/translate

# Compiling is a third of a test run. Suites that compile the implementation themselves have the optimiser (O1) where it
# saves more than it costs: make test O0= O1= takes CFLAGS for all. It skips static functions that a suite does not
# call. Without it clang takes half of gcc's time: it builds these suites where it is there, unless CC is given.
O0       = -O0 -DTRF_NO_SLOW_WARNING
O1       = -O1 -DTRF_STATIC
LEVEL    = $(O0)
CC0      = $(CC)
ifeq ($(origin CC),file)
CC0     := $(if $(shell command -v clang),clang,$(CC))
endif
LEVELCC  = $(CC0)
# The implementation is compiled once for trf, the examples and the suites that are `shared`, and once for each of
# their variants: with external private functions, which private/transformer.h declares.
SHARED   = $(CC) $(CFLAGS) $(NATIVE) -I. $(CPPFLAGS) $(OWN) -DTRF__FN= -DTRF_IMPLEMENTATION -x c -c transformer.h
SHARING  = $(CC0) $(CFLAGS) $(NATIVE) $(O0) -I$(BUILD)/private -I. $(CPPFLAGS) -DKIT_LINKED -Itests
PRIVATE  = $(BUILD)/private/transformer.h
$(call suites,O1): LEVEL = $(O1)
$(call suites,O1): LEVELCC = $(CC)

# What everything is built with, and what MPI's part is; a new file when it has changed.
FLAGS   := $(CC) $(CXX) $(CFLAGS) $(CXXFLAGS) $(CPPFLAGS) $(LDFLAGS) $(LDLIBS) $(CUDA) $(ARCH) \
           $(SENTENCEPIECE) $(CJSON) $(LIBZIP) $(ZLIB) $(ICU) $(NATIVE) $(OWN) $(O0) $(O1) $(CC0)
$(BUILD)/flags: KEPT = $(FLAGS)
$(BUILD)/flags.mpi: KEPT = $(MPI) $(MPICC)
$(BUILD)/flags $(BUILD)/flags.mpi: FORCE
	@mkdir -p $(BUILD)
	@printf '%s\n' '$(subst ','\'',$(KEPT))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(KEPT))' >$@
FORCE:

# Examples that take long: make check-all runs them.
SLOW     = $(patsubst %,$(BUILD)/%,reverse fill resume classify)
# make test T=vocab: one suite, tests/test_vocab.c; T=trf_train: tests/test_trf_train.sh; T=double_test_model and the
# like.
T        =
ifeq ($(T),)
# trf comes first: nothing takes longer to compile.
test: $(BUILD)/trf $(TESTS) $(filter-out $(SLOW),$(EXAMPLES))
	sh tests/run.sh $(BUILD) $(notdir $(TESTS))
else ifneq ($(wildcard tests/test_$(T).sh),)
test: $(BUILD)/trf
	sh tests/test_$(T).sh $(BUILD)/trf
else
SUITE    = $(BUILD)/$(if $(wildcard tests/test_$(T).c),test_$(T),$(T))
test: $(SUITE)
	$(SUITE)
endif

# And the suites' variants, the compilers, languages and columns of ops, and what the pages say.
check: $(BUILD)/trf $(BUILD)/tasks $(TESTS) $(CHECKS) $(EXAMPLES)
	sh tests/run.sh $(BUILD) check $(notdir $(TESTS) $(CHECKS))

# And what takes long: every case of each suite, every way to build, the studies, all examples.
check-all: $(BUILD)/trf $(BUILD)/tasks $(TESTS) $(CHECKS) $(RARE) $(EXAMPLES) $(STUDIES)
	sh tests/run.sh $(BUILD) all $(notdir $(TESTS) $(CHECKS) $(RARE))

# The tutorials' experiments, each with a small grid; tables and pictures lie in $(BUILD)/studies/out.
studies: $(RUNS)
	@echo
	@grep -h '^claim: ' $(RUNS)

$(BUILD)/studies/out/%.md: $(BUILD)/studies/% FORCE
	@mkdir -p $(@D)
	$< --quick --threads 1 --output $(@D) >$@ || { cat $@; exit 1; }

# What takes too long for every change: the other suites with the CUDA backend, and its kernels under the race checker.
check-cuda: $(LONG)
	for t in $(LONG); do $$t || exit 1; done

# Other systems, processors, compilers and languages; tests/ports.sh lists the packages.
check-ports:
	@mkdir -p $(BUILD)
	sh tests/ports.sh $(BUILD)

# Of each kernel: bytes that did not fit into registers, and how many of these it takes, of the 255 that a thread may
# have.
registers: $(BUILD)/cuda/column.o
	$(CUDA)/bin/nvcc -O2 -arch=$(ARCH) -I. -x cu -Xptxas -v -c $(BUILD)/cuda/column.c -o $(BUILD)/cuda/registers.o 2>&1 | \
	  c++filt | sed -n -e "s/.*Compiling entry function '\([^(]*\)(.*/\1/p" \
	  -e 's/.* \([0-9]*\) bytes spill stores.*/    \1/p' -e 's/.*Used \([0-9]*\) registers.*/    \1/p' | paste - - - | sort

# Sizes and lines of the sources, which no test looks at.
lint:
	sh tests/lint.sh

help:
	@echo 'make            examples and the command line trf, in $(BUILD)/'
	@echo 'make cuda       the same, with the CUDA backend, in $(BUILD)/cuda/: trf train --device cuda ...'
	@echo 'make demo       trains the toy translation, a minute or two, then translates what you type'
	@echo 'make studies    the short runs of examples/studies, which check what tutorials claim'
	@echo 'make test       suites, examples and trf: three minutes; make test T=vocab: tests/test_vocab.c,'
	@echo '                T=trf_train: tests/test_trf_train.sh'
	@echo 'make check      also on other devices, with the compilers found, and what the pages say: CI runs it'
	@echo 'make check-all  also every case, every way to build and the studies: before a release'
	@echo 'make check-cuda the other suites with the CUDA backend on the CPU, and its race checker: half an hour'
	@echo 'make check-ports  Windows, ARM64, WebAssembly, musl ... by wine, qemu and node; its packages: tests/ports.sh'
	@echo 'make check-defaults DATA=...  what trf train makes of fourteen tasks without an option: hours'
	@echo 'make registers  of each CUDA kernel; sh tools/bench/gpu.sh: tests and speed of a real GPU'
	@echo 'make bench      speed of this machine, op by op; make bench-peers PYTHON=python3: beside PyTorch and'
	@echo '                CTranslate2'
	@echo 'make lint       lines, chapters and sections of the sources that are too long'
	@echo 'make mutate     plants faults into a copy of the header and lists those that no test sees: hours; NAMED=1:'
	@echo '                by the suites that each names, an hour and a half; CHANGED=1: those in functions that'
	@echo '                differ from the last commit, CHANGED=HEAD~3: from that one'
	@echo 'make install    header, trf with man page and completion for bash and zsh, files for pkg-config and CMake,'
	@echo '                under PREFIX=$(PREFIX); make uninstall removes them'
	@echo 'make release    the header as two files, declarations and implementation, in $(BUILD)/release'
	@echo 'make header     joins transformer.h from tools/header, as each build does; make parts [EDITED=FILE]: takes'
	@echo '                an edit of transformer.h, or of FILE, back into tools/header'
	@echo 'make clean      removes $(BUILD)/'
	@echo 'variables       CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS BLAS PREFIX BUILD CUDA ARCH;'
	@echo '                what was built with some, is installed with the same: make install BLAS= ...'
	@echo '                without OpenBLAS: BLAS= CPPFLAGS=-DTRF_NO_CBLAS; without learning of subwords: SENTENCEPIECE=;'
	@echo '                without trf import: CJSON=; without the zip files of PyTorch in it: LIBZIP=;'
	@echo '                without .gz files: ZLIB=; without trf translate --sentences: ICU=;'
	@echo '                trf train by several processes (mpirun): MPI=1'

bench: $(BUILD)/bench
	$(BUILD)/bench

bench-peers: $(BUILD)/bench
	$(PYTHON) tools/bench/bench_peers.py $(BUILD)/bench

CHANGED  =
mutate:
	sh tests/mutate.sh --check
	sh tests/mutate.sh $(if $(CHANGED),--changed $(if $(filter 1,$(CHANGED)),HEAD,$(CHANGED)))

# What trf train makes of fourteen tasks without an option; hours. DATA: see tools/data/check_defaults.sh.
DATA     =
check-defaults: $(BUILD)/trf $(BUILD)/tasks
	sh tools/data/check_defaults.sh $(BUILD) $(DATA)

$(BUILD)/test_picture: $(wildcard tools/trf/look/picture*.h)
UNICODE  = $(wildcard tools/unicode/*.h)
METRICS  = $(wildcard tools/metrics/*.[ch]) $(UNICODE)
$(BUILD)/test_metrics: $(METRICS)
$(BUILD)/test_compose: $(patsubst %,tools/trf/base/%,compose.c text.c base.h) $(UNICODE)
$(BUILD)/test_options: $(patsubst %,tools/trf/base/%,settings.c options.c options_model.h options_search.h values.c \
                         command_line.c foreign.c options.h base.h) tools/metrics/metrics.h
$(BUILD)/studies/beams: $(METRICS) examples/grammar.h

$(PRIVATE): transformer.h tests/private.awk $(BUILD)/flags
	@mkdir -p $(@D)
	awk -f tests/private.awk $< >$@

# variant PREFIX,FLAGS,LEFT OUT,LINKED,OBJECT: the suites, shared or not, with these flags or without some, and what is
# linked. The shared ones have an implementation of the variant, or OBJECT, which is for every processor.
define variant
$(BUILD)/$1shared.o: transformer.h $(BUILD)/flags
	$$(filter-out $3,$$(SHARED)) $2 -o $$@

$(filter $(BUILD)/$1test_%,$(call suites,shared)): $(BUILD)/$1test_%: tests/test_%.c \
  $(or $5,$(BUILD)/$1shared.o) $(PRIVATE) $(HEADERS) $(filter %.o,$4)
	$$(filter-out $3 $(if $5,-march=native),$$(SHARING)) $2 $$< $(or $5,$(BUILD)/$1shared.o) $(filter %.o,$4) -o $$@ \
	  -lcmocka -pthread $$(LINK) $(filter -l%,$4)

$(BUILD)/$1test_%: tests/test_%.c $(HEADERS) $(filter %.o,$4)
	@mkdir -p $(BUILD)
	$$(filter-out $3,$$(TESTING)) $2 $$< -o $$@ $(filter %.o,$4) -lcmocka -pthread $$(LINK) $(filter -l%,$4)
endef
# These two have the implementation that programs have. What AUTO is there, the suite says (tests/auto.h).
$(eval $(call variant,,,,,$(BUILD)/transformer.o))
$(eval $(call variant,plain_,-DKIT_CBLAS,$(OWN) -march=native,,$(BUILD)/transformer.o))
$(eval $(call variant,double_,-DTRF_DOUBLE,))
# Where CBLAS multiplies, for one level.
$(eval $(call variant,cblas_,-DKIT_CBLAS,$(OWN)))
# On a device that the host cannot reach: see tests/separate_device.h.
$(BUILD)/test_separate_device: tests/test_separate_device.c $(BUILD)/separate_shared.o $(PRIVATE) $(HEADERS)
	$(SHARING) $< $(BUILD)/separate_shared.o -o $@ -lcmocka -pthread $(LINK)

$(eval $(call variant,separate_,-D_GNU_SOURCE -DTRF__TEST_BACKEND=separate_backend,))
# The CUDA backend, run by the CPU: see tests/gpu_on_cpu.h. Kernels are in gpu.o.
$(BUILD)/cuda_shared.o: CFLAGS += -O1
$(eval $(call variant,cuda_,-DKIT_ON_CUDA -DTRF_WITH_CUDA -DTRF__TEST_BACKEND=cuda_backend,,$(BUILD)/gpu.o -lstdc++))

# The implementation is compiled once for suites that need only the public half.
$(call suites,linked): $(BUILD)/test_%: tests/test_%.c $(BUILD)/transformer.o $(HEADERS)
	$(TESTING) -DTRF__IMPLEMENTED $< $(BUILD)/transformer.o -o $@ -lcmocka -pthread $(LINK)

$(BUILD)/gpu.o: tests/gpu.cc $(HEADERS)
	@mkdir -p $(BUILD)
	$(CXX) -std=c++11 $(CFLAGS) $(NATIVE) -I. -Itests -c $< -o $@

$(BUILD)/test_cuda $(BUILD)/test_cuda_ops: $(BUILD)/test_%: tests/test_%.c $(BUILD)/gpu.o
	$(TESTING) $^ -o $@ -lcmocka -pthread $(LINK) -lstdc++

$(BUILD)/races_%: tests/%.c tests/gpu.cc $(HEADERS)
	@mkdir -p $(BUILD)
	$(CXX) -std=c++11 -O1 -march=native -fsanitize=thread -I. -Itests -c tests/gpu.cc -o $@.o
	$(CC) -O1 -march=native -fsanitize=thread -I. -Itests $< $@.o -o $@ -lcmocka -pthread $(LINK) -lstdc++

# The implementation is compiled once for trf, all examples and studies, and the suites that are `shared`, for which its
# private functions are external. Each example is a program of one file too: the lines at its top build it so, and
# tests/compile.sh does.
$(BUILD)/transformer.o: transformer.h tests/auto.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE) -include tests/auto.h -DTRF__FN= -DTRF_IMPLEMENTATION -x c -c $< -o $@

DRAWING  = $(wildcard examples/studies/*.h tools/trf/look/picture*.h)
$(BUILD)/studies/%: examples/studies/%.c $(DRAWING) $(BUILD)/transformer.o
	@mkdir -p $(@D)
	$(COMPILE) -DSTUDY_LINKED $< $(BUILD)/transformer.o -o $@ -pthread $(LINK)

$(BUILD)/%: examples/%.c $(BUILD)/transformer.o $(HEADERS)
	@mkdir -p $(BUILD)
	$(COMPILE) -DTRF__IMPLEMENTED $< $(BUILD)/transformer.o -o $@ -pthread $(LINK)

# With libsentencepiece trf learns subwords, with libcjson it imports models, with libzip those of PyTorch too, with
# zlib it reads gzip files. OpenBLAS is loaded when a product asks for it, and not linked; another CBLAS
# library is, and so is OpenBLAS where it cannot be loaded. MPI=1: trf train runs as several processes too; mpicc calls
# the compiler with what Open MPI (OMPI_CC) or MPICH (MPICH_CC) needs. One file knows of MPI.
LINKED   = $(filter-out -lopenblas,$(BLAS)) $(filter -static,$(LDFLAGS)) $(filter Darwin,$(shell uname)) \
           $(filter -DTRF_NO_THREADS -DTRF_CBLAS_HEADER% -DTRF_DOUBLE,$(CPPFLAGS))
TRFLINK  = $(if $(strip $(LINKED)),$(LINK),$(LDFLAGS) $(filter-out -lopenblas,$(LDLIBS)) -ldl)
TRFWITH  = $(if $(strip $(LINKED)),-DTRF_LINKED_CBLAS) \
           $(if $(SENTENCEPIECE),-DTRF_WITH_SENTENCEPIECE) $(if $(CJSON),-DTRF_WITH_CJSON) \
           $(if $(LIBZIP),-DTRF_WITH_LIBZIP) $(if $(ZLIB),-DTRF_WITH_ZLIB) $(if $(ICU),-DTRF_WITH_ICU)
TRFCC    = $(if $(MPI),OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC),$(CC))
# Objects, of which make compiles those again that a change touches. Without cJSON publish/ has a file that says so.
UNBUILT  = $(if $(CJSON),%/without_cjson.c,$(wildcard tools/trf/publish/import*.c tools/trf/publish/export*.c))
TRF      = $(filter-out $(UNBUILT),$(wildcard tools/trf/*.c tools/trf/*/*.c)) tools/metrics/metrics.c \
           $(if $(SENTENCEPIECE),tools/trf/train/spm.cc)
OBJECTS  = $(patsubst tools/%,$(BUILD)/objects/%.o,$(TRF))
# The library first: nothing takes longer to compile.
$(BUILD)/trf: $(BUILD)/transformer.o $(OBJECTS) $(BUILD)/flags.mpi
	$(TRFCC) $(CFLAGS) $< $(OBJECTS) -o $@ $(if $(SENTENCEPIECE),-lsentencepiece_train -lsentencepiece -lstdc++) \
	  $(if $(CJSON),-lcjson $(if $(LIBZIP),-lzip)) $(if $(ZLIB),-lz) $(TRFLINK) $(if $(ICU),-ldl)

OBJECTCC = $(CC)
$(BUILD)/objects/trf/train/mpi.c.o: OBJECTCC = $(TRFCC) $(if $(MPI),-DTRF_WITH_MPI)
$(BUILD)/objects/trf/train/mpi.c.o: $(BUILD)/flags.mpi
$(BUILD)/objects/%.c.o: tools/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(OBJECTCC) $(CFLAGS) -I. -Itools/trf $(CPPFLAGS) $(TRFWITH) -MMD -MP -c $< -o $@

$(BUILD)/objects/%.cc.o: tools/%.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(CXX) -O2 $(CXXFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@

-include $(OBJECTS:.o=.d)

# The other tools: build/bench; build/parity and build/pieces; build/tasks and build/first.
define TOOL
@mkdir -p $(BUILD)
$(COMPILE) $< -o $@ $(LINK)
endef
$(BUILD)/%: tools/bench/%.c $(HEADERS)
	$(TOOL)

$(BUILD)/%: tools/parity/%.c $(HEADERS)
	$(TOOL)

$(BUILD)/%: tools/data/%.c $(HEADERS)
	$(TOOL)

TO       = $(DESTDIR)$(PREFIX)
PACKAGE  = $(TO)/lib/cmake/transformer
MAN      = $(TO)/share/man/man1
BASH     = $(TO)/share/bash-completion/completions
ZSH      = $(TO)/share/zsh/site-functions
# filled FILE,INTO: a file of tools/cmake with what was given to make in place of its @WORDS@
filling  = -e 's|@$1@|$(subst |,\|,$(subst &,\&,$(subst \,\\,$2)))|'
define filled
sed $(call filling,VERSION,$(VERSION)) $(call filling,PREFIX,$(PREFIX)) $(call filling,OPTIONS,$(strip $(CPPFLAGS))) \
  $(call filling,LIBRARIES,$(strip $(LINK))) \
  tools/cmake/$1.in >"$2/$1" && chmod 644 "$2/$1"
endef
# The header as two files: declarations and implementation.
release: transformer.h
	sh tools/header/release.sh $(BUILD)/release

install: $(BUILD)/trf
	install -d "$(TO)/include" "$(TO)/bin" "$(TO)/lib/pkgconfig" "$(PACKAGE)" "$(MAN)" "$(BASH)" "$(ZSH)"
	install -m 644 transformer.h "$(TO)/include"
	install -m 755 $(BUILD)/trf "$(TO)/bin"
	if $(BUILD)/trf help --man >"$(MAN)/trf.1"; then \
	  $(BUILD)/trf completion bash >"$(BASH)/trf" && $(BUILD)/trf completion zsh >"$(ZSH)/_trf" && \
	  chmod 644 "$(MAN)/trf.1" "$(BASH)/trf" "$(ZSH)/_trf"; \
	else rm "$(MAN)/trf.1"; echo 'left out: the man page and completion, as trf does not run here'; fi
	$(call filled,transformer.pc,$(TO)/lib/pkgconfig)
	$(call filled,transformerConfig.cmake,$(PACKAGE))
	$(call filled,transformerConfigVersion.cmake,$(PACKAGE))

uninstall:
	rm -f "$(TO)/include/transformer.h" "$(TO)/bin/trf" "$(TO)/lib/pkgconfig/transformer.pc"
	rm -f "$(MAN)/trf.1" "$(BASH)/trf" "$(ZSH)/_trf"
	rm -f "$(PACKAGE)/transformerConfig.cmake" "$(PACKAGE)/transformerConfigVersion.cmake"
	[ ! -d "$(PACKAGE)" ] || rmdir "$(PACKAGE)"

clean:
	rm -rf $(BUILD)

.PHONY: FORCE all header parts cuda demo studies test check check-cuda check-ports check-defaults registers help bench \
        bench-peers lint mutate release install uninstall clean

// transformer.h - train and run transformers in C: translators, language models, classifiers. One file, no framework.
//
// SPDX-License-Identifier: MIT        Copyright (c) 2026 the transformer.h authors; full text at the end
//
// Sequences in, sequences out: translation, transliteration, pronunciation, normalisation, commands to actions
// (Vaswani et al. 2017, "Attention is all you need": "the paper" below). The header holds tensors, multi-head
// attention, feed-forward, layer norm, positions, encoder and decoder stacks, backprop, Adam, warm-up, label
// smoothing, greedy and beam search, files and checkpoints. Encoder-only models (classifying, tagging, masked tokens)
// and decoder-only ones are the same code.
//
// DO THIS
//   In exactly one source file:     #define TRF_IMPLEMENTATION
//                                   #include "transformer.h"
//   In every other one only:        #include "transformer.h"
//
//   With OpenBLAS                   cc -O2 -march=native app.c -lopenblas -lm
//   On a bare machine               cc -O2 -march=native -DTRF_NO_CBLAS app.c -lm
//   As C++                          c++ -O2 -march=native app.cc -lopenblas -lm
//   To ship: runs on any x86-64 and uses what it finds. column.c is two lines, `#define TRF_COLUMN avx2` and
//   `#include "transformer.h"`:     cc -O2 -mavx2 -mfma -c column.c
//                                   cc -O2 -DTRF_WITH_AVX2 app.c column.o -lopenblas -lm
//   For GPUs too: cuda.c is two lines, `#define TRF_COLUMN cuda` and `#include "transformer.h"`:
//      nvcc -O2 -arch=sm_90 -x cu -c cuda.c
//      cc -O2 -march=native -DTRF_WITH_CUDA app.c cuda.o -lopenblas -lcublasLt -lcudart -lstdc++ -lm
//     (and -L/usr/local/cuda/lib64 where the linker does not find it), or all in one file:
//     nvcc -O2 -x cu -arch=sm_90 -DTRF_CUDA -Xcompiler -march=native app.c -lopenblas -lcublasLt -lm
//   All of them compute on several threads. A glibc before 2.34 keeps threads in a library of their
//   own: add -pthread.
//
//   -std=c99 and its like switch floating-point contraction off: add -ffp-contract=fast, or use -std=gnu99.
//   -ffast-math and -Ofast are refused: they cannot see a NaN. Builds that compute floats in a wider
//   type are refused too: for 32-bit x86 add -msse2 -mfpmath=sse.
//
// A COMPLETE PROGRAM (examples/dates.c). examples/copy.c has a loop of its own, update by update.
//
//     #define TRF_IMPLEMENTATION
//     #include "transformer.h"
//     #include <stdio.h>
//
//     int main(void)
//     {
//         static const char *const months[] = {"January", "February", "March", "April", "May",
//             "June", "July", "August", "September", "October", "November", "December"};
//         trf_error err;
//         trf_dataset *data = NULL; trf_model *model = NULL;
//         trf_trainer *trainer = NULL; trf_translator *translator = NULL;
//         trf_recipe *recipe;
//         char source[64], target[64];
//         int i, failed = 1;
//
//         if (trf_dataset_create(&data, NULL, &err)) goto done;
//         for (i = 0; i < 10000; i++) {
//             int day = 1 + i % 28, month = i / 28 % 12, year = 1990 + i / 336;
//             if (i % 100 == 77) continue;            /* 14 July 2001 and 99 others: never seen */
//             snprintf(source, sizeof source, "%d %s %d", day, months[month], year);
//             snprintf(target, sizeof target, "%d-%02d-%02d", year, month + 1, day);
//             if (trf_dataset_add(data, source, target, &err)) goto done;
//         }
//         if (trf_dataset_finish(data, &err)) goto done;      /* vocabularies, held-out pairs, */
//         recipe = trf_dataset_recipe(data);                  /* settings, and why: ->reasons */
//         if (trf_dataset_model(data, &model, &err)) goto done;
//         if (trf_trainer_create(&trainer, model, &recipe->training, &err)) goto done;
//         if (trf_learn(trainer, trf_dataset_corpus(data), trf_dataset_held_out(data),
//                       &recipe->learning, NULL, &err)) goto done;
//         if (trf_model_save(model, "dates.safetensors", &err)) goto done;
//         if (trf_translator_create(&translator, model, NULL, &err)) goto done;
//         if (trf_translate_text(translator, "14 July 2001", target, sizeof target, &err))
//             goto done;
//         printf("14 July 2001 -> %s\n", target);
//         failed = 0;
//     done:
//         if (failed) fprintf(stderr, "%s\n", err.message);
//         trf_translator_destroy(translator); trf_trainer_destroy(trainer);
//         trf_model_destroy(model); trf_dataset_destroy(data);
//         return failed;
//     }
//
// OPTIONS, to be defined before the include
//   TRF_IMPLEMENTATION    this file gets the implementation
//   TRF_NO_CBLAS          the built-in matrix product does everything: with it no library but libm
//                         is needed. Without a <cblas.h> (and TRF_CBLAS_HEADER) it defines itself
//   TRF_CBLAS_HEADER      another header than <cblas.h>, such as <Accelerate/Accelerate.h> or <mkl_cblas.h>
//   TRF_DOUBLE            all tensors in double, for checking gradients
//   TRF_NO_TRAIN          only translating: no backward, no trainer
//   TRF_SCALAR            no vector types: plain C, as for compilers that have none
//   TRF_COLUMN name       this file gets nothing but the ops, as a table for this version's implementation: cuda, or
//                         the CPU's as this file is compiled
//   TRF_WITH_AVX2, TRF_WITH_AVX512    columns avx2 and avx512 are linked in; the best one is chosen at run time
//   TRF_WITH_CUDA         column cuda is linked in: config.device.kind may be TRF_DEVICE_CUDA
//   TRF_CUDA              nvcc compiles this file, and the CUDA backend is in it
//   TRF_NO_THREADS        every object computes on the thread that calls, and no thread is ever started
//   TRF_STATIC            every function is static
//   TRF_API               what declares a public function; default extern. For a shared library of
//                         -fvisibility=hidden: extern __attribute__((visibility("default")))
//   TRF_NO_SLOW_WARNING   no message where GCC or clang compile without -O: many times slower
//   TRF_OS_HEADER         a header with your own trf_os_... file functions (see >>system)
//
// DOES NOT
//   learn subwords (it reads what SentencePiece has learned); speak to a network
//   (a hook sums gradients over ranks, you bind it to MPI); differentiate graphs of your own (blocks have backwards);
//   train an encoder-only model without a head (trf_head: labels of sequences or tokens, masked tokens).
//
// CONTENTS: search for a mark to go there
//   >>api-basics       numbers, status, errors, hooks, tensors
//   >>api-config       what a model is, and the conventions in which systems differ
//   >>api-vocab        text to ids and back
//   >>api-model        a configuration and its weights
//   >>api-batch        sequences without padding
//   >>api-files        safetensors, and how a model is written in it
//   >>api-translate    from ids to ids, from text to text
//   >>api-generate     sampling, token by token
//   >>api-blocks       the parts alone, for other architectures
//   >>api-train        gradients, Adam, schedules, checkpoints
//   >>api-learn        from texts to a trained model: a data set, the recipe, training by itself
//   -- stop here if you only want to use the library --
//   (to learn how a transformer works read ops, cpu, pass and train; then beam and translate)
//   >>impl             includes, compiler differences
//   >>base             errors, memory, small arithmetic
//   >>vector           sixteen lanes on every machine
//   >>ops              the contract between the model and the hardware
//   >>beam             beam search over one sentence, driven from outside
//                     >>line-up
//   >>cpu              the backend that every machine has: threads, matrix products, the ops in the paper's order
//                     >>tiles  >>gemm  >>verbs  >>dropout  >>embed  >>linear  >>activate  >>attention  >>add_norm
//                     >>pool  >>cross_entropy  >>clip  >>adam  >>top  >>ancestors  >>advance  >>state
//   >>cuda             the backend for NVIDIA's GPUs: launches, products by cuBLASLt, the ops in the CPU's order
//                     >>launches  >>products  >>cuda-verbs  >>cuda-dropout  >>cuda-embed  >>cuda-linear
//                     >>cuda-activate  >>cuda-attention  >>cuda-norm  >>cuda-pool  >>cuda-loss  >>cuda-adam
//                     >>cuda-top  >>cuda-advance  >>cuda-state
//   >>column           this file's ops as a table
//   >>basics           names and tensors
//   >>threads          the threads of an object that computes
//   >>backend          which table computes; OpenBLAS
//   >>text             numbers as text, UTF-8, sorting, CRC-32
//   >>vocab            words and characters as numbers
//   >>pieces           SentencePiece models: raw text to subwords and back
//                     >>vocab-use
//   >>config           presets and checks
//   >>params           which weights a model has: names, shapes, first values, places
//   >>model            configuration + weights + vocabularies
//   >>pass             one batch through the model: what is stored, forward, backward
//                     >>sublayers  >>stacks  >>acts  >>rows  >>forward  >>backward
//   >>train            Adam, schedules (paper 5.3, 5.4)
//                     >>step  >>updater
//   >>search           the options of a search, and whose rules they are
//   >>translate        encode once, then one token a step for all live hypotheses
//                     >>decode  >>rounds  >>look-inside
//   >>blocks           the ops as public functions: shapes are checked, nothing is stored but in the caller's tensors
//                     >>blocks-embedding  >>blocks-linear  >>blocks-norm  >>blocks-attention
//                     >>blocks-feed-forward  >>blocks-residual  >>blocks-cross-entropy
//   >>corpus           training pairs in batches, and where we are in them
//   >>noise            batches to learn from out of plain text: masks, spans, prefixes
//   >>system           the operating system: files
//   >>files            the safetensors container
//   >>store            models and checkpoints as safetensors
//                     >>store-match  >>store-write  >>checkpoint
//   >>generate         one token at a time, drawn on the host
//                     >>draw  >>spoken  >>session
//   >>learn            from texts to a trained model
//                     >>recipe  >>choose  >>judge  >>by-itself  >>dataset
//
// NOTATION
//   d       d_model, width of a token's vector          f       d_ff, inner width of feed-forward
//   h       n_heads [paper: h]; d_head = d / h [d_k]    V       size of a vocabulary, special ids included
//   rows    the tokens of all sequences of a batch, one after another: there is no padding anywhere
//   (n, d)  a row-major matrix, the last index runs fastest; weights are (out, in), so y = x w^T + b
//   dx      the gradient of the loss with respect to x; of an activation it is set (=), of a parameter added to (+=)
//   Every call that can fail returns 0 (TRF_OK) or a negative trf_status and fills the caller's trf_error.

#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include <stddef.h>
#include <stdint.h>

#define TRF_VERSION "0.2.0"

#if defined(__cplusplus)
extern "C" {
#endif

#if defined(TRF_STATIC) && defined(__GNUC__)
#define TRF_API static __attribute__((unused))
#elif defined(TRF_STATIC)
#define TRF_API static
#elif !defined(TRF_API)
#define TRF_API extern
#endif

// -----------------------------------------------------------------------------------------------
// >>api-basics     numbers, status, errors, hooks, tensors
//
// Rules of all calls. ..._create and ..._load make an object, ..._destroy ends it (NULL is legal
// there). Options, hooks and devices may be NULL, which means the defaults; a trf_config may
// not. Arguments are borrowed for the call, unless a comment says longer. A returned pointer
// belongs to its object and lives as long; a model's vocabularies live until others are set. One
// thread at a time uses an object; any number of threads may read a model or a finished
// vocabulary.
// -----------------------------------------------------------------------------------------------

/* The type of all tensor data. TRF_DOUBLE makes it double, for gradient checks; the functions that
   make objects then carry another name, so object files of both kinds do not link by mistake. */
#if defined(TRF_DOUBLE)
typedef double trf_real;
#define trf_model_create      trf_model_create_double
#define trf_model_load        trf_model_load_double
#define trf_model_load_memory trf_model_load_memory_double
#define trf_trainer_create    trf_trainer_create_double
#define trf_checkpoint_load   trf_checkpoint_load_double
#define trf_checkpoint_load_memory trf_checkpoint_load_memory_double
#define trf_translator_create trf_translator_create_double
#define trf_generator_create  trf_generator_create_double
#define trf_context_create    trf_context_create_double
#define trf_updater_create    trf_updater_create_double
#define trf_file_open         trf_file_open_double
#define trf_file_open_memory  trf_file_open_memory_double
#define trf_file_save         trf_file_save_double
#else
typedef float trf_real;
#endif

/* Every call that can fail returns one of these. 0 is success, everything else is an error. The
   values never change: branch on them; the text of a message is for people. */
#define TRF_STATUS_LIST(X) \
    X(TRF_OK,              0, "success") \
    X(TRF_E_NOMEM,        -1, "out of memory") \
    X(TRF_E_INVALID_ARG,  -2, "an argument or option is not allowed") \
    X(TRF_E_LIMIT,        -3, "a size is beyond a limit") \
    X(TRF_E_IO,           -4, "the operating system refused to read or write") \
    X(TRF_E_FORMAT,       -5, "a file is not what it claims to be") \
    X(TRF_E_SHAPE,        -6, "a tensor is missing, unknown or of the wrong shape") \
    X(TRF_E_UNSUPPORTED,  -7, "well formed, but this version cannot do it") \
    X(TRF_E_CHECKSUM,     -8, "the data of a file were damaged") \
    X(TRF_E_NONFINITE,    -9, "a number is infinite or not a number") \
    X(TRF_E_STATE,       -10, "the call does not fit the state of the object") \
    X(TRF_E_BACKEND,     -11, "the device or its library failed") \
    X(TRF_E_INTERNAL,    -12, "a bug in transformer.h") \
    X(TRF_E_CANCELLED,   -13, "the cancel hook asked to stop") \
    X(TRF_E_END,         -14, "the corpus has delivered its last epoch")

typedef enum trf_status {
#define TRF__X(name, value, text) name = value,
    TRF_STATUS_LIST(TRF__X)
#undef TRF__X
    TRF_STATUS_FORCE_SIGNED = -1000
} trf_status;

/* "TRF_E_SHAPE"; static text, any thread. */
TRF_API const char *trf_status_name(trf_status status);

/* Describes one error. Plain data in the caller's memory; nothing to free. Every call takes a
   trf_error *, which may be NULL. On success it is cleared. On failure it is filled, and nothing
   else has changed: output pointers are NULL, counts 0, texts empty, objects and arrays as they
   were, unless the call's own comment says otherwise. (After TRF_E_BACKEND the step may or may not
   have been applied, and output arrays are unspecified.) */
typedef struct trf_error {
    int32_t status;         /* a trf_status */
    int32_t sys_errno;      /* errno of a failed system call, or 0 */
    int64_t where;          /* byte offset, position in a sequence, or step; -1 if there is none */
    char what[64];          /* the tensor, field or argument; here and below control characters are '?' */
    char message[256];      /* one English sentence: what was expected and what was found */
} trf_error;

enum { TRF_LOG_INFO = 0, TRF_LOG_WARNING = 1 };

/* What an object asks of the program it lives in. All optional (alloc and free: both or neither), copied when the
   object is made, called only by the thread that is in the call; `user` is handed back to each of them.
   alloc returns memory aligned to `align` (a power of two, at most 64), or NULL; free gets the same `bytes` back.
   (A vocabulary of subwords allocates while it encodes: where threads share one, its two must bear that.)
   log gets one sentence without a newline; the default is silent. cancel is asked at least once per layer (once per
   batch, where a GPU plays a step that it has recorded) and per decoded token (in backward only while nothing has
   been accumulated yet); non-zero makes the running call return TRF_E_CANCELLED. A cancelled step has done nothing:
   make it again with the same batch, or save a checkpoint, from which a resumed run begins with that batch. */
typedef struct trf_hooks {
    void *user;
    void *(*alloc)(void *user, size_t align, size_t bytes);
    void (*free)(void *user, void *memory, size_t bytes);
    void (*log)(void *user, int level, const char *message);
    int (*cancel)(void *user);
} trf_hooks;

typedef enum trf_device_kind { TRF_DEVICE_CPU = 0, TRF_DEVICE_CUDA = 1 } trf_device_kind;

/* How wide the numbers of a forward and a backward pass are. TRF_PRECISION_BF16 is for CUDA alone:
   activations, their gradients and the weights in products have 16 bits; weights, their gradients,
   Adam's moments and every sum keep 32. No loss scaling is needed. The blocks (>>api-blocks)
   compute in float32 all the same. Not saved in files. */
typedef enum trf_precision { TRF_PRECISION_FLOAT32 = 0, TRF_PRECISION_BF16 = 1 } trf_precision;

/* Which matrix product the CPU computes with.
   AUTO      the default: BUILT_IN where this code was compiled for vectors of eight numbers or more
             (AVX2, AVX-512 in float), as it is as fast there as OpenBLAS or faster; else CBLAS, which
             is two to three times as fast as BUILT_IN with SSE2 (tools/bench.md)
   CBLAS     in training for more than 16 rows; in translators and generators, which pack their
             weights, for more than 512; in attention never. TRF_E_BACKEND in a build without it
   BUILT_IN  never CBLAS
   Not saved in files. */
typedef enum trf_products { TRF_PRODUCTS_AUTO = 0, TRF_PRODUCTS_CBLAS = 1, TRF_PRODUCTS_BUILT_IN = 2 } trf_products;

/* Where to compute. TRF_DEVICE_CUDA needs a copy built with it (see the first page) and a GPU, or creating an object
   is TRF_E_BACKEND; results there equal the CPU's to rounding, dropout included, and are the same bits in every run
   on the same card and libraries. Each object's device is its own: one program may use both.

   Threads. `threads` says on how many every object computes that uses this device: the trainers,
   translators and generators of a model whose config.device, or trf_load_options.device, it is, and
   a context or an updater that is given it. An object that needs another number has `threads` of its
   own in trf_train_options, trf_search or trf_sampling, which counts unless it is 0. Results are the
   same bits for every number.
   Each object has threads of its own: the one that calls, whichever that is, and `threads` - 1 more.
   Those start when the object is created, or creation is TRF_E_NOMEM, and have ended when destroying
   it returns. While nothing is computed they sleep. They call no hook, block all signals, and have a
   stack of 256 KiB each. In a child of fork() the objects of the parent compute on the calling thread
   alone; objects created there have threads. On Windows no object may be destroyed inside DllMain.
   There is one thread, whatever `threads` says, with TRF_NO_THREADS, in WebAssembly without -pthread,
   on systems that are neither POSIX nor Windows, and with compilers other than GCC and Clang.

   OpenBLAS. Where products go to it, it is its pthread build alone, in at most 64 threads at a time, each of which
   needs 128 MB of address space (or creation is TRF_E_NOMEM); its thread number is 1 while an op runs and then as it
   was. A child of fork() may use it if no thread of the parent was in a call then. */
typedef struct trf_device {
    trf_device_kind kind;
    int32_t threads;                /* 1..4096: of each object that computes here; see above */
    int32_t index;                  /* which of several GPUs, from 0 */
    trf_precision precision;
    trf_products products;
} trf_device;

TRF_API trf_device trf_device_default(void);   /* the CPU, a thread for each processor this process may use */

/* A named, shaped view on memory that somebody else owns; row-major, the last index runs fastest. On a device with
   memory of its own the parameters and gradients of a model have no `data`: trf_tensor_read and _write reach them on
   every device. */
enum { TRF_MAX_RANK = 4 };
typedef struct trf_tensor {
    const char *name;               /* "encoder.layers.0.linear1.weight", or NULL */
    trf_real *data;                 /* in the host's memory, or NULL */
    int32_t rank;
    int64_t shape[TRF_MAX_RANK];    /* entries beyond rank are 1 */
    const void *home;               /* private: the device, and the address there, of a tensor without data */
    trf_real *there;
} trf_tensor;

/* A view of rank 1, 2 or 3, without a name; n1 and n2 count only as far as the rank goes. */
TRF_API trf_tensor trf_tensor_of(trf_real *data, int32_t rank, int64_t n0, int64_t n1, int64_t n2);
TRF_API int64_t trf_tensor_count(const trf_tensor *tensor);     /* elements; 0 if the shape makes no sense */
/* Copies all `count` numbers of a tensor (else TRF_E_SHAPE) into the caller's memory, or back. */
TRF_API trf_status trf_tensor_read(const trf_tensor *tensor, trf_real *numbers, int64_t count, trf_error *err);
TRF_API trf_status trf_tensor_write(const trf_tensor *tensor, const trf_real *numbers, int64_t count,
                                    trf_error *err);

/* How this copy was built: version, type, vector width, whether CBLAS is there, threads, columns;
   and "not optimised" if GCC or clang compiled it without -O. A model that computes with such code
   logs a warning when it is created or loaded. */
TRF_API const char *trf_build_info(void);

// -----------------------------------------------------------------------------------------------
// >>api-config     what a model is, and the conventions in which systems differ
//
// The same paper is computed differently by different systems: where a norm stands, how positions are made, how
// weights start. These points are fields of trf_config, each value names a system that does it so, and files keep
// them all. Those of training are in trf_train_options, those of the search in trf_search.
// -----------------------------------------------------------------------------------------------

typedef enum trf_kind {
    TRF_ENCODER_DECODER = 0,
    TRF_ENCODER_ONLY    = 1,    /* hidden states (trf_encode), or what its head makes of them */
    TRF_DECODER_ONLY    = 2     /* language model: the target side alone, next-token loss */
} trf_kind;

/* GELU: x Phi(x) by erf, not by tanh; SILU: x sigmoid(x). */
typedef enum trf_activation { TRF_RELU = 0, TRF_GELU = 1, TRF_SILU = 2 } trf_activation;

/* Position p, feature pair i of d_model = d, N = d/2 (paper 3.5; definitions differ between systems). */
typedef enum trf_positions {
    TRF_POSITIONS_INTERLEAVED = 0,  /* sin, cos, sin, cos...; angle p / 10000^(2i/d): paper, PyTorch tutorials */
    TRF_POSITIONS_HALVES_N1   = 1,  /* all sines, then cosines; p / 10000^(i/(N-1)): tensor2tensor, fairseq, Marian */
    TRF_POSITIONS_HALVES      = 2,  /* all sines, then cosines; p / 10000^(2i/d): Hugging Face Marian */
    TRF_POSITIONS_LEARNED     = 3,  /* for each side a parameter (max_length + position_offset, d) */
    TRF_POSITIONS_NONE        = 4
} trf_positions;

typedef enum trf_norm_place {
    TRF_POST_NORM = 0,      /* x = norm(x + sublayer(x)): the paper */
    TRF_PRE_NORM  = 1       /* x = x + sublayer(norm(x)) */
} trf_norm_place;

typedef enum trf_norm_rule {
    TRF_NORM_STANDARD  = 0, /* (x - mean) / sqrt(var + epsilon), var biased: PyTorch and nearly everybody */
    TRF_NORM_ANNOTATED = 1  /* (x - mean) / (s + epsilon), s unbiased: The Annotated Transformer */
} trf_norm_rule;

typedef enum trf_tying {
    TRF_UNTIED        = 0,
    TRF_TIED_DECODER  = 1,  /* target embedding = generator weight */
    TRF_TIED_ALL      = 2   /* source embedding = target embedding = generator weight: one vocabulary */
} trf_tying;

/* Weights of attention, feed-forward and heads: uniform +-sqrt(6/(in+out)) (Glorot and Bengio 2010). Biases start at
   zero (nn.Transformer's in feed-forward: uniform +-1/sqrt(in)), norms at gain 1, bias 0. */
typedef enum trf_init {
    TRF_INIT_XAVIER_PACKED = 0, /* q, k and v count as one (3d, d) matrix: nn.Transformer */
    TRF_INIT_XAVIER        = 1  /* q, k and v count as three (d, d) matrices: tensor2tensor, tutorials */
} trf_init;

/* Embeddings, learned positions, and the generator's weight where it is a matrix of its own. */
typedef enum trf_embedding_init {
    TRF_EMBEDDING_NORMAL_D = 0, /* normal, deviation 1/sqrt(d_model): tensor2tensor, fairseq */
    TRF_EMBEDDING_NORMAL_1 = 1, /* normal, 1; generator and its bias uniform +-1/sqrt(d): nn.Embedding, nn.Linear */
    TRF_EMBEDDING_XAVIER   = 2, /* uniform +-sqrt(6/(vocab+d_model)): tutorials */
    TRF_EMBEDDING_FAN_OUT  = 3  /* uniform +-sqrt(3/d_model): Marian */
} trf_embedding_init;

/* What the decoder reads before its first token. */
typedef enum trf_decoder_start {
    TRF_START_BOS  = 0,
    TRF_START_EOS  = 1,     /* fairseq */
    TRF_START_PAD  = 2,     /* Hugging Face Marian */
    TRF_START_ZERO = 3      /* a zero vector: Marian */
} trf_decoder_start;

/* What an encoder-only model makes of its output, and is trained on: logits z = x W^T + b, where x is the row of a
   token or one row for each sequence, and their cross-entropy. Labels: see trf_batch. */
typedef enum trf_head {
    TRF_HEAD_NONE   = 0,    /* no logits: the model cannot be trained as a whole */
    TRF_HEAD_MEAN   = 1,    /* one label a sequence (trf_classify): x is the mean of its rows, EOS's included */
    TRF_HEAD_FIRST  = 2,    /* one label a sequence (trf_classify): x is its first row (BERT, less its tanh) */
    TRF_HEAD_TOKENS = 3,    /* one label a token (trf_tag) */
    TRF_HEAD_MASKED = 4     /* for each token the one that belongs there (trf_logits). pad may stand in sources: it is
                               the mask (BERT, without its layer before W). W is the source embedding, tied */
} trf_head;

/* Options are literal: what stands in the struct is what happens. Fill it with a preset, then change
   fields. trf_model_create names any field that makes no sense. The paper's letters in brackets. */
typedef struct trf_config {
    trf_kind kind;
    int32_t d_model;            /* width of every token's vector [d_model]; 1..65536 */
    int32_t n_heads;            /* attention heads; divides d_model [h] */
    int32_t d_ff;               /* inner width of the feed-forward block [d_ff]; 1..2^20 */
    int32_t encoder_layers;     /* [N] 1..256; 0 when kind has no encoder */
    int32_t decoder_layers;     /* [N] 1..256; 0 when kind has no decoder */
    int32_t source_vocab;       /* number of source tokens, the four special ids included; 5..2^24 */
    int32_t target_vocab;       /* the same on the target side; equal to source_vocab when all is tied */
    int32_t max_length;         /* rows of the longest sequence: its ids, and EOS if added; 2..2^20, default 512 */
    int32_t pad, bos, eos, unk; /* special ids, all different; default 0 1 2 3. Batches need no padding */
    trf_activation activation;
    trf_positions positions;
    int32_t position_offset;    /* number of the first position; 0..2^20, default 0; fairseq 2, CTranslate2 1 */
    trf_norm_place norm_place;
    trf_norm_rule norm_rule;
    double norm_epsilon;        /* 1e-30..1, default 1e-5 */
    int32_t final_norm;         /* 1: one more norm after the last encoder and the last decoder layer */
    int32_t scale_embeddings;   /* 1: embeddings are multiplied by sqrt(d_model) (paper 3.4) */
    trf_tying tying;            /* decoder-only: not ALL; encoder-only: UNTIED (TRF_HEAD_MASKED has its own) */
    int32_t generator_bias;     /* 1: the vocabulary projection has a bias */
    trf_init init;
    trf_embedding_init embedding_init;
    int32_t source_eos;         /* 1: the library ends every source with EOS */
    int32_t target_eos;         /* 1, the default: and every target, so n ids are n + 1 rows; 0: n ids
                                   are n rows, the caller adds EOS, and decoding still stops at it */
    trf_decoder_start decoder_start;
    trf_head head;              /* of an encoder-only model; default 0, which it is in the others */
    int32_t n_labels;           /* 2..2^24 for the heads of labels, MEAN, FIRST and TOKENS; else 0 */
    uint64_t seed;              /* of the initial weights; every value is a seed */
    trf_device device;          /* not stored in files */
    trf_hooks hooks;            /* not stored in files */
} trf_config;

/* Presets: layers encoder + decoder, d_model, d_ff, heads. Conventions are PyTorch's, but for two fields: pre-norm,
   which learns at rates and without a warm-up that post-norm does not bear (Xiong et al. 2020), and embeddings that
   start with deviation 1/sqrt(d_model), as nn.Transformer has none of its own. Vocabulary sizes are 0: the caller
   sets them. trf_recipe_find chooses all of it from the amounts of your data. */
TRF_API trf_config trf_config_tiny(void);   /* 4+4, 128, 256, 4 */
TRF_API trf_config trf_config_base(void);   /* 6+6, 512, 2048, 8: the paper's base */
TRF_API trf_config trf_config_big(void);    /* 6+6, 1024, 4096, 16: the paper's big */

/* Whose conventions: sets the fields in which systems differ, and no others.

                         PYTORCH            PAPER
       norm_epsilon      1e-5               1e-6
       final_norm        1                  0
       tying             TRF_UNTIED         TRF_TIED_ALL: the sizes of the vocabularies must be equal
       generator_bias    1                  0
       init              XAVIER_PACKED      XAVIER
       embedding_init    NORMAL_1           NORMAL_D

   Both: ReLU, interleaved positions from 0, post-norm, standard norm, scaled embeddings, source EOS, start BOS. */
typedef enum trf_conventions {
    TRF_CONVENTIONS_PYTORCH = 0,    /* nn.Transformer, nn.CrossEntropyLoss, torch.optim.Adam */
    TRF_CONVENTIONS_PAPER   = 1     /* Vaswani et al. 2017; where the text is silent, tensor2tensor */
} trf_conventions;
TRF_API void trf_config_set_conventions(trf_config *config, trf_conventions whose);

// -----------------------------------------------------------------------------------------------
// >>api-vocab      text to ids and back
//
// create, learn line by line, finish; then encode and decode. Models take copies (trf_model_set_vocabs) and files
// carry them. Subwords of raw text: trf_vocab_from_sentencepiece; those that another program has cut are words.
// -----------------------------------------------------------------------------------------------

/* Words are what stands between blanks (space, tab, CR, LF); characters are UTF-8 code points. */
typedef enum trf_token_kind { TRF_WORDS = 0, TRF_CHARACTERS = 1, TRF_SENTENCEPIECE = 2 } trf_token_kind;

/* Ids 0 to 3 are pad, bos, eos and unk, which read "<pad>", "<s>", "</s>", "<unk>" and are never learned from a text;
   learned tokens follow, the most frequent first, equal counts in byte order. One thread at a time while learning;
   afterwards any number of threads may use it. TRF_E_STATE: to learn more, or to use it before that. */
typedef struct trf_vocab trf_vocab;

/* Of words or characters (of subwords: trf_vocab_from_sentencepiece). */
TRF_API trf_status trf_vocab_create(trf_vocab **vocab, trf_token_kind kind, const trf_hooks *hooks, trf_error *err);
TRF_API void trf_vocab_destroy(trf_vocab *vocab);
/* Counts the tokens of one line: NUL-terminated UTF-8 without the newline, which a character
   vocabulary would count. Invalid UTF-8 is TRF_E_FORMAT with its offset; a token of more than 1 MiB
   is TRF_E_LIMIT. */
TRF_API trf_status trf_vocab_learn(trf_vocab *vocab, const char *line, trf_error *err);
/* Ends learning: keeps tokens seen at least min_count (>= 1) times, at most max_size ids in all (>= 5). */
TRF_API trf_status trf_vocab_finish(trf_vocab *vocab, int32_t max_size, int64_t min_count, trf_error *err);
/* A finished vocabulary of the subwords of a SentencePiece model, from the bytes of its file (below
   2 GiB, copied): of type unigram or BPE, with byte fallback or without. It normalises, segments
   and detokenises raw text as libsentencepiece 0.2.3 does; bytes that are not UTF-8 become U+FFFD,
   as there. Ids from 4 on are the model's pieces in their order, without unknown and control ones.
   Hostile bytes are TRF_E_FORMAT with their offset; models of words or characters, and those that
   change their answers (a denormaliser), TRF_E_UNSUPPORTED. */
TRF_API trf_status trf_vocab_from_sentencepiece(trf_vocab **vocab, const void *model, size_t bytes,
                                                const trf_hooks *hooks, trf_error *err);
/* The same of a file. */
TRF_API trf_status trf_vocab_load_sentencepiece(trf_vocab **vocab, const char *path, const trf_hooks *hooks,
                                                trf_error *err);
/* One more token behind those of a finished vocabulary of words or characters that nobody shares yet: sentinels (for
   characters: code points that no text has, as U+E000), words of a new domain. TRF_E_INVALID_ARG: it cannot be one of
   its tokens, or is one already; TRF_E_UNSUPPORTED: SentencePiece. Models have copies, which do not change. */
TRF_API trf_status trf_vocab_add(trf_vocab *vocab, const char *token, trf_error *err);
/* A copy of a finished one, such as a model's. */
TRF_API trf_status trf_vocab_copy(trf_vocab **copy, const trf_vocab *vocab, const trf_hooks *hooks, trf_error *err);
TRF_API int32_t trf_vocab_size(const trf_vocab *vocab);     /* with the special ids; 4 until it is finished */
TRF_API trf_token_kind trf_vocab_kind(const trf_vocab *vocab);
/* NULL if out of range; lives until the next trf_vocab_add. */
TRF_API const char *trf_vocab_token(const trf_vocab *vocab, int32_t id);
/* The unk id for an unknown token, and for the spelling of a special token: no text can contain a
   special id. */
TRF_API int32_t trf_vocab_id(const trf_vocab *vocab, const char *token);
/* Text to ids, without BOS and EOS; unknown tokens become unk. Bytes that are not UTF-8 are TRF_E_FORMAT with their
   offset; for subwords they are U+FFFD. *n is the number of tokens of the whole text also when it is more than
   capacity; then the status is TRF_E_LIMIT and the first `capacity` ids are written. */
TRF_API trf_status trf_vocab_encode(const trf_vocab *vocab, const char *text, int32_t *ids, int32_t capacity,
                                    int32_t *n, trf_error *err);
/* How many tokens of a text are unknown: those that trf_vocab_encode makes unk. *n (may be NULL) is the number of all
   its tokens. Fails as trf_vocab_encode does, but for a capacity. */
TRF_API trf_status trf_vocab_count_unknown(const trf_vocab *vocab, const char *text, int32_t *unknown, int32_t *n,
                                           trf_error *err);
/* Ids to text: words with one blank between them, characters without, subwords as SentencePiece does. *bytes (may be
   NULL) is the length of the whole text without its NUL, also when `size` was too small (TRF_E_LIMIT, cut at a whole
   token). Special ids are skipped, except unk. Subwords with byte fallback may write a NUL: *bytes counts it, while
   strlen and %s would end there. */
TRF_API trf_status trf_vocab_decode(const trf_vocab *vocab, const int32_t *ids, int32_t n, char *text, size_t size,
                                    size_t *bytes, trf_error *err);

// -----------------------------------------------------------------------------------------------
// >>api-model      a configuration and its weights
//
// A model is data: it computes nothing. A trainer changes its weights, translators read them.
// -----------------------------------------------------------------------------------------------

/* After creation nobody but its trainer changes a model; any number of threads may share it.
   Translating with a model while its trainer steps is a data race: use trf_model_copy. */
typedef struct trf_model trf_model;

TRF_API trf_status trf_model_create(trf_model **model, const trf_config *config, trf_error *err);
TRF_API trf_status trf_model_copy(trf_model **copy, const trf_model *model, trf_error *err);
TRF_API void trf_model_destroy(trf_model *model);       /* trainers and translators first; NULL is legal */
TRF_API const trf_config *trf_model_config(const trf_model *model);
TRF_API size_t trf_model_memory(const trf_config *config);  /* bytes that trf_model_create will take; 0 if invalid */

/* Vocabularies travel in the model file. The model keeps copies of finished ones; NULL: none on that side. Sizes must
   fit the configuration, and its special ids be 0 1 2 3 (else TRF_E_SHAPE). Call it before sharing the model. */
TRF_API trf_status trf_model_set_vocabs(trf_model *model, const trf_vocab *source, const trf_vocab *target,
                                        trf_error *err);
TRF_API const trf_vocab *trf_model_source_vocab(const trf_model *model);    /* NULL if the model has none */
TRF_API const trf_vocab *trf_model_target_vocab(const trf_model *model);

/* Texts of your own under keys of your own, which travel with the model: into copies, into model files and
   checkpoints (as metadata of safetensors, under the same keys), and back; those that other programs have written
   stay too. Keys are 1 to 255 bytes; "format" and those that begin with "trf." belong to the library
   (TRF_E_INVALID_ARG). Both are UTF-8 (else TRF_E_FORMAT with its offset). value NULL: no such text any more. All
   keys and values together may be 1 MiB and 65,000 texts, those that a file brings 8 MiB and 120,000 (TRF_E_LIMIT).
   To be called before the model is shared with other threads, but also while it has a trainer and translators.
   Each call copies all texts once. */
TRF_API trf_status trf_model_set_metadata(trf_model *model, const char *key, const char *value /* or NULL */,
                                          trf_error *err);
/* Keys in the order of their bytes; out of range: NULL. What is returned lives until the next change. */
TRF_API int32_t trf_model_metadata_count(const trf_model *model);
TRF_API void trf_model_metadata_at(const trf_model *model, int32_t index, const char **key, const char **value);
TRF_API const char *trf_model_metadata(const trf_model *model, const char *key);    /* NULL if there is none */

/* Parameters by number, names and shapes as in PyTorch's nn.Transformer; a tied matrix appears
   once. The view of trf_parameter is for reading. You may write through trf_model_parameter's while
   the model has no trainer and no translator, as these keep copies of its weights; beside a trainer
   write through trf_trainer_parameter's. A wrong number gives a view without data and elements. */
TRF_API int32_t trf_parameter_count(const trf_model *model);
TRF_API int64_t trf_parameter_total(const trf_model *model);                /* number of weights */
TRF_API trf_tensor trf_parameter(const trf_model *model, int32_t index);
TRF_API trf_tensor trf_model_parameter(trf_model *model, int32_t index);
TRF_API int32_t trf_parameter_index(const trf_model *model, const char *name);  /* -1 if there is none */
/* The model's weights become the mean of those of `count` models (1 or more, itself among them or not), summed in
   double; it may have no trainer and no translator. Their configurations must be the model's, but for seed, device
   and hooks, else TRF_E_SHAPE with the field and, in `where`, the number of the model. */
TRF_API trf_status trf_model_average(trf_model *model, trf_model *const *models, int32_t count, trf_error *err);
/* To begin from what another model has learned: parameters of one name (a tied matrix has one name) become those of
   `from`; where that has more rows or fewer, as with a vocabulary or max_length that has grown, the rows that both
   have. The rest, parameters that only one of them has, and head.bias, where one is of labels, the other of tokens,
   stay as they are. *copied (may be NULL) is the number of parameters that were written. Other columns under
   one name: TRF_E_SHAPE, nothing was copied. The model may have no trainer and no translator; the two may differ in
   everything else, their devices included. */
TRF_API trf_status trf_model_copy_weights(trf_model *model, const trf_model *from, int32_t *copied, trf_error *err);

// -----------------------------------------------------------------------------------------------
// >>api-batch      sequences without padding
//
// Three ways to a batch: fill the two structs, convert padded arrays, or let a corpus cut its pairs into batches.
// -----------------------------------------------------------------------------------------------

/* `count` sequences, their ids one after another: sequence i has lengths[i] ids. No BOS, no EOS, no
   padding: the library adds what the configuration asks for and shifts the target itself. Borrowed for
   the call. A special id in a sequence is TRF_E_INVALID_ARG with its position, except unk, and EOS in targets
   where target_eos is 0. */
typedef struct trf_sequences {
    const int32_t *ids;
    const int32_t *lengths;
    int32_t count;
} trf_sequences;

/* Where a batch stands in its corpus; all zeros: nowhere. A checkpoint holds the place behind the
   last batch that its updates have seen: batches drawn but not yet applied are drawn again. All
   parts of one batch belong to one update, which may have several batches; every rank draws from a
   corpus of its own that is the same, and takes its part. */
typedef struct trf_place {
    uint64_t corpus;            /* fingerprint of its pairs and of the options that decide their order */
    int64_t epoch, batch;
} trf_place;

/* Pairs for training and scoring. Encoder-only models use the source, decoder-only models the target. For a head
   (trf_head) target holds labels, 0 to n_labels - 1, or ids where masked tokens are asked for: MEAN and FIRST exactly
   one a sequence, which may not be empty; TOKENS and MASKED exactly as many as the source has ids (EOS has none). -1:
   nothing is asked for here, and nothing counts. All else is TRF_E_INVALID_ARG, with its place. */
typedef struct trf_batch {
    trf_sequences source, target;
    int64_t ordinal;            /* of the first pair in the step: 0, or on rank r the pairs of the ranks before. The
                                   trainer itself counts on through the batches of a step */
    trf_place place;            /* set by trf_corpus_next, kept in copies and parts; zeros in batches of your own */
} trf_batch;

/* From and to padded (count, width) arrays: pad marks filling and may stand only at the end of a row. lengths has
   room for count numbers, ids for *total, the number of ids without padding; a NULL `ids` only counts them. */
TRF_API trf_status trf_from_padded(const int32_t *padded, int32_t count, int32_t width, int32_t pad,
                                   int32_t *ids, int32_t *lengths, int64_t *total, trf_error *err);
TRF_API trf_status trf_to_padded(const trf_sequences *sequences, int32_t width, int32_t pad, int32_t *padded,
                                 trf_error *err);

#define TRF_ENDLESS INT64_MAX

/* Training data in memory: pairs of id sequences, delivered shuffled, in batches of similar length.
   Its position is part of a checkpoint. */
typedef struct trf_corpus trf_corpus;
typedef struct trf_corpus_options {
    int32_t batch_tokens;       /* at most so many a side, each sequence's ids and one (BOS or EOS, even if none is
                                   added); a longer pair is alone; default 4096 */
    int32_t batch_sentences;    /* and at most so many pairs; default 1024 */
    int32_t padded_budget;      /* 1: batch_tokens counts the longest side times the pairs, as padded systems do */
    int32_t shuffle;            /* 1: new order each epoch; 0: as added; default 1 */
    int32_t buckets;            /* 1: pairs of similar length share a batch; default 1 */
    int32_t max_length;         /* pairs with more ids on a side are refused by trf_corpus_add; default 511 */
    int64_t epochs;             /* TRF_E_END after so many passes; default TRF_ENDLESS */
    uint64_t seed;              /* of the order; default 0 */
    trf_hooks hooks;
} trf_corpus_options;

TRF_API trf_corpus_options trf_corpus_defaults(void);
TRF_API trf_status trf_corpus_create(trf_corpus **corpus, const trf_corpus_options *options, trf_error *err);
TRF_API void trf_corpus_destroy(trf_corpus *corpus);
/* Copies the ids, or in the target labels. More than max_length: TRF_E_LIMIT. After trf_corpus_next: TRF_E_STATE. */
TRF_API trf_status trf_corpus_add(trf_corpus *corpus, const int32_t *source, int32_t n_source,
                                  const int32_t *target, int32_t n_target, trf_error *err);
/* The same of two texts, encoded here. A NULL vocabulary: that side is empty, its text is not read (not both). More
   than max_length ids: TRF_E_LIMIT, with their number; text that is not UTF-8: TRF_E_FORMAT with its offset (subwords
   take it for U+FFFD). */
TRF_API trf_status trf_corpus_add_text(trf_corpus *corpus, const trf_vocab *source_vocab, const char *source,
                                       const trf_vocab *target_vocab, const char *target, trf_error *err);
/* A long text for a language model: pairs with no source and targets of `length` ids, the last one shorter. All are
   added or none; refused as by trf_corpus_add, with the position among all n. */
TRF_API trf_status trf_corpus_add_chunks(trf_corpus *corpus, const int32_t *ids, int64_t n, int32_t length,
                                         trf_error *err);
TRF_API int64_t trf_corpus_size(const trf_corpus *corpus);      /* pairs */
/* The next batch, valid until the next call: a step that was cancelled can be made again with it. TRF_E_END after the
   last epoch: a loop's normal end. An epoch's last batch is as small as what is left; a pair over the budget has a
   batch of its own. */
TRF_API trf_status trf_corpus_next(trf_corpus *corpus, trf_batch *batch, trf_error *err);
TRF_API int64_t trf_corpus_epoch(const trf_corpus *corpus);     /* complete passes so far */
/* Back to the first batch of the first epoch: the same batches again, in the same order. */
TRF_API void trf_corpus_rewind(trf_corpus *corpus);

/* Batches to learn from, made out of the sources of plain ones. Of a sequence's n ids k = round(density * n), ties to
   even, are noise:

   MASKS   at least one. Words are chosen in random order, skipping those that would exceed k (but
           not the last, if there is none yet). Each of their ids becomes `mask` with probability
           `masked`, any id from 4 to vocab - 1 with probability `randomised`, or stays. The target
           has the chosen ids, and -1 elsewhere: see TRF_HEAD_MASKED.
   SPANS   1 to n - 1 of them, in round(k / mean_span) spans, but 1 to min(k, n - k, n_sentinels). Plain and noisy
           spans take turns up to a noisy one at the end; all ways to cut the k and the n - k ids are as likely.
           Source: noisy span i is the id first_sentinel + i (T5 counts down); target: that, then the span's ids:
           9 4 7 5 8 becomes 9 <0> 5 <1> and <0> 4 7 <1> 8
   PREFIX  the source is the first 1 to n - 1 ids, all as likely, and the target what follows.

   SPANS and PREFIX leave a sequence of one id as it is, with an empty target. */
typedef enum trf_noise_kind {
    TRF_NOISE_MASKS  = 0,       /* Devlin et al. 2019, 3.1; BERT's create_pretraining_data.py */
    TRF_NOISE_SPANS  = 1,       /* Raffel et al. 2020, 3.1.4; T5's random_spans_noise_mask */
    TRF_NOISE_PREFIX = 2        /* the same, 3.2.1; T5's random_prefix_noise_mask */
} trf_noise_kind;
typedef struct trf_noise_options {
    trf_noise_kind kind;
    double density;             /* 0..1; default 0.15 */
    double masked, randomised;  /* 0..1, and their sum; default 0.8 and 0.1 */
    int32_t whole_words;        /* MASKS: 1: words are chosen whole; default 0: every token is a word */
    double mean_span;           /* 1..1e6; default 3 */
    int32_t mask;               /* 0..vocab - 1; default 0: pad, which no text has */
    int32_t vocab;              /* MASKS: number of tokens, 5..2^24; has to be set: the default is 0 */
    int32_t first_sentinel, n_sentinels;    /* SPANS: 4..2^24, 1..2^24; no source may have them; default 0 */
    const trf_vocab *words;     /* tells where words begin (borrowed): at a SentencePiece's blank; among characters a
                                   blank is a word; ids beyond it are words; NULL: all are */
    uint64_t seed;              /* default 0 */
    trf_hooks hooks;
} trf_noise_options;

typedef struct trf_noise trf_noise;
TRF_API trf_noise_options trf_noise_defaults(void);
TRF_API trf_status trf_noise_create(trf_noise **noise, const trf_noise_options *options, trf_error *err);
TRF_API void trf_noise_destroy(trf_noise *noise);
/* made (which may be plain) is valid until the next call, and keeps place and ordinal. What a sequence draws follows
   from seed, place.epoch, place.batch and ordinal + its number in the batch: parts of a batch that tell ordinals draw
   as the whole does (in batches of your own, count place.batch; a trainer wants the ordinal of the step in all of
   them). Negative ids, those from vocab on and sentinels are TRF_E_INVALID_ARG with the position. After a failure
   made is empty. */
TRF_API trf_status trf_noise_apply(trf_noise *noise, const trf_batch *plain, trf_batch *made, trf_error *err);

// -----------------------------------------------------------------------------------------------
// >>api-files      safetensors, and how a model is written in it
//
// The message of an error about a file begins with its path, or with the last hundred bytes of it.
//
// A model file is a safetensors file: the parameters under their names, vocabularies as tensors of bytes, the
// configuration and texts of your own as metadata (field by field at >>store). Weights may be F32, F64, F16 or BF16,
// and may carry the prefix `transformer.`, and all of them `module.` or `_orig_mod.` before it; the CRC-32 of
// the data is checked where the file has one. Of a checkpoint trf_model_load takes the model and leaves the rest.
// -----------------------------------------------------------------------------------------------

typedef struct trf_load_options {
    const trf_config *config;   /* for files without our metadata (a PyTorch state_dict); else NULL. Not its device
                                   and hooks: those below count */
    uint64_t max_bytes;         /* refuse larger files with TRF_E_LIMIT; default 64 GiB */
    int32_t allow_nonfinite;    /* 1: weights may be infinite or NaN; default 0: TRF_E_NONFINITE */
    trf_device device;
    trf_hooks hooks;
} trf_load_options;

TRF_API trf_load_options trf_load_defaults(void);
TRF_API trf_status trf_model_load(trf_model **model, const char *path, const trf_load_options *options,
                                  trf_error *err);
/* Temporary file beside it, fsync, rename, fsync of the folder: the old file or the new one, never
   half. A symbolic link at `path` is replaced by the file, not followed. Any number of programs may
   save there at a time. A program that is killed here leaves a file path.tmp-... behind. The next
   save there removes it once its lock (flock) is free; not on Windows, nor where files cannot be
   locked, nor beyond four that save at a time. A program whose file size is limited (RLIMIT_FSIZE)
   should ignore SIGXFSZ, which otherwise ends it: saving is then TRF_E_IO, errno EFBIG. */
TRF_API trf_status trf_model_save(const trf_model *model, const char *path, trf_error *err);

/* How weights are stored. BF16 and F16 take half the bytes of F32; each weight is the nearest number there is, of two
   as near the one whose last bit is 0. Loading widens them again, and a model that is saved as it was loaded has the
   same bits. A weight that would become infinite (above 65,504 in F16, 3.3e38 in BF16) is TRF_E_NONFINITE with the
   tensor's name and, in `where`, the number of the weight. */
typedef enum trf_weights {
    TRF_WEIGHTS_FULL = 0,       /* F32; F64 in a TRF_DOUBLE build: trf_model_save */
    TRF_WEIGHTS_BF16 = 1,       /* 8 significant bits and the range of F32 */
    TRF_WEIGHTS_F16  = 2        /* 11 significant bits, down to 6e-8 */
} trf_weights;
TRF_API trf_status trf_model_save_as(const trf_model *model, const char *path, trf_weights weights, trf_error *err);

/* The same bytes in the caller's memory. Saving: *bytes (may be NULL) is their number also when `size` is too small
   (TRF_E_LIMIT, nothing is written); buffer may be NULL where size is 0. Loading makes the checks that it makes of
   files, and copies what it needs; messages begin with "memory". */
TRF_API trf_status trf_model_save_memory(const trf_model *model, trf_weights weights, void *buffer, size_t size,
                                         size_t *bytes, trf_error *err);
TRF_API trf_status trf_model_load_memory(trf_model **model, const void *bytes, size_t n,
                                         const trf_load_options *options, trf_error *err);

/* The container alone, of any safetensors file. Header and extents are proven before anything is returned; the file
   stays open. Names and texts live until trf_file_close. dtype: "F32", "BF16", ... One thread at a time. */
typedef struct trf_file trf_file;
typedef struct trf_file_entry {
    const char *name, *dtype;
    int32_t rank;
    int64_t shape[8];
    uint64_t begin, bytes;      /* of the data, counted from the start of the file */
} trf_file_entry;
TRF_API trf_status trf_file_open(trf_file **file, const char *path, const trf_load_options *options, trf_error *err);
/* One that is in memory, which is borrowed until trf_file_close and may not change. */
TRF_API trf_status trf_file_open_memory(trf_file **file, const void *bytes, size_t n,
                                        const trf_load_options *options, trf_error *err);
TRF_API void trf_file_close(trf_file *file);
TRF_API int32_t trf_file_count(const trf_file *file);
TRF_API trf_file_entry trf_file_at(const trf_file *file, int32_t index);
/* Numbers first .. first + count - 1 of tensor `index`, counted as they lie in the file: F32, F64, F16 or BF16, else
   TRF_E_UNSUPPORTED; beyond its end: TRF_E_SHAPE. Infinite ones and NaN are TRF_E_NONFINITE, unless the load options
   allow them; so is an F64 that is too large for a float. On failure `values` may be half written. */
TRF_API trf_status trf_file_read(trf_file *file, int32_t index, int64_t first, trf_real *values, int64_t count,
                                 trf_error *err);
TRF_API int32_t trf_file_metadata_count(const trf_file *file);
TRF_API void trf_file_metadata_at(const trf_file *file, int32_t index, const char **key, const char **value);
TRF_API const char *trf_file_metadata(const trf_file *file, const char *key);   /* NULL if there is none */
/* Writes a file of `n` named tensors of rank 0 to 4 (F32; F64 in a TRF_DOUBLE build), from any device, as they are,
   infinite numbers and NaN included; as trf_model_save does, the whole file or nothing. Names are 1 to 255 bytes,
   without control characters, all different, and none is "__metadata__". metadata: NULL, or key, value, key, value,
   ..., NULL: texts under keys that differ and do not begin with "trf.". All is UTF-8. At most 65,536 tensors, 65,000
   texts, and 16 MiB of names and texts. Else TRF_E_LIMIT, TRF_E_FORMAT (of two with one name `where` is the number
   of the second), TRF_E_SHAPE (sizes below 0, or too many numbers), or TRF_E_INVALID_ARG with the tensor's or text's
   number in `where`. */
TRF_API trf_status trf_file_save(const char *path, const trf_tensor *tensors, int32_t n,
                                 const char *const *metadata, const trf_hooks *hooks, trf_error *err);

// -----------------------------------------------------------------------------------------------
// >>api-translate  from ids to ids, from text to text
//
// A translator is a search (beam or greedy) over one model. It also looks inside: scores, hidden states, logits,
// attention.
// -----------------------------------------------------------------------------------------------

/* How a finished hypothesis is compared: S is the sum of log-probabilities, L its length in target tokens. A forced
   prefix, or a decoder-only model's beginning, counts in L, and with score_prefix in S. */
typedef enum trf_length_rule {
    TRF_LENGTH_RAW   = 0,       /* S */
    TRF_LENGTH_POWER = 1,       /* S / L^alpha: fairseq, CTranslate2, Marian, Hugging Face */
    TRF_LENGTH_GNMT  = 2        /* S / ((5+L)/6)^alpha: Wu et al. 2016, the paper, tensor2tensor */
} trf_length_rule;

typedef enum trf_beam_stop {
    TRF_STOP_BOUND    = 0,      /* when no live hypothesis can beat the best finished ones any more: tensor2tensor */
    TRF_STOP_FINISHED = 1,      /* when `beam` hypotheses have finished: fairseq, CTranslate2 */
    TRF_STOP_NONE_ALIVE = 2,    /* when none is alive or the limit is reached: Marian */
    TRF_STOP_HEURISTIC = 3      /* when the best `beam` finished ones are all better than the best live one as it is:
                                   Hugging Face; its early_stopping="never" is BOUND, its True is FINISHED */
} trf_beam_stop;

typedef enum trf_at_limit {
    TRF_LIMIT_KEEP_LIVE    = 0, /* live ones count as they are, without EOS: CTranslate2, Marian, Hugging Face */
    TRF_LIMIT_FALL_BACK    = 1, /* live ones count only if none has finished: tensor2tensor */
    TRF_LIMIT_FORCE_EOS    = 2  /* one more step in which only EOS is allowed: fairseq */
} trf_at_limit;

/* Options of a translator. trf_search_defaults: the paper's beam 4, GNMT rule with alpha 0.6. */
typedef struct trf_search {
    int32_t beam;               /* hypotheses kept alive, 1..1024; 1 is greedy search, whatever the rules below */
    int32_t n_best;             /* hypotheses returned per sentence, 1..beam */
    trf_length_rule length_rule;
    double alpha;               /* length penalty exponent, 0..10 */
    int32_t count_eos;          /* 1: EOS counts in L */
    int32_t score_prefix;       /* 1: a prefix counts in S; 0: it is free (tensor2tensor, CTranslate2) */
    double word_penalty;        /* this times L is subtracted from S before the rule (Marian); -1e6..1e6, default 0 */
    int32_t candidates;         /* best continuations looked at, times beam: 1 (Marian) or 2 (others); at most 16 */
    int32_t eos_in_top_beam;    /* 1: an EOS counts only among the best `beam` continuations (fairseq, CTranslate2) */
    int32_t shrink;             /* 1: a finished hypothesis takes its place in the beam with it (Marian) */
    trf_beam_stop stop;
    trf_at_limit at_limit;
    int32_t min_length;         /* target tokens before EOS is allowed; decoder-only: beyond the beginning */
    int32_t renormalise;        /* 1: EOS is masked before the softmax until then (CTranslate2); 0: it keeps its
                                   share */
    int32_t ban_unk;            /* 1: unk is never chosen (Marian), but keeps its share of the softmax; a prefix may
                                   have it; default 0 */
    double max_length_a;        /* 0..1e6; at most a * source + b target tokens without EOS, and never more than */
    int32_t max_length_b;       /* config.max_length - 1; defaults 2.0 and 20 (b >= 1 where a is 0); decoder-only:
                                   beyond the beginning */
    int32_t max_sentences;      /* sentences searched at a time, fewer where `beam` times the tokens of their answers
                                   would pass 2^31; the longest come first, and the place of one that is done goes to
                                   the next (memory: trf_translator_memory); default 32 */
    int32_t max_tokens;         /* and their source tokens, all counted as long as the longest's; default 4096 */
    int32_t threads;            /* 1..4096; default 0: as many as config.device.threads of the model */
    trf_hooks hooks;
} trf_search;

TRF_API trf_search trf_search_defaults(void);

/* Whose search: sets every field from length_rule to renormalise (word_penalty is 0 in all).

                 length         count  score    candi-  eos_in_                                  min_    renor-
                 _rule   alpha  _eos   _prefix  dates   top_beam  shrink  stop        at_limit   length  malise
   PAPER         GNMT    0.6    1      0        2       0         0       BOUND       FALL_BACK  0       0
   FAIRSEQ       POWER   1      1      1        2       1         0       FINISHED    FORCE_EOS  1       0
   CTRANSLATE2   POWER   1      1      0        2       1         0       FINISHED    KEEP_LIVE  1       1
   MARIAN        POWER   1      1      1        1       1         1       NONE_ALIVE  KEEP_LIVE  0       0
   RAW           RAW     0      1      1        1       1         0       FINISHED    FALL_BACK  0       0
   HUGGING_FACE  POWER   1      1      1        2       1         0       HEURISTIC   KEEP_LIVE  0       0

   tools/parity.py compares CTRANSLATE2 and HUGGING_FACE with the running programs, PAPER, FAIRSEQ and MARIAN with
   their formulas; what is left between them and us stands at >>search. Of a decoder-only model Hugging Face counts
   the beginning neither in S nor in L: none of these does. */
typedef enum trf_search_rule {
    TRF_SEARCH_PAPER       = 0, /* tensor2tensor, the bound computed for each sentence by itself */
    TRF_SEARCH_FAIRSEQ     = 1,
    TRF_SEARCH_CTRANSLATE2 = 2,
    TRF_SEARCH_MARIAN      = 3, /* with --normalize */
    TRF_SEARCH_RAW         = 4, /* sum of log-probabilities: tutorials, no program's; favours short answers */
    TRF_SEARCH_HUGGING_FACE = 5
} trf_search_rule;
TRF_API void trf_search_set_rule(trf_search *search, trf_search_rule whose);

/* NOT_YET: only a generator's sequences (>>api-generate). */
typedef enum trf_ended { TRF_ENDED_EOS = 0, TRF_ENDED_MAX_LENGTH = 1, TRF_ENDED_NOT_YET = 2 } trf_ended;

typedef struct trf_hypothesis {
    const int32_t *ids;         /* without BOS, EOS and a decoder-only model's beginning; with the forced prefix */
    int32_t n;
    double log_probability;     /* raw sum in nats, EOS included where there is one, forced tokens in any case */
    const double *log_probabilities;    /* of each of the n ids, in nats, and behind them EOS's where it has
                                           ended them.
                                   beginning + the first + the second + ..., added in this order, is log_probability
                                   to the last bit. NULL in a session that transformer.h 0.2.0 has saved */
    double beginning;           /* of a decoder-only model's beginning, where a translator has scored it; else 0 */
    double score;               /* after the length rule; what the ranking uses */
    trf_ended ended;
    int32_t proven;             /* 1: nothing that the search dropped could have scored higher */
} trf_hypothesis;

/* Caches, beams, scratch, all of which grow to what the calls bring; one thread at a time. The
   model must outlive it. It takes a snapshot of the weights: create a new one after more training.
   NULL search: the defaults. */
typedef struct trf_translator trf_translator;

TRF_API trf_status trf_translator_create(trf_translator **translator, const trf_model *model,
                                         const trf_search *search, trf_error *err);
TRF_API void trf_translator_destroy(trf_translator *translator);
/* Bytes that a new translator holds at most until the end of a first call with `sentences` sources (or beginnings) of
   `source_tokens` ids each, if answers are as long as they may be. Sources of mixed lengths take no more than their
   longest does with max_tokens = INT32_MAX. 0: there can be no such call. NULL search: the defaults. Prefixes longer
   than an answer may be take more. */
TRF_API size_t trf_translator_memory(const trf_config *config, const trf_search *search, int32_t sentences,
                                     int32_t source_tokens);

/* One sequence, the best answer. *n is its length also when capacity is too small (TRF_E_LIMIT, the first `capacity`
   ids are written). For a decoder-only model `source` is the beginning, and the answer is what follows it. */
TRF_API trf_status trf_translate(trf_translator *translator, const int32_t *source, int32_t n_source,
                                 int32_t *target, int32_t capacity, int32_t *n, trf_error *err);
/* Text, through the model's vocabularies (TRF_E_STATE if it has none); `answer` may be `text`. `size` bytes too
   small: TRF_E_LIMIT with err->what "size", cut at a whole token; trf_hypothesis_text(translator, 0, 0, ...) then has
   the length and the whole, at no further cost, and with its length where a NUL may be in it. A text longer
   than max_length is TRF_E_LIMIT, too, with no answer. An empty text is translated as an empty sequence is.
   Bytes that are not UTF-8: see trf_vocab_encode. */
TRF_API trf_status trf_translate_text(trf_translator *translator, const char *text, char *answer, size_t size,
                                      trf_error *err);
/* Many; the results stay in the translator until its next call. */
TRF_API trf_status trf_translate_batch(trf_translator *translator, const trf_sequences *sources, trf_error *err);
/* Many, each answer beginning with prefixes' sequence of the same number (empty ones are free); only for
   encoder-decoder models. */
TRF_API trf_status trf_translate_prefixed(trf_translator *translator, const trf_sequences *sources,
                                          const trf_sequences *prefixes, trf_error *err);
/* Results of the last call: at most n_best for each sentence, rank 0 is the best; 0 and NULL if out of range. */
TRF_API int32_t trf_hypothesis_count(const trf_translator *translator, int32_t sentence);
TRF_API const trf_hypothesis *trf_hypothesis_at(const trf_translator *translator, int32_t sentence, int32_t rank);
/* One of them as text, as trf_vocab_decode writes it: *bytes (may be NULL) is the length of the whole without its
   NUL, also when `size` was too small (TRF_E_LIMIT). TRF_E_INVALID_ARG: there is none of these numbers; TRF_E_STATE:
   the model has no target vocabulary. */
TRF_API trf_status trf_hypothesis_text(const trf_translator *translator, int32_t sentence, int32_t rank, char *text,
                                       size_t size, size_t *bytes, trf_error *err);

/* Log-probability of each pair, EOS included if target_eos, in nats, into log_probabilities[count]. */
TRF_API trf_status trf_score(trf_translator *translator, const trf_batch *batch, double *log_probabilities,
                             trf_error *err);
/* Teacher-forced looks inside; `out` is the caller's, its shape is checked. Rows run over the tokens of the batch as
   the library sees them: the ids, and EOS on the sides that it ends with it; row t of a target predicts its token t.
   They forget the results of the last translation.

       trf_encode   the encoder's output           (source rows, d_model)
       trf_logits   before the softmax             (target rows, target_vocab)

   Of a model with a head trf_logits reads the sources alone: (sequences, n_labels) for MEAN and FIRST, (source rows,
   n_labels) for TOKENS, (source rows, source_vocab) for MASKED. */
TRF_API trf_status trf_encode(trf_translator *translator, const trf_sequences *sources, trf_tensor *out,
                              trf_error *err);
TRF_API trf_status trf_logits(trf_translator *translator, const trf_batch *batch, trf_tensor *out, trf_error *err);
/* The softmax of a head's logits, into the caller's tensor: for sequences, heads MEAN and FIRST, (sequences,
   n_labels); for their ids, EOS left out, head TOKENS, (ids, n_labels). TRF_E_STATE: the model has another head. */
TRF_API trf_status trf_classify(trf_translator *translator, const trf_sequences *sources, trf_tensor *probabilities,
                                trf_error *err);
TRF_API trf_status trf_tag(trf_translator *translator, const trf_sequences *sources, trf_tensor *probabilities,
                           trf_error *err);
typedef enum trf_attention_kind {
    TRF_ENCODER_SELF = 0, TRF_DECODER_SELF = 1, TRF_DECODER_CROSS = 2
} trf_attention_kind;
/* Attention weights of one layer and head, both counted from 0, for a batch of one pair: (queries, keys). */
TRF_API trf_status trf_attention_weights(trf_translator *translator, const trf_batch *batch, trf_attention_kind kind,
                                         int32_t layer, int32_t head, trf_tensor *out, trf_error *err);
/* Rows that `sequences` become on each side; 0 if a length is negative. */
TRF_API int64_t trf_source_rows(const trf_model *model, const trf_sequences *sources);
TRF_API int64_t trf_target_rows(const trf_model *model, const trf_sequences *targets);

// -----------------------------------------------------------------------------------------------
// >>api-generate   sampling, token by token
//
// A generator goes on with sequences by drawing one token after another: begin, step as often as you like, look. The
// same seed gives the same answers, on the CPU to the last bit: for any threads and budgets, across saving and
// loading, and for any batch that a sequence is in (with sources: where no product is CBLAS's, see trf_products).
// -----------------------------------------------------------------------------------------------

/* How a token is drawn from its logits, in this order, which is Hugging Face's: the penalty, min_tokens, temperature,
   top_k, top_p, min_p. pad and bos are never drawn, unk only with allow_unk. Computed in double on the host. */
typedef struct trf_sampling {
    double temperature;         /* logits are divided by it; 0..1e6, default 1; 0: the most likely, of equals the
                                   lowest id (as beam 1) */
    int32_t top_k;              /* the k most likely stay, and equals of the last (Fan et al. 2018); default 0: all */
    double top_p;               /* as few of the most likely as have this probability together (Holtzman et al. 2020);
                                   0..1, default 1: all */
    double min_p;               /* those are left that have this much of the largest probability (Nguyen et al. 2024);
                                   0..1, default 0: all */
    double repetition_penalty;  /* logits of ids in the beginning or the answer are divided by it, negative ones
                                   multiplied (Keskar et al. 2019); 1e-6..1e6, default 1: none */
    int32_t max_tokens;         /* of an answer, EOS not counted; 1..INT32_MAX, default 256. Beginning and
                                   answer of an encoder-decoder have config.max_length - 1 ids at most */
    int32_t window;             /* decoder-only: so many ids are read at a time, but never more than
                                   config.max_length - 1 (W); default INT32_MAX. Once there are more, the older half
                                   goes, and the other (W + 1) / 2 ids are read again as if they were the beginning:
                                   about one row more for each token. 0: all ends with config.max_length - 1 ids */
    int32_t min_tokens;         /* before EOS may be drawn; default 0 */
    int32_t allow_unk;          /* 1: unk may be drawn; default 0: as no probable text has one */
    uint64_t seed;              /* token t of sequence i is drawn with number (seed, i, t); default 0 */
    int32_t threads;            /* 1..4096; default 0: as many as config.device.threads of the model */
    /* Called for every token in its order, EOS included, or NULL. text: the `bytes` that the answer's text
       grows by, in whole characters, and a NUL behind them; "" without a target vocabulary. Bytes that may
       begin a character wait for its rest, or for the end; others are U+FFFD at once. A NUL among the bytes:
       see trf_vocab_decode. */
    void (*token)(void *user, int32_t sequence, int32_t id, const char *text, size_t bytes);
    void *user;
    trf_hooks hooks;
} trf_sampling;

TRF_API trf_sampling trf_sampling_defaults(void);

/* The model must outlive it; weights are prepared as a translator's. NULL: defaults. Encoder-only: TRF_E_STATE. */
typedef struct trf_generator trf_generator;

TRF_API trf_status trf_generator_create(trf_generator **generator, const trf_model *model,
                                        const trf_sampling *sampling, trf_error *err);
TRF_API void trf_generator_destroy(trf_generator *generator);
/* Takes up the sequences that beginnings.target begins, possibly with nothing: lengths of 0. Of encoder-decoder
   models it encodes beginnings.source, and without any target each begins with nothing. The beginnings are read in
   one pass; of one that is longer than the window its end. The i of random numbers counts from
   beginnings.ordinal. What was there before is forgotten, also on failure. */
TRF_API trf_status trf_generator_begin(trf_generator *generator, const trf_batch *beginnings, trf_error *err);
/* Draws up to `budget` tokens for every sequence that has not ended; *live (may be NULL) is how many have not.
   Whenever it fails (TRF_E_CANCELLED; TRF_E_NONFINITE: logits without a finite maximum), what has been drawn stays,
   and the next call goes on from there. TRF_E_STATE before a beginning. */
TRF_API trf_status trf_generator_step(trf_generator *generator, int32_t budget, int32_t *live, trf_error *err);
/* The answer so far, or NULL if out of range; lives until the next begin, load or destroy; what it says and where its
   arrays are changes with each step. log_probability is that under the model itself, before all rules; score is
   the same. */
TRF_API const trf_hypothesis *trf_generator_at(const trf_generator *generator, int32_t sequence);
/* A session as a safetensors file, written as trf_model_save does: ids, log-probabilities and the rules. Loading is
   for a generator of the same model (other weights: TRF_E_STATE) and sets its sequences and its rules, not threads,
   callback and hooks; keys and values are made again from the ids. A file that is refused changes nothing, but for
   ids that do not fit the model, memory and cancelling: then the generator has no sequences. */
TRF_API trf_status trf_generator_save(const trf_generator *generator, const char *path, trf_error *err);
TRF_API trf_status trf_generator_load(trf_generator *generator, const char *path, trf_error *err);

// -----------------------------------------------------------------------------------------------
// >>api-blocks     the parts alone, for other architectures
// -----------------------------------------------------------------------------------------------

/* Where blocks run: device, threads, scratch. One thread at a time. */
typedef struct trf_context trf_context;

TRF_API trf_status trf_context_create(trf_context **context, const trf_device *device, const trf_hooks *hooks,
                                      trf_error *err);
TRF_API void trf_context_destroy(trf_context *context);

/* Every block comes with its backward (not in a TRF_NO_TRAIN build). x, y: input, output; dx, dy: gradients of the
   loss. Activation gradients are set (=), parameter gradients are added to (+=). Outputs must not overlap inputs.
   `saved` is a tensor of rank 1 that forward fills and backward reads; its length is asked for with trf_..._saved and
   may change between versions; layer norm takes NULL where no backward follows. All tensors are in the host's memory:
   where the context's device has another, they are copied there and back at every call.
   Shapes are (rows, features): rows are the tokens of all sequences, one after another. Zero rows
   are allowed, zero features are not, a weight's outputs included (TRF_E_SHAPE), nor 2^31 of either (TRF_E_LIMIT). */

/* y = scale * weight[id] + position (paper 3.4, 3.5). weight: (vocab, d), to be trained of 2^24 rows at most
   (TRF_E_LIMIT). Positions restart in every sequence. options may not be NULL. */
typedef struct trf_embedding_options {
    trf_positions positions;    /* TRF_POSITIONS_LEARNED: rows offset + p of `learned` */
    int32_t position_offset;    /* 0..2^20 */
    double scale;
    const trf_tensor *learned;  /* (longest sequence + offset or more, d), with TRF_POSITIONS_LEARNED only */
} trf_embedding_options;
TRF_API trf_status trf_embedding(trf_context *context, trf_tensor *y, const trf_sequences *x,
                                 const trf_tensor *weight, const trf_embedding_options *options, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_embedding_backward(trf_context *context, trf_tensor *dweight,
                                          trf_tensor *dlearned /* or NULL */, const trf_tensor *dy,
                                          const trf_sequences *x,
                                          const trf_embedding_options *options, trf_error *err);
#endif

/* y = x weight^T + bias. weight: (out, in) as in PyTorch; bias: (out) or NULL. */
TRF_API trf_status trf_linear(trf_context *context, trf_tensor *y, const trf_tensor *x, const trf_tensor *weight,
                              const trf_tensor *bias, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_linear_backward(trf_context *context, trf_tensor *dx /* or NULL */, trf_tensor *dweight,
                                       trf_tensor *dbias /* or NULL */, const trf_tensor *dy, const trf_tensor *x,
                                       const trf_tensor *weight, trf_error *err);
#endif

/* y = gain * (x - mean) / sqrt(var + epsilon) + bias, row by row (Ba et al. 2016). */
TRF_API int64_t trf_layer_norm_saved(int64_t rows);
TRF_API trf_status trf_layer_norm(trf_context *context, trf_tensor *y, const trf_tensor *x, const trf_tensor *gain,
                                  const trf_tensor *bias, double epsilon, trf_tensor *saved, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_layer_norm_backward(trf_context *context, trf_tensor *dx, trf_tensor *dgain, trf_tensor *dbias,
                                           const trf_tensor *dy, const trf_tensor *x, const trf_tensor *gain,
                                           double epsilon, const trf_tensor *saved, trf_error *err);
#endif

/* out = softmax(q k^T / sqrt(d_head)) v, per sequence and head (paper 3.2). q, out: (query rows, d); k, v: (key
   rows, d); d = n_heads * d_head. Sequence i of `count` has query_lengths[i] queries and key_lengths[i] keys;
   TRF_CAUSAL: query i sees the keys up to its own number, and there must be as many of them. No keys: zero.
   `saved` may be NULL where no backward follows, which also wants forward's `out`. */
typedef enum trf_mask { TRF_FULL = 0, TRF_CAUSAL = 1 } trf_mask;
typedef struct trf_attention_shape {
    const int32_t *query_lengths, *key_lengths;
    int32_t count, n_heads;
    trf_mask mask;
} trf_attention_shape;
TRF_API int64_t trf_attention_saved(int64_t query_rows, int32_t n_heads);
TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q, const trf_tensor *k,
                                 const trf_tensor *v, const trf_attention_shape *shape, trf_tensor *saved,
                                 trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk, trf_tensor *dv,
                                          const trf_tensor *dout, const trf_tensor *out, const trf_tensor *q,
                                          const trf_tensor *k, const trf_tensor *v,
                                          const trf_attention_shape *shape, const trf_tensor *saved,
                                          trf_error *err);
#endif

/* Attention with its four projections, parameters as in nn.MultiheadAttention: in_weight (3d, d) = q, k, v below one
   another, in_bias (3d), out_weight (d, d), out_bias (d). x, y: (query rows, d), memory: (key rows, d).
   Self-attention: memory = x or NULL. The same struct holds weights or their gradients. */
typedef struct trf_attention_params { trf_tensor in_weight, in_bias, out_weight, out_bias; } trf_attention_params;
TRF_API int64_t trf_multi_head_attention_saved(int64_t query_rows, int64_t key_rows, int64_t d_model,
                                               int32_t n_heads);
TRF_API trf_status trf_multi_head_attention(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                            const trf_tensor *memory, const trf_attention_params *params,
                                            const trf_attention_shape *shape, trf_tensor *saved, trf_error *err);
/* dmemory is set; for self-attention pass NULL: everything is in dx. */
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_multi_head_attention_backward(trf_context *context, trf_tensor *dx, trf_tensor *dmemory,
                                                     trf_attention_params *dparams, const trf_tensor *dy,
                                                     const trf_tensor *x, const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape, const trf_tensor *saved,
                                                     trf_error *err);
#endif

/* y = act(x w1^T + b1) w2^T + b2 (paper 3.3). w1: (d_ff, d), b1: (d_ff), w2: (d, d_ff), b2: (d); x, y: (rows, d). */
typedef struct trf_feed_forward_params { trf_tensor w1, b1, w2, b2; } trf_feed_forward_params;
TRF_API int64_t trf_feed_forward_saved(int64_t rows, int64_t d_ff);
TRF_API trf_status trf_feed_forward(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                    const trf_feed_forward_params *params, trf_activation activation,
                                    trf_tensor *saved, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_feed_forward_backward(trf_context *context, trf_tensor *dx, trf_feed_forward_params *dparams,
                                             const trf_tensor *dy, const trf_tensor *x,
                                             const trf_feed_forward_params *params, trf_activation activation,
                                             const trf_tensor *saved, trf_error *err);
#endif

/* y = x + dropout(sub): with probability p an element of sub is zero, the others are scaled by 1/(1-p). 0 <= p < 1;
   what counts is the nearest multiple of 1/65536, 65535/65536 at most. The mask follows from (seed, step, site), of
   step the lower 32 bits: backward makes it again from the same three. NULL dropout: none. All (rows, d). */
typedef struct trf_dropout { double p; uint64_t seed; int64_t step; int32_t site; } trf_dropout;
TRF_API trf_status trf_residual(trf_context *context, trf_tensor *y, const trf_tensor *x, const trf_tensor *sub,
                                const trf_dropout *dropout, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_residual_backward(trf_context *context, trf_tensor *dx, trf_tensor *dsub, const trf_tensor *dy,
                                         const trf_dropout *dropout, trf_error *err);
#endif

/* Label smoothing: V tokens, smoothing e, how the wanted distribution is spread (paper 5.4). */
typedef enum trf_smoothing {
    TRF_SMOOTH_UNIFORM   = 0,   /* 1-e+e/V on the target, e/V elsewhere: PyTorch, Marian */
    TRF_SMOOTH_OTHERS    = 1,   /* 1-e on the target, e/(V-1) elsewhere: fairseq */
    TRF_SMOOTH_OTHERS_KL = 2,   /* the same, less its entropy: tensor2tensor */
    TRF_SMOOTH_NO_PAD_KL = 3    /* 1-e, e/(V-2) elsewhere, 0 on pad, less entropy: Annotated Transformer, JoeyNMT */
} trf_smoothing;
typedef struct trf_cross_entropy_options {
    double label_smoothing;     /* 0 <= e < 1 */
    trf_smoothing rule;
    int32_t pad;                /* -1..V-1; NO_PAD_KL: from 0 */
} trf_cross_entropy_options;
/* Loss of logits = x weight^T + bias against targets[rows], summed over rows into *loss; the logits of all
   rows are never stored. x: (rows, d), weight: (V, d) with V 2..2^24 (NO_PAD_KL: from 3), bias: (V) or NULL; targets
   0..V-1. Rows whose target is options->pad count nothing (pad -1: no such rows). With dx also the gradients of that
   sum: dx, and dweight and dbias if not NULL (in a TRF_NO_TRAIN build TRF_E_UNSUPPORTED). */
TRF_API trf_status trf_cross_entropy(trf_context *context, double *loss, trf_tensor *dx, trf_tensor *dweight,
                                     trf_tensor *dbias, const trf_tensor *x, const trf_tensor *weight,
                                     const trf_tensor *bias, const int32_t *targets,
                                     const trf_cross_entropy_options *options, trf_error *err);

// -----------------------------------------------------------------------------------------------
// >>api-train      gradients, Adam, schedules, checkpoints
//
// One step is trf_train_step; its halves are public too, for accumulation, for looking at gradients, and for an
// optimizer of your own. A step whose numbers are not finite is no error: it is skipped, and the report says why.
// -----------------------------------------------------------------------------------------------

typedef enum trf_optimizer { TRF_ADAM = 0, TRF_ADAMW = 1 } trf_optimizer;

/* Where epsilon stands. m', v': bias-corrected moments; m, v: raw; c1 = 1-beta1^t, c2 = 1-beta2^t. t counts the
   updates that the moments have had: a skipped step is none, though schedule and dropout move on, as in PyTorch. */
typedef enum trf_adam_epsilon {
    TRF_EPSILON_OUTSIDE = 0,    /* m' / (sqrt(v') + epsilon): PyTorch, Marian, Kingma and Ba */
    TRF_EPSILON_FAIRSEQ = 1,    /* sqrt(c2)/c1 * m / (sqrt(v) + epsilon): fairseq, tensor2tensor */
    TRF_EPSILON_INSIDE  = 2     /* m' / sqrt(v' + epsilon) */
} trf_adam_epsilon;

/* Learning rate of update s = 1, 2, ..., w = warmup. */
typedef enum trf_schedule {
    TRF_NOAM         = 0,   /* learning_rate * d_model^-0.5 * min(s^-0.5, s * w^-1.5): paper 5.3 */
    TRF_INVERSE_SQRT = 1,   /* linear from initial_rate to learning_rate in w updates, then * sqrt(w/s): fairseq */
    TRF_COSINE       = 2,   /* the same warm-up, then half a cosine down to final_rate at total_steps */
    TRF_CONSTANT     = 3    /* the same warm-up, then learning_rate */
} trf_schedule;

#define TRF_NO_CLIPPING 1e300   /* a clip_norm that no gradient reaches */

typedef struct trf_train_options {
    trf_optimizer optimizer;
    double beta1, beta2, epsilon;       /* betas 0..1 - 1e-12, epsilon 1e-30..1; paper 5.3: 0.9, 0.98, 1e-9 */
    trf_adam_epsilon epsilon_rule;
    double weight_decay;                /* 0..1e6; ADAMW: decoupled; ADAM: L2, added to the gradient; default 0 */
    int32_t decay_all;                  /* 1: also biases, norms, embeddings (tied ones too); default 0 */
    trf_schedule schedule;              /* default TRF_INVERSE_SQRT */
    double learning_rate;               /* 1e-30..1e6; the peak, default 1e-3; but for TRF_NOAM a factor, about 1 */
    double initial_rate, final_rate;    /* 0..1e6; default 0 */
    int64_t warmup;                     /* updates; >= 1; default 100 */
    int64_t total_steps;                /* TRF_COSINE only; > warmup */
    double label_smoothing;             /* 0 <= e < 1; default 0; paper 5.4: 0.1, for answers */
    trf_smoothing smoothing_rule;       /* with a head not NO_PAD_KL: labels have no pad */
    double dropout;                     /* on the sum of embedding and position, 0 <= p < 1 (of all four, the nearest
                                           multiple of 1/65536 below 1); default 0 */
    double attention_dropout;           /* on attention weights; default 0 */
    double activation_dropout;          /* on the inner layer of feed-forward; default 0 */
    double residual_dropout;            /* on the output of every sublayer; default 0 */
    double clip_norm;                   /* gradients times min(1, clip_norm / (norm + 1e-6)), as PyTorch; >= 1e-12 */
    uint64_t seed;                      /* of dropout; default 1 */
    int32_t recompute;                  /* 1: of each layer only the output stays, backward computes the rest again
                                           (Chen et al. 2016): less memory, more time, the same bits.
                                           A stack of one layer does not change. Default 0 */

    /* Limits of one batch, a sequence counting its ids and one (BOS or EOS), planned when the trainer is made. A
       larger batch grows the plan, or fails with TRF_E_NOMEM before anything has changed. Tokens and sequences up to
       2^24, longest 2..2^20; defaults 4096, 4096, 256 sequences, the longest 128. With a head target_tokens says
       nothing: its rows are sequences or source tokens. */
    int32_t source_tokens, target_tokens, sequences, longest;
    int32_t threads;                    /* 1..4096; default 0: as many as the device's */
    int32_t rank, n_ranks;              /* this trainer's number among several (for the caller); default 0 of 1 */

    /* Sums `count` numbers over all ranks, in place, where they are: in the memory of the model's device; called by
       the optimizer step with slices in a fixed order, last layer first. Non-zero is an error (TRF_E_BACKEND,
       gradients discarded). stream: on a GPU, the cudaStream_t in which it is to happen (it need not wait); NULL on
       the CPU. examples/ranks.c does it with threads and with NCCL. */
    int (*all_reduce)(void *user, trf_real *gradients, size_t count, void *stream);
    void *user;                         /* all_reduce's first argument; that of the hooks is hooks.user */
    trf_hooks hooks;
} trf_train_options;

/* What small tasks bear: Adam(0.9, 0.98, 1e-9) with TRF_EPSILON_OUTSIDE; the rate rises to 1e-3 in 100 updates and
   falls with the square root of their number; no dropout, no smoothing (with some, it is TRF_SMOOTH_UNIFORM); and
   clip_norm 1. Large data sets and large models want more of each: trf_recipe_find chooses it. */
TRF_API trf_train_options trf_train_defaults(void);
/* Whose conventions: sets the fields in which systems differ, and no others.

                           PYTORCH                  PAPER
       optimizer, betas    Adam, 0.9, 0.999         Adam, 0.9, 0.98
       epsilon, its rule   1e-8, OUTSIDE            1e-9, FAIRSEQ
       schedule            TRF_CONSTANT             TRF_NOAM
       learning_rate       1e-3                     1: a factor
       warmup              1                        4000
       label_smoothing     0, UNIFORM               0.1, OTHERS_KL
       dropouts            0.1: all four            0.1: embedding and residual; attention and activation 0

   PyTorch's are those of torch.optim.Adam, nn.CrossEntropyLoss and nn.Transformer. */
TRF_API void trf_train_set_conventions(trf_train_options *options, trf_conventions whose);
TRF_API void trf_train_set_dropout(trf_train_options *options, double p);       /* all four places */
TRF_API double trf_learning_rate(const trf_train_options *options, int32_t d_model, int64_t step);      /* s = step */

/* What a call has to say; any report pointer may be NULL: then nothing waits for the device. Fields that a call does
   not know are 0. The target tokens of a head are its labels without those of -1. */
typedef struct trf_step_report {
    int64_t step;               /* number of the update: 1 for the first; trf_evaluate: updates so far */
    double loss;                /* mean smoothed loss per target token (EOS counted), in nats */
    double nll;                 /* mean negative log-likelihood per target token, without smoothing */
    double accuracy;            /* share of target tokens that were the most likely one, teacher-forced */
    int64_t source_tokens, target_tokens;       /* ends and beginnings counted, as the model reads them */
    double gradient_norm;       /* global, of the mean loss, before clipping */
    double learning_rate;
    int32_t skipped;            /* 1: loss or gradient was not finite, or the gradient's norm, clipped, beyond what
                                   squares hold (1e18; 1e150 in double); every parameter and Adam's moments are
                                   as they were. A weight alone that would become infinite stays as it was */
    char tensor[64];            /* then: the first tensor whose gradient was not finite, "loss" or "gradient_norm" */
} trf_step_report;

#if !defined(TRF_NO_TRAIN)
typedef struct trf_trainer trf_trainer;

/* Gradients, moments, activations, random numbers. The model must outlive it. NULL options: the defaults. An
   encoder-only model without a head is TRF_E_UNSUPPORTED. */
TRF_API trf_status trf_trainer_create(trf_trainer **trainer, trf_model *model, const trf_train_options *options,
                                      trf_error *err);
TRF_API void trf_trainer_destroy(trf_trainer *trainer);
/* Bytes that trf_trainer_create will take, exactly, on host and device. Steps within the limits
   take no more. 0: the configuration or an option is not valid. */
TRF_API size_t trf_trainer_memory(const trf_config *config, const trf_train_options *options);

/* One update: trf_forward_backward, then trf_optimizer_step. */
TRF_API trf_status trf_train_step(trf_trainer *trainer, const trf_batch *batch, trf_step_report *report,
                                  trf_error *err);
/* Adds the gradients of one micro-batch. Sums over tokens: the mean is taken in the optimizer step, so a split of a
   batch gives the same update (but for rounding). The report speaks of this micro-batch alone. */
TRF_API trf_status trf_forward_backward(trf_trainer *trainer, const trf_batch *batch, trf_step_report *report,
                                        trf_error *err);
/* What trf_optimizer_step would have reported of the last update. TRF_E_STATE if there was none yet. */
TRF_API trf_status trf_trainer_report(const trf_trainer *trainer, trf_step_report *report, trf_error *err);
/* Divides by the tokens, clips, updates. The report speaks of the whole step. TRF_E_STATE without gradients, or when
   no rank has a target token: then, as after a failing all_reduce, the gradients are discarded. */
TRF_API trf_status trf_optimizer_step(trf_trainer *trainer, trf_step_report *report, trf_error *err);
/* As if nothing had been accumulated since the last step: the next trf_forward_backward begins from zero, and in a
   checkpoint the batches are still to come, but for those that earlier steps have trained on. */
TRF_API void trf_discard_gradients(trf_trainer *trainer);
/* Ends a step whose update you have made yourself, instead of trf_optimizer_step: the gradients are discarded, and
   the number of the step, which the schedule and the dropout masks follow, moves on. Adam's moments have no part. */
TRF_API void trf_end_step(trf_trainer *trainer);
/* Loss without dropout and without gradients. Parameters, moments and the step counter stay as they are. */
TRF_API trf_status trf_evaluate(trf_trainer *trainer, const trf_batch *batch, trf_step_report *report,
                                trf_error *err);

TRF_API int64_t trf_trainer_step(const trf_trainer *trainer);           /* updates so far, skipped ones included */
TRF_API const trf_train_options *trf_trainer_options(const trf_trainer *trainer);
/* Changes options from the next step on: the same bits as saving a checkpoint and loading it with
   the new options. All may change but the threads and the hooks' alloc and free (with `user`, where
   there are these): TRF_E_INVALID_ARG. Larger limits grow the plan, or TRF_E_NOMEM; smaller ones
   give no memory back. TRF_E_STATE in the middle of an accumulation. */
TRF_API trf_status trf_trainer_set_options(trf_trainer *trainer, const trf_train_options *options, trf_error *err);
/* Freezes (1) the parameters whose whole name, as trf_parameter has it, fits the pattern, where '*' stands for any
   characters: "encoder.*", "*.bias", "tgt_embed.weight"; or lets them learn again (0). A frozen parameter and its
   moments stay as they are, weight decay included, and updates meanwhile are none of theirs (t in trf_adam_epsilon);
   its gradient is computed, but has no part in the norm, in clipping or in the decision to skip. Checkpoints keep
   what is frozen; all ranks must freeze the same. *matched (may be NULL): how many parameters fit; none:
   TRF_E_INVALID_ARG. Between steps only, else TRF_E_STATE. */
TRF_API trf_status trf_trainer_freeze(trf_trainer *trainer, const char *pattern, int32_t frozen, int32_t *matched,
                                      trf_error *err);
/* 1: the parameter is frozen; 0: it learns, or there is none of this number. */
TRF_API int trf_trainer_is_frozen(const trf_trainer *trainer, int32_t index);
/* Views, numbered as trf_parameter. Weights: may be written between steps. Gradients: sums over the tokens of the
   step's micro-batches, from trf_forward_backward until trf_optimizer_step; may be changed before it. */
TRF_API trf_tensor trf_trainer_parameter(trf_trainer *trainer, int32_t index);
TRF_API trf_tensor trf_gradient(trf_trainer *trainer, int32_t index);

/* Weights, Adam, schedule, random numbers, and the place in the corpus (may be NULL): the first batch after the last
   complete step. In the middle of an accumulation: TRF_E_STATE. Loading makes a model and a trainer that go on with
   the same bits, and moves the corpus, if there is one, as trf_corpus_resume does. NULL training: the stored options,
   with the default limits where theirs are larger, the hooks and the device of the load options, and without ranks
   and all_reduce. */
TRF_API trf_status trf_checkpoint_save(const trf_trainer *trainer, const trf_corpus *corpus, const char *path,
                                       trf_error *err);
TRF_API trf_status trf_checkpoint_load(trf_model **model, trf_trainer **trainer, trf_corpus *corpus, const char *path,
                                       const trf_train_options *training, const trf_load_options *options,
                                       trf_error *err);
/* The same in the caller's memory: see trf_model_save_memory. */
TRF_API trf_status trf_checkpoint_save_memory(const trf_trainer *trainer, const trf_corpus *corpus, void *buffer,
                                              size_t size, size_t *bytes, trf_error *err);
TRF_API trf_status trf_checkpoint_load_memory(trf_model **model, trf_trainer **trainer, trf_corpus *corpus,
                                              const void *bytes, size_t n, const trf_train_options *training,
                                              const trf_load_options *options, trf_error *err);
/* Moves a corpus to the place where the trainer's next step begins: one made after loading, or, with the gradients
   discarded, one that is ahead. TRF_E_STATE if pairs or options differ (epochs and max_length may), or without a
   place. */
TRF_API trf_status trf_corpus_resume(trf_corpus *corpus, const trf_trainer *trainer, trf_error *err);

/* The optimizer alone, for architectures of your own (>>api-blocks): what trf_optimizer_step does with the model's
   weights it does with `n` tensors, by the same code. All are in the host's memory and have as many numbers at every
   call (else TRF_E_SHAPE); copies of weights and gradients go to the device and back. d_model (1..65536) is for
   TRF_NOAM alone. Of the options those of optimizer, decay (of what has two dimensions or more, or all), schedule,
   clipping, threads, ranks and hooks count; NULL device: trf_device_default(). */
typedef struct trf_updater trf_updater;
TRF_API trf_status trf_updater_create(trf_updater **updater, const trf_tensor *weights, int32_t n, int32_t d_model,
                                      const trf_train_options *options, const trf_device *device, trf_error *err);
TRF_API void trf_updater_destroy(trf_updater *updater);
/* One update: the gradients, divided by `divisor` (their tokens, say: 1e-30..1e12, or 0 where another rank has some;
   summed over the ranks as they are, and then above 0, or TRF_E_STATE), are clipped and move the weights. The report
   has no losses. */
TRF_API trf_status trf_updater_step(trf_updater *updater, const trf_tensor *weights, const trf_tensor *gradients,
                                    double divisor, trf_step_report *report, trf_error *err);
/* For checkpoints: Adam's first (0) or second (1) moments of tensor `index`, a vector to be read and written; the
   number of steps, which the schedule follows, and of those not skipped, the updates that the moments have had. */
TRF_API trf_tensor trf_updater_moment(trf_updater *updater, int32_t index, int32_t second);
TRF_API trf_status trf_updater_steps(const trf_updater *updater, int64_t *step, int64_t *updates, trf_error *err);
TRF_API trf_status trf_updater_set_steps(trf_updater *updater, int64_t step, int64_t updates, trf_error *err);
#endif

#if !defined(TRF_NO_TRAIN)
// -----------------------------------------------------------------------------------------------
// >>api-learn      from texts to a trained model: a data set, the recipe, training by itself
//
// The whole road, in the order of a program; `trf train` goes the same one, and gets the same bits:
//
//     trf_dataset_create(&data, NULL, &err);       pairs of texts, texts alone, texts with labels
//     trf_dataset_read(data, "pairs.tsv", NULL, &err);         or trf_dataset_add, pair by pair
//     trf_dataset_finish(data, &err);              vocabularies, pairs to validate on, the recipe
//     recipe = trf_dataset_recipe(data);           puts(recipe->reasons): what was chosen, and why
//     trf_dataset_model(data, &model, &err);       new weights, with the vocabularies
//     trf_trainer_create(&trainer, model, &recipe->training, &err);
//     trf_learn(trainer, trf_dataset_corpus(data), trf_dataset_held_out(data), &recipe->learning,
//               &report, &err);
//     trf_model_save(model, "model", &err);
//
// Each part can be had alone: the recipe for data of your own (trf_recipe_find), the kind of tokens
// (trf_tokens_choose), the pairs to hold out (trf_hold_out), and trf_learn for any trainer and
// corpus. Who wants to see every step calls trf_train_step in a loop; trf_ema and
// trf_early_stopping are the parts of trf_learn for that.
// -----------------------------------------------------------------------------------------------

/* The score of a model on pairs that it does not learn from. */
typedef enum trf_metric {
    TRF_METRIC_LOSS       = 0,  /* mean loss of a target token: the smaller, the better */
    TRF_METRIC_ERROR_RATE = 1,  /* trf_error_rate: the smaller, the better; 0 is perfect, and 100 or
                                   more is as good as no answer */
    TRF_METRIC_ACCURACY   = 2,  /* percent of the target tokens, or labels, that are right */
    TRF_METRIC_CUSTOM     = 3   /* `custom`. Of both: the larger, the better; 100 is perfect, and 0
                                   or less is as good as no answer */
} trf_metric;

/* Early stopping: the state that validations leave. Plain numbers, which a checkpoint of your own
   can keep. */
typedef struct trf_early_stopping {
    int64_t validated;          /* update of the last validation; -1: there was none */
    int64_t best_update;        /* of the best one; 0: there was none */
    double best, best_loss;     /* its score, and its loss, which decides between equal scores */
    int32_t wait;               /* validations since the score improved */
} trf_early_stopping;

typedef struct trf_learn_progress {
    const trf_step_report *update;      /* of the last one; before the first its step alone */
    double epoch;                       /* passes over the corpus, in this call */
    int32_t validated;                  /* 1: called for a validation; 0: for an update */
    int32_t is_best;                    /* then: 1: it is the best so far */
    double loss, nll, accuracy, score;  /* of the held-out pairs; score: of `metric` */
    const trf_early_stopping *stopping;
} trf_learn_progress;

typedef struct trf_learn_options {
    int64_t updates;            /* end at this update of the trainer; default TRF_ENDLESS */
    double seconds;             /* end after so much time; default 0: no end */
    int64_t valid_every;        /* updates between two validations, >= 1; default 1000 */
    int32_t patience;           /* end after so many validations without a better score (3 once it
                                   is perfect); 0: never; default 10 */
    double ema;                 /* the share of trf_ema, 0..0.5; 0: none; default 0.002 */
    trf_metric metric;          /* default TRF_METRIC_LOSS */
    int32_t accumulate;         /* batches of one update, >= 1; default 1 */
    trf_noise *noise, *held_out_noise;  /* of each batch, and of held-out ones; or NULL */
    trf_search search;          /* of TRF_METRIC_ERROR_RATE; default: beam 1 */
    /* TRF_METRIC_CUSTOM: the score of a model, which is valid for the call. Non-zero: end with
       TRF_E_CANCELLED. */
    int (*custom)(void *user, const trf_model *model, double *score);
    /* Called after each update and each validation, or NULL. Non-zero: end here, as at the last
       update. */
    int (*progress)(void *user, const trf_learn_progress *progress);
    void *user;
} trf_learn_options;

/* Why trf_learn has ended. */
typedef enum trf_learn_end {
    TRF_END_UPDATES = 0, TRF_END_PATIENCE = 1, TRF_END_SECONDS = 2, TRF_END_EPOCHS = 3,
    TRF_END_PROGRESS = 4
} trf_learn_end;

typedef struct trf_learn_report {
    trf_learn_end end;
    int64_t updates, skipped;   /* of this call; those that were not finite */
    trf_early_stopping stopping;
    trf_step_report last;       /* of the last update */
} trf_learn_report;

TRF_API trf_learn_options trf_learn_defaults(void);
/* Trains until one of the ends, and leaves the best weights in the model: those of the best
   validation, or without held-out pairs (NULL, or none) the last. With `ema` their moving average
   is validated and kept. A validation comes at every multiple of valid_every and at the end.
   held_out is one batch of any size, which is cut as the trainer's limits say. TRF_E_INVALID_ARG
   where nothing says when to end: neither updates, seconds, patience with held-out pairs, progress
   nor the corpus's epochs. TRF_E_NONFINITE: a hundred updates in a row were skipped. After
   TRF_E_CANCELLED, and any other failure, the model has the best weights so far, if there was a
   validation; the report (may be NULL) is filled. Adam goes on from where it is: another call
   trains on, from the best weights. */
TRF_API trf_status trf_learn(trf_trainer *trainer, trf_corpus *corpus, const trf_batch *held_out,
                             const trf_learn_options *options, trf_learn_report *report,
                             trf_error *err);

/* Adds a validation. Returns 0 if it is not the best so far, 2 if its score is better than all
   before, and 1 if its score equals the best and its loss is smaller. Where no score can be worse,
   a smaller loss improves too. */
TRF_API int trf_early_stopping_add(trf_early_stopping *stopping, trf_metric metric, int64_t update,
                                   double score, double loss);
/* How many more validations without a better score end training; 0: it ends now. patience 0:
   INT32_MAX. Once the best score is perfect, three will do. */
TRF_API int32_t trf_early_stopping_left(const trf_early_stopping *stopping, trf_metric metric,
                                        int32_t patience);
/* Whether score a with loss a_loss is better than b with b_loss; any number is better than NAN. */
TRF_API int trf_is_better(trf_metric metric, double a, double a_loss, double b, double b_loss);
/* Whether no score can be better: 1 or 0. */
TRF_API int trf_is_perfect(trf_metric metric, double score);

/* An exponential moving average of the weights (Polyak and Juditsky 1992): after every update e +=
   share * (w - e). The share is 1 less what others call the decay. It is 9 / (10 + update) while
   that is more, so that the random first weights soon count no more. */
typedef struct trf_ema trf_ema;
/* share: above 0, at most 0.5. */
TRF_API trf_status trf_ema_create(trf_ema **ema, trf_trainer *trainer, double share,
                                  trf_error *err);
TRF_API void trf_ema_destroy(trf_ema *ema);
TRF_API trf_status trf_ema_update(trf_ema *ema, trf_error *err);        /* after each update */
/* apply: the trainer's weights become the average, to be validated or saved. restore: they become
   again what they were, to the bit. Between the two no update may be made. A second call in a row
   changes nothing. */
TRF_API trf_status trf_ema_apply(trf_ema *ema, trf_error *err);
TRF_API trf_status trf_ema_restore(trf_ema *ema, trf_error *err);
/* All numbers of the average, parameter by parameter; they may be written. */
TRF_API trf_real *trf_ema_weights(trf_ema *ema);

/* trf_evaluate of a batch of any size, cut into batches within the trainer's limits. noise may be
   NULL. */
TRF_API trf_status trf_evaluate_all(trf_trainer *trainer, const trf_batch *pairs, trf_noise *noise,
                                    trf_step_report *report, trf_error *err);
/* Lowers max_sentences to what a model of this configuration computes in about half a second, so
   that a cancel hook, which is called between two matrix products, ends a long translation soon. */
TRF_API void trf_search_limit(trf_search *search, const trf_config *config);
/* Answers the sources, and counts the edits (insertions, deletions, substitutions: Levenshtein
   1966) that make each answer its target: their number in 100 target ids. unk is right nowhere. A
   source that occurs several times is answered once, and counts with the target that it is nearest
   to. For words it is WER, for characters CER. An empty source has an empty answer. */
TRF_API trf_status trf_error_rate(trf_translator *translator, const trf_batch *pairs,
                                  double *percent, trf_error *err);

/* What the recipe has to know about the data. */
typedef struct trf_data_stats {
    trf_kind kind;                          /* of the model; default TRF_ENCODER_DECODER */
    trf_head head;                          /* of an encoder-only model, not NONE; else NONE */
    int32_t n_labels;                       /* as in trf_config */
    int64_t pairs;                          /* to learn from, >= 1 */
    int64_t source_tokens, target_tokens;   /* of all: each sequence's ids and one */
    int32_t longest;                        /* ids of the longest sequence, 0..2^20 - 1 */
    int32_t source_vocab, target_vocab;     /* sizes, 5..2^24; 0 where the model has no such side */
    int32_t one_vocabulary;                 /* 1: both sides have the same */
    int32_t d_model;                        /* 0: chosen; else the model's width, 1..65536 */
    int64_t updates_per_epoch;              /* of a pass over the data; 0: estimated */
    int64_t updates;                        /* planned; 0: no plan, but until nothing gets better */
} trf_data_stats;

/* All options that follow from the data. Change what you know better before you use it. */
typedef struct trf_recipe {
    trf_config config;
    trf_train_options training;
    trf_corpus_options corpus;
    trf_learn_options learning;
    char reasons[1024];                     /* what was chosen and why, a line each */
} trf_recipe;

/* Measured, not derived: tools/defaults.md. TRF_E_INVALID_ARG: a field out of its range, which
   `what` names. */
TRF_API trf_status trf_recipe_find(trf_recipe *recipe, const trf_data_stats *stats, trf_error *err);

/* What a token is. AUTO: chosen from the text. */
typedef enum trf_tokens {
    TRF_TOKENS_AUTO = 0, TRF_TOKENS_WORDS = 1, TRF_TOKENS_CHARACTERS = 2, TRF_TOKENS_SUBWORDS = 3
} trf_tokens;

typedef struct trf_token_choice {
    trf_tokens tokens[2];       /* of source and target: AUTO is chosen, another one stays */
    int32_t vocab_size[2];      /* ids at most: 0 becomes 32000; of subwords 500 to 8000, which
                                   follows from the length of the text */
    int32_t vocabularies;       /* 1: both sides have one, 2: two; 0 becomes 1 or 2 */
    int32_t no_subwords;        /* 1: there is nothing that could cut subwords, words do it */
    double unknown[2];          /* out: percent of the words of a tenth of the lines that the others
                                   do not have; NAN: too few lines */
    int32_t would_be_subwords[2];       /* out: 1: words because of no_subwords */
} trf_token_choice;
/* Words, where at most 2 % of those in a tenth of the lines, drawn at random, are new; else
   characters, where lines have fewer than two words or 24 characters on the average: names, dates,
   glossaries; else subwords. A side of more than 1,000 words goes with one of subwords. One
   vocabulary, where both sides have subwords, or a quarter of the target's words are words of the
   source. Lines are UTF-8; source or target may be NULL: there is no such side. NULL hooks:
   none. */
TRF_API trf_status trf_tokens_choose(trf_token_choice *choice, const char *const *source,
                                     const char *const *target,
                                     int64_t n, const trf_hooks *hooks, trf_error *err);

/* Which pairs are held out. */
typedef enum trf_hold_out_rule {
    TRF_HOLD_OUT_RANDOM    = 0, /* by a random number of each pair's index, the same in every run */
    TRF_HOLD_OUT_EVERY_KTH = 1  /* every k-th pair, as version 0.2 held them out */
} trf_hold_out_rule;
/* Sets held[i] to 1 for about `size` of the n pairs, and to 0 for the others. With a source all
   others of the same text are held out, if these are four or fewer: a dictionary has several lines
   for a word. size 0: about a twentieth, and 1,000 at most. *count: how many; all n, where it
   cannot be done otherwise. */
TRF_API trf_status trf_hold_out(const char *const *sources, int64_t n, int64_t size,
                                trf_hold_out_rule rule, char *held,
                                int64_t *count, const trf_hooks *hooks, trf_error *err);

typedef enum trf_data_kind {
    TRF_DATA_PAIRS    = 0,      /* a source and a target: an encoder-decoder model */
    TRF_DATA_TEXTS    = 1,      /* texts alone: a language model. EOS ends each */
    TRF_DATA_LABELLED = 2,      /* a text and its label: an encoder-only model, for trf_classify */
    TRF_DATA_TAGGED   = 3       /* words, and a label for each of them: the same, for trf_tag */
} trf_data_kind;

typedef struct trf_dataset_options {
    trf_data_kind kind;
    trf_tokens source_tokens, target_tokens;    /* WORDS or CHARACTERS; default AUTO. Texts alone
                                                   are targets, texts with labels sources */
    const trf_vocab *source_vocab, *target_vocab;   /* finished ones, instead of learned ones:
                                                   subwords (trf_vocab_load_sentencepiece); borrowed
                                                   until trf_dataset_finish */
    int32_t max_vocab;          /* ids of a learned vocabulary, 5..2^24; default 32000 */
    int64_t min_count;          /* tokens seen less often are unknown; >= 1; default 1 */
    int64_t held_out;           /* about so many; default 0: a twentieth, at most 1,000; -1: none */
    uint64_t seed;              /* of weights, dropout and order; default 1 */
    int64_t updates;            /* as in trf_data_stats */
    trf_hooks hooks;
} trf_dataset_options;

typedef struct trf_dataset trf_dataset;
TRF_API trf_dataset_options trf_dataset_defaults(void);
TRF_API trf_status trf_dataset_create(trf_dataset **data, const trf_dataset_options *options,
                                      trf_error *err);
TRF_API void trf_dataset_destroy(trf_dataset *data);
/* One pair, or, of texts alone, a target without a source (NULL); copied. A label is a target;
   blanks around it are no part of it, and those of words stand between blanks. Text that is not
   UTF-8: TRF_E_FORMAT. */
TRF_API trf_status trf_dataset_add(trf_dataset *data, const char *source, const char *target,
                                   trf_error *err);
/* All lines of a file; LF or CR LF ends one. Pairs: line n of the two files, or, with target NULL,
   lines of source, tab, target in one. Texts: target is NULL. TRF_E_FORMAT, with the number of the
   line in `where`: it is not UTF-8, has a NUL or not one tab; or one file has more lines. Nothing
   was added then. */
TRF_API trf_status trf_dataset_read(trf_dataset *data, const char *source, const char *target,
                                    trf_error *err);
/* Decides and builds everything below. A pair that is empty on a side, or longer than 511 ids, is
   left out (the reasons say how many); so are a label of more than 1,000 bytes, and words with more
   or fewer labels. A label that no other pair has is not held out. TRF_E_STATE: nothing is left to
   learn from, or fewer than two labels; or it is finished already. TRF_E_LIMIT: more than 65,536
   labels. */
TRF_API trf_status trf_dataset_finish(trf_dataset *data, trf_error *err);
/* Until it is finished: NULL. The recipe may be changed before the model is made. */
TRF_API trf_recipe *trf_dataset_recipe(trf_dataset *data);
TRF_API trf_corpus *trf_dataset_corpus(trf_dataset *data);
TRF_API const trf_batch *trf_dataset_held_out(const trf_dataset *data);     /* NULL: none */
/* A new model after the recipe's configuration, with the vocabularies. Its metadata say what it was
   trained on: "trained.longest", ids of the longest sequence; "target.unknown", target ids without
   a token; "labels", in the order of their bytes, a line each: line i is column i of trf_classify
   and trf_tag. */
TRF_API trf_status trf_dataset_model(const trf_dataset *data, trf_model **model, trf_error *err);
/* Line i of a model's "labels", cut to size - 1 bytes, at least 1; *bytes (may be NULL) is the
   length of all of it. TRF_E_STATE: the model has no such line. */
TRF_API trf_status trf_model_label(const trf_model *model, int32_t i, char *text, size_t size,
                                   size_t *bytes, trf_error *err);

#endif

#if defined(__cplusplus)
}
#endif

#endif /* TRANSFORMER_H */

// ===============================================================================================
//  Stop here if you only want to use the library. What follows is how it works.
// ===============================================================================================

// -----------------------------------------------------------------------------------------------
// >>impl           includes, compiler differences
//
// From here on one of two things is compiled: everything (TRF_IMPLEMENTATION), or one column (TRF_COLUMN), which is
// the chapters up to >>column. Neither is inside the include guard: a file may include the header for its
// declarations first.
// -----------------------------------------------------------------------------------------------
#if (defined(TRF_IMPLEMENTATION) || defined(TRF_COLUMN)) && !defined(TRF__IMPLEMENTED)
#define TRF__IMPLEMENTED

#if defined(TRF_IMPLEMENTATION) && defined(TRF_COLUMN)
#error "a file is either the implementation or a column: define TRF_IMPLEMENTATION or TRF_COLUMN, not both"
#endif

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "transformer.h needs infinities and NaN to be seen: build without -ffast-math and -Ofast"
#endif

#include <errno.h>
#include <float.h>
/* 16 is a method too: it widens _Float16 alone. */
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "floats are not computed as floats: add -msse2 -mfpmath=sse (x86) or -std=gnu99 (s390x)"
#endif
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__linux__)
#include <sys/mman.h>
#if !defined(MADV_HUGEPAGE)             /* strict C hides both */
#define TRF__HUGEPAGE 14
int madvise(void *, size_t, int);
#else
#define TRF__HUGEPAGE MADV_HUGEPAGE
#endif
#endif

#if defined(__GNUC__) || defined(__clang__)
#define TRF__GNU 1
#define TRF__UNUSED __attribute__((unused))
#define TRF__INLINE static inline __attribute__((always_inline, unused))
#define TRF__PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define TRF__GNU 0
#define TRF__UNUSED
#define TRF__INLINE static inline
#define TRF__PRINTF(a, b)
#endif
#if TRF__GNU && !defined(__OPTIMIZE__)
#define TRF__SLOW 1
#else
#define TRF__SLOW 0                     /* as far as one can know */
#endif
/* Where columns are linked in they compute, and they say it of themselves. */
#if TRF__SLOW && !defined(TRF_NO_SLOW_WARNING) && !defined(__CUDACC__) && \
    !defined(TRF_WITH_AVX2) && !defined(TRF_WITH_AVX512)
#pragma message("transformer.h compiled without -O is slow: add -O2, or define TRF_NO_SLOW_WARNING")
#endif
#if !defined(TRF_NO_CBLAS) && !defined(TRF_CBLAS_HEADER) && defined(__has_include)
#if !__has_include(<cblas.h>)
#define TRF_NO_CBLAS
#endif
#endif
#define TRF__FN static TRF__UNUSED      /* every private function: silent when a build does not use it */
#if defined(__clang__)                  /* long, and runs once an object or a file: small rather than fast */
#define TRF__COLD __attribute__((cold, minsize))
#elif TRF__GNU
#define TRF__COLD __attribute__((cold))
#else
#define TRF__COLD
#endif

#define TRF__PASTE_OF(a, b) a##b
#define TRF__PASTE(a, b) TRF__PASTE_OF(a, b)
#define TRF__COLUMN_cuda 1              /* TRF_COLUMN cuda: the column that is no CPU's */
#if defined(TRF_CUDA) || (defined(TRF_COLUMN) && TRF__PASTE(TRF__COLUMN_, TRF_COLUMN))
#define TRF__CUDA 1
#else
#define TRF__CUDA 0
#endif
#if defined(__CUDACC__)
#define TRF__BOTH static __host__ __device__ TRF__UNUSED    /* for the GPU too */
#else
#define TRF__BOTH TRF__FN
#endif

/* Zeroes one object, in C and C++ alike. */
#define TRF__ZERO(object) memset(&(object), 0, sizeof(object))

// -----------------------------------------------------------------------------------------------
// >>base           errors, memory, small arithmetic
//
// What every chapter uses. Errors: a function that can fail returns a status and fills the caller's trf_error;
// trf__fail does both in one line. Memory: always through the hooks, always aligned to 64 bytes, freed with the size
// it was asked with; sizes are counted by trf__bytes, which cannot wrap. Random numbers: counted, never stepped
// (Philox).
// -----------------------------------------------------------------------------------------------

/* Calls a function that returns a status, and leaves the calling one if that is a failure. */
#define TRF__TRY(call) \
    do { trf_status trf__status = (call); if (trf__status != TRF_OK) return trf__status; } while (0)

TRF__FN void trf__clear(trf_error *err)
{
    if (err) { memset(err, 0, sizeof *err); err->where = -1; }
}

/* Bytes of the well-formed UTF-8 character at p (1 to 4), or 0: overlong forms, surrogates and what lies
   beyond U+10FFFF are not (Unicode, table 3-7). */
TRF__FN int trf__utf8_at(const char *p, size_t n)
{
    unsigned char c = n ? (unsigned char)p[0] : 0xFF, low = 0x80, high = 0xBF;
    int bytes = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0, i;
    if (bytes == 0 || (size_t)bytes > n) return 0;
    if (c == 0xE0) low = 0xA0;
    if (c == 0xED) high = 0x9F;
    if (c == 0xF0) low = 0x90;
    if (c == 0xF4) high = 0x8F;
    for (i = 1; i < bytes; i++) {
        unsigned char d = (unsigned char)p[i];
        if (d < low || d > high) return 0;
        low = 0x80;
        high = 0xBF;
    }
    return bytes;
}

/* Copies text into a fixed buffer, cut between two characters. Control characters (U+0080 to U+009F too) and bytes
   that are not UTF-8 become '?', so that a hostile name cannot drive a terminal. */
TRF__FN void trf__copy_text(char *to, size_t size, const char *from)
{
    size_t n = 0, left = from ? strlen(from) : 0;
    while (left > 0) {
        int bytes = trf__utf8_at(from, left), taken = bytes ? bytes : 1;
        unsigned char c = (unsigned char)from[0];
        int bad = bytes == 0 || c < 32 || c == 127 || (c == 0xC2 && (unsigned char)from[1] < 0xA0);
        if (n + (size_t)(bad ? 1 : taken) >= size) break;
        if (bad) to[n++] = '?';
        else { memcpy(to + n, from, (size_t)taken); n += (size_t)taken; }
        from += taken;
        left -= (size_t)taken;
    }
    to[n] = 0;
}

/* Fills err (which may be NULL) and returns status, so that a check is one line:
       if (n < 1) return trf__fail(err, TRF_E_INVALID_ARG, -1, "n", "n must be at least 1, got %d", n); */
TRF__FN TRF__PRINTF(5, 6) trf_status trf__fail(trf_error *err, trf_status status, int64_t where, const char *what,
                                               const char *format, ...)
{
    if (err) {
        char text[sizeof err->message + 8];     /* longer: trf__copy_text does the cutting */
        va_list arguments;
        memset(err, 0, sizeof *err);
        err->status = status;
        err->where = where;
        trf__copy_text(err->what, sizeof err->what, what);
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        trf__copy_text(err->message, sizeof err->message, text);
    }
    return status;
}

TRF__FN trf_status trf__fail_null(trf_error *err, const char *what)
{
    return trf__fail(err, TRF_E_INVALID_ARG, -1, what, "%s must not be NULL", what);
}

/* How public functions begin: nothing has failed yet, and the object they work on is there. */
TRF__FN trf_status trf__begin(const void *object, const char *name, trf_error *err)
{
    trf__clear(err);
    return object ? TRF_OK : trf__fail_null(err, name);
}

TRF__FN trf_status trf__fail_below(trf_error *err, const char *what, int64_t least, int64_t got)
{
    return trf__fail(err, TRF_E_INVALID_ARG, -1, what, "%s must be %lld or more, got %lld",
                     what, (long long)least, (long long)got);
}

/* trf__fail for a failed system call. The message does not name the file: trf__name_file does. */
TRF__FN trf_status trf__fail_io(trf_error *err, int sys_errno, const char *path, const char *doing)
{
    trf_status status = trf__fail(err, TRF_E_IO, -1, path, "cannot %s: %.60s", doing, strerror(sys_errno));
    if (err) err->sys_errno = sys_errno;
    return status;
}

/* What messages show of a path: its last hundred bytes or less, from the beginning of a character. */
TRF__FN const char *trf__path_end(const char *path)
{
    const char *end = strlen(path) > 100 ? path + strlen(path) - 100 : path;
    while (((unsigned char)*end & 0xC0) == 0x80) end++;
    return end;
}

/* Puts the path before the message of a call about a file that failed, unless it stands there already. */
TRF__FN trf_status trf__name_file(trf_status status, const char *path, trf_error *err)
{
    char name[104], text[sizeof err->message + 2 * sizeof name];
    if (status == TRF_OK || !err || !path || !*path) return status;
    trf__copy_text(name, sizeof name, trf__path_end(path));
    if (!strncmp(err->message, name, strlen(name)) && err->message[strlen(name)] == ':') return status;
    snprintf(text, sizeof text, "%s: %s", name, err->message);
    trf__copy_text(err->message, sizeof err->message, text);
    return status;
}

TRF__FN trf_status trf__hooks_check(const trf_hooks *hooks, trf_error *err)
{
    if (!hooks->alloc == !hooks->free) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, "hooks", "hooks need both alloc and free, or neither; got only %s",
                     hooks->alloc ? "alloc" : "free");
}

/* log and free may be a program's macros: hooks of these names are called in parentheses. */
TRF__FN void trf__log(const trf_hooks *hooks, int level, const char *message)
{
    if (hooks->log) (hooks->log)(hooks->user, level, message);
}

TRF__FN int trf__cancelled(const trf_hooks *hooks)
{
    return hooks->cancel && hooks->cancel(hooks->user);
}

enum { TRF__ALIGN = 64, TRF__HUGE_PAGE = 1 << 21 };

/* Memory aligned to 64 bytes from the hooks, or from malloc, where Linux is asked for pages of 2 MiB: a step through
   weights meets few ends of pages then. NULL: none left. Never asks for 0 bytes. */
TRF__FN void *trf__alloc(const trf_hooks *hooks, size_t bytes)
{
    char *raw, *aligned;
    if (bytes == 0) bytes = 1;
    if (bytes > SIZE_MAX - TRF__ALIGN - sizeof(void *)) return NULL;       /* a size that did not fit */
    if (hooks->alloc) return hooks->alloc(hooks->user, TRF__ALIGN, bytes);
    raw = (char *)malloc(bytes + TRF__ALIGN + sizeof(void *));
    if (!raw) return NULL;
#if defined(TRF__HUGEPAGE)
    if (bytes >= 2 * TRF__HUGE_PAGE) {
        size_t before = (TRF__HUGE_PAGE - (uintptr_t)raw % TRF__HUGE_PAGE) % TRF__HUGE_PAGE;
        (void)madvise(raw + before, (bytes - before) / TRF__HUGE_PAGE * TRF__HUGE_PAGE, TRF__HUGEPAGE);
    }
#endif
    aligned = raw + sizeof(void *);
    aligned += (TRF__ALIGN - (uintptr_t)aligned % TRF__ALIGN) % TRF__ALIGN;
    memcpy(aligned - sizeof raw, &raw, sizeof raw);     /* what free needs, just before the block */
    return aligned;
}

TRF__FN void *trf__alloc_zeroed(const trf_hooks *hooks, size_t bytes)
{
    void *memory = trf__alloc(hooks, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

TRF__FN void trf__free(const trf_hooks *hooks, void *memory, size_t bytes)
{
    void *raw;
    if (!memory) return;
    if (bytes == 0) bytes = 1;
    if (hooks->free) { (hooks->free)(hooks->user, memory, bytes); return; }
    memcpy(&raw, (char *)memory - sizeof raw, sizeof raw);
    free(raw);
}

/* Sizes that do not fit become SIZE_MAX: no allocation of so many bytes ever succeeds. trf__bytes: n >= 0 items. */
TRF__FN size_t trf__bytes(int64_t n, size_t item)
{
    return item && (uint64_t)n > SIZE_MAX / item ? SIZE_MAX : (size_t)n * item;
}
TRF__FN size_t trf__add_size(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

TRF__FN int64_t trf__capacity(int64_t wanted, int64_t needed)
{
    while (wanted < needed) wanted = wanted > INT64_MAX / 2 ? INT64_MAX : wanted * 2;
    return wanted;
}

/* A growing array: where its items are once there is room for `needed`. It doubles, so adding n items costs O(n).
   NULL: there is no memory, and nothing has changed. */
TRF__FN void *trf__grown(const trf_hooks *hooks, void *items, int64_t *capacity, int64_t needed, size_t item,
                         trf_error *err)
{
    int64_t wanted = *capacity > 0 ? *capacity : 16;
    void *bigger;
    if (items && needed <= *capacity) return items;
    wanted = trf__capacity(wanted, needed);
    bigger = trf__alloc(hooks, trf__bytes(wanted, item));
    if (!bigger) {
        trf__fail(err, TRF_E_NOMEM, -1, "memory", "no memory for %lld items of %llu bytes", (long long)wanted,
                  (unsigned long long)item);
        return NULL;
    }
    if (items) memcpy(bigger, items, trf__bytes(*capacity, item));
    trf__free(hooks, items, trf__bytes(*capacity, item));
    *capacity = wanted;
    return bigger;
}

/* Room for `needed` items of a type; leaves the calling function if there is none. */
#define TRF__GROW(type, items, capacity, needed, hooks) \
    do { \
        void *trf__items = trf__grown(hooks, items, &(capacity), needed, sizeof(type), err); \
        if (!trf__items) return TRF_E_NOMEM; \
        (items) = (type *)trf__items; \
    } while (0)

/* Hands out pieces of one block of memory, each aligned to 64 bytes; with base NULL it only counts, so the same lines
   first tell the size and then cut. */
typedef struct trf__cursor { char *base; size_t used; } trf__cursor;

TRF__FN trf__cursor trf__cursor_at(void *base)
{
    trf__cursor cursor = { (char *)base, 0 };
    return cursor;
}

TRF__FN void *trf__take(trf__cursor *cursor, int64_t count, size_t item)
{
    void *piece = cursor->base ? cursor->base + cursor->used : NULL;
    cursor->used = trf__add_size(cursor->used, trf__bytes(count, item));
    cursor->used = trf__add_size(cursor->used, (TRF__ALIGN - cursor->used % TRF__ALIGN) % TRF__ALIGN);
    return piece;
}

TRF__FN trf_real *trf__take_reals(trf__cursor *cursor, int64_t rows, int64_t columns)
{
    return (trf_real *)trf__take(cursor, rows, trf__bytes(columns, sizeof(trf_real)));
}

/* A product of counts: 0 if one is negative, INT64_MAX if it is beyond that. */
TRF__FN int64_t trf__times(int64_t a, int64_t b)
{
    if (a <= 0 || b <= 0) return 0;
    return a > INT64_MAX / b ? INT64_MAX : a * b;
}

TRF__FN int64_t trf__min64(int64_t a, int64_t b) { return a < b ? a : b; }
TRF__FN int64_t trf__max64(int64_t a, int64_t b) { return a > b ? a : b; }
TRF__FN int64_t trf__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
TRF__FN int64_t trf__round_up(int64_t a, int64_t b) { return trf__ceil_div(a, b) * b; }

TRF__BOTH int trf__is_finite(double x) { return x - x == 0; }

/* Philox4x32-10 (Salmon et al. 2011): a block of four random words from a counter of four and a key of
   two. The same numbers for any order of asking; no state. */
TRF__BOTH void trf__philox(const uint32_t counter[4], uint32_t key0, uint32_t key1, uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    int round;
    for (round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

/* Number `index` of the 64-bit stream `stream` of a seed: for everything random but dropout. */
TRF__FN uint64_t trf__random64(uint64_t seed, uint32_t stream, uint64_t index)
{
    uint32_t counter[4], out[4];
    counter[0] = (uint32_t)index; counter[1] = (uint32_t)(index >> 32); counter[2] = stream; counter[3] = 0x5EED5EEDu;
    trf__philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32), out);
    return (uint64_t)out[1] << 32 | out[0];
}

// -----------------------------------------------------------------------------------------------
// >>vector         sixteen lanes on every machine
//
// The hot loops are written once, on trf__v16: sixteen numbers, whatever the machine. It is a struct of
// TRF__PARTS native vectors: one AVX-512, two AVX, four SSE2/NEON/WebAssembly, or sixteen scalars.
// Every lane is computed by the same operations in the same order everywhere, and sums over lanes
// follow one fixed tree, so results do not depend on the width of the machine's vectors.
//
// trf__fma is the only place where a product and a sum may melt into one rounding: on machines with
// a fused multiply-add (and contraction allowed, as gnu modes do) they do, on others they do not.
// Kernels therefore never write a product that only feeds a sum in any other way (a minimum between the
// two will do; the doubles of trf__ln and of a row's loss have one product a sum, which all compilers
// contract alike): gcc and clang give the same bits.
// -----------------------------------------------------------------------------------------------

#if defined(TRF_DOUBLE)
#define TRF__REAL_BYTES 8
typedef int64_t trf__int;           /* the integer of the same size */
#else
#define TRF__REAL_BYTES 4
typedef int32_t trf__int;
#endif

#if !TRF__GNU || defined(TRF_SCALAR)
#define TRF__VECTOR_BYTES TRF__REAL_BYTES
#elif defined(__AVX512F__)
#define TRF__VECTOR_BYTES 64
#elif defined(__AVX__)
#define TRF__VECTOR_BYTES 32
#else
#define TRF__VECTOR_BYTES 16
#endif
#define TRF__PARTS (16 * TRF__REAL_BYTES / TRF__VECTOR_BYTES)

/* Writes a statement once per part. A loop would be left rolled at -O2 and put the parts in memory. */
#if TRF__PARTS == 1
#define TRF__EACH(X) X(0)
#elif TRF__PARTS == 2
#define TRF__EACH(X) X(0) X(1)
#elif TRF__PARTS == 4
#define TRF__EACH(X) X(0) X(1) X(2) X(3)
#elif TRF__PARTS == 8
#define TRF__EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define TRF__EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#endif

#if TRF__VECTOR_BYTES == TRF__REAL_BYTES
typedef trf_real trf__vec;
typedef trf__int trf__ivec;
typedef uint32_t trf__uvec;
typedef trf_real trf__vec_in_memory;
#define TRF__LESS(a, b) ((trf__ivec)-((a) < (b)))
#define TRF__SELECT(mask, a, b) ((mask) ? (a) : (b))
#define TRF__AS_INT(to, x) memcpy(&(to), &(x), sizeof(to))
#define TRF__AS_REAL(to, x) memcpy(&(to), &(x), sizeof(to))
#else
typedef trf_real trf__vec __attribute__((vector_size(TRF__VECTOR_BYTES)));
typedef trf__int trf__ivec __attribute__((vector_size(TRF__VECTOR_BYTES)));
typedef uint32_t trf__uvec __attribute__((vector_size(TRF__VECTOR_BYTES)));
typedef trf_real trf__vec_in_memory __attribute__((vector_size(TRF__VECTOR_BYTES), aligned(TRF__REAL_BYTES),
                                                   may_alias));
#define TRF__LESS(a, b) ((trf__ivec)((a) < (b)))
#define TRF__SELECT(mask, a, b) ((trf__vec)(((mask) & (trf__ivec)(a)) | (~(mask) & (trf__ivec)(b))))
#define TRF__AS_INT(to, x) ((to) = (trf__ivec)(x))
#define TRF__AS_REAL(to, x) ((to) = (trf__vec)(x))
#endif

/* Four numbers whose places change, and sixteen bits a lane: for compilers that know both. */
#if TRF__VECTOR_BYTES >= 4 * TRF__REAL_BYTES && (defined(__clang__) || (TRF__GNU && __GNUC__ >= 9))
#define TRF__SHUFFLES 1
typedef trf_real trf__quad __attribute__((vector_size(4 * TRF__REAL_BYTES)));
typedef trf__int trf__quad_int __attribute__((vector_size(4 * TRF__REAL_BYTES)));
typedef uint16_t trf__bits_in_memory __attribute__((vector_size(2 * TRF__VECTOR_BYTES / TRF__REAL_BYTES), aligned(2),
                                                    may_alias));
#if defined(__clang__)
#define TRF__SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define TRF__SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, __extension__(trf__quad_int){i, j, k, l})
#endif
TRF__INLINE trf__quad trf__quad_at(const trf_real *p) { trf__quad q; memcpy(&q, p, sizeof q); return q; }
TRF__INLINE void trf__quad_to(trf_real *p, trf__quad q) { memcpy(p, &q, sizeof q); }
#else
#define TRF__SHUFFLES 0
#endif

#define TRF__WIDE 16

typedef struct trf__v16 { trf__vec part[TRF__PARTS]; } trf__v16;

TRF__INLINE trf__v16 trf__load(const trf_real *p)
{
    trf__v16 r;
#define TRF__X(i) r.part[i] = ((const trf__vec_in_memory *)(const void *)p)[i];
    TRF__EACH(TRF__X)
#undef TRF__X
    return r;
}

TRF__INLINE void trf__store(trf_real *p, trf__v16 a)
{
#define TRF__X(i) ((trf__vec_in_memory *)(void *)p)[i] = a.part[i];
    TRF__EACH(TRF__X)
#undef TRF__X
}

TRF__INLINE trf__v16 trf__set(trf_real x)
{
    trf__v16 r;
    trf__vec zero;
    TRF__ZERO(zero);
#define TRF__X(i) r.part[i] = x - zero;     /* x for every x, as nothing is subtracted; zero + x makes 0 of -0 */
    TRF__EACH(TRF__X)
#undef TRF__X
    return r;
}

/* The first n numbers, then zeros: the end of a row that is no multiple of sixteen. */
TRF__INLINE trf__v16 trf__load_n(const trf_real *p, int64_t n)
{
    trf_real buffer[TRF__WIDE];
    int64_t i;
    if (n >= TRF__WIDE) return trf__load(p);
    for (i = 0; i < TRF__WIDE; i++) buffer[i] = i < n ? p[i] : 0;
    return trf__load(buffer);
}

TRF__INLINE void trf__store_n(trf_real *p, trf__v16 a, int64_t n)
{
    trf_real buffer[TRF__WIDE];
    int64_t i;
    if (n >= TRF__WIDE) { trf__store(p, a); return; }
    trf__store(buffer, a);
    for (i = 0; i < n; i++) p[i] = buffer[i];
}

#define TRF__BINARY(name, expression) \
TRF__INLINE trf__v16 name(trf__v16 a, trf__v16 b) { trf__v16 r; TRF__EACH(expression) return r; }
#define TRF__X(i) r.part[i] = a.part[i] + b.part[i];
TRF__BINARY(trf__add, TRF__X)
#undef TRF__X
#define TRF__X(i) r.part[i] = a.part[i] - b.part[i];
TRF__BINARY(trf__sub, TRF__X)
#undef TRF__X
#define TRF__X(i) r.part[i] = a.part[i] * b.part[i];
TRF__BINARY(trf__mul, TRF__X)
#undef TRF__X
#define TRF__X(i) r.part[i] = a.part[i] / b.part[i];
TRF__BINARY(trf__div, TRF__X)
#undef TRF__X
#define TRF__X(i) r.part[i] = TRF__SELECT(TRF__LESS(a.part[i], b.part[i]), b.part[i], a.part[i]);
TRF__BINARY(trf__max, TRF__X)
#undef TRF__X
#define TRF__X(i) r.part[i] = TRF__SELECT(TRF__LESS(b.part[i], a.part[i]), b.part[i], a.part[i]);
TRF__BINARY(trf__min, TRF__X)
#undef TRF__X

/* a * b + c, rounded once where the machine can. */
TRF__INLINE trf__v16 trf__fma(trf__v16 a, trf__v16 b, trf__v16 c)
{
    trf__v16 r;
#define TRF__X(i) r.part[i] = a.part[i] * b.part[i] + c.part[i];
    TRF__EACH(TRF__X)
#undef TRF__X
    return r;
}

/* a < b ? x : y, lane by lane. */
TRF__INLINE trf__v16 trf__if_less(trf__v16 a, trf__v16 b, trf__v16 x, trf__v16 y)
{
    trf__v16 r;
#define TRF__X(i) r.part[i] = TRF__SELECT(TRF__LESS(a.part[i], b.part[i]), x.part[i], y.part[i]);
    TRF__EACH(TRF__X)
#undef TRF__X
    return r;
}

/* Sum and maximum over the lanes: lane i with lane i + 8, then + 4, + 2, + 1. */
#if TRF__SHUFFLES
TRF__INLINE trf__quad trf__both_sum(trf__quad a, trf__quad b) { return a + b; }
TRF__INLINE trf__quad trf__both_max(trf__quad a, trf__quad b)
{
    trf__quad_int less = (trf__quad_int)(a < b);
    return (trf__quad)((less & (trf__quad_int)b) | (~less & (trf__quad_int)a));
}
#define TRF__OVER_LANES(name, both, scalar) \
TRF__INLINE trf_real name(trf__v16 a) \
{ \
    trf_real x[TRF__WIDE]; \
    trf__quad q; \
    trf__store(x, a); \
    q = both(both(trf__quad_at(x), trf__quad_at(x + 8)), both(trf__quad_at(x + 4), trf__quad_at(x + 12))); \
    q = both(q, TRF__SHUFFLE(q, q, 2, 3, 0, 1)); \
    q = both(q, TRF__SHUFFLE(q, q, 1, 0, 3, 2)); \
    return q[0]; \
}
#else
#define TRF__OVER_LANES(name, both, scalar) \
TRF__INLINE trf_real name(trf__v16 a) \
{ \
    trf_real x[TRF__WIDE]; \
    int half, i; \
    trf__store(x, a); \
    for (half = 8; half > 0; half /= 2) for (i = 0; i < half; i++) scalar; \
    return x[0]; \
}
#endif
TRF__OVER_LANES(trf__sum, trf__both_sum, x[i] += x[i + half])
TRF__OVER_LANES(trf__max_lane, trf__both_max, if (x[i] < x[i + half]) x[i] = x[i + half])

/* to[c][r] = from[r][c]: four rows of four. */
TRF__INLINE void trf__turn4(trf_real *to, int64_t ldt, const trf_real *const from[4])
{
#if TRF__SHUFFLES
    trf__quad a = trf__quad_at(from[0]), b = trf__quad_at(from[1]);
    trf__quad c = trf__quad_at(from[2]), d = trf__quad_at(from[3]);
    trf__quad ab = TRF__SHUFFLE(a, b, 0, 4, 1, 5), cd = TRF__SHUFFLE(c, d, 0, 4, 1, 5);
    trf__quad_to(to, TRF__SHUFFLE(ab, cd, 0, 1, 4, 5));
    trf__quad_to(to + ldt, TRF__SHUFFLE(ab, cd, 2, 3, 6, 7));
    ab = TRF__SHUFFLE(a, b, 2, 6, 3, 7);
    cd = TRF__SHUFFLE(c, d, 2, 6, 3, 7);
    trf__quad_to(to + 2 * ldt, TRF__SHUFFLE(ab, cd, 0, 1, 4, 5));
    trf__quad_to(to + 3 * ldt, TRF__SHUFFLE(ab, cd, 2, 3, 6, 7));
#else
    int i, k;
    for (i = 0; i < 4; i++) for (k = 0; k < 4; k++) to[i * ldt + k] = from[k][i];
#endif
}

/* `scale` where the bits of a lane reach the threshold, else 0. */
TRF__INLINE trf__v16 trf__kept(const uint16_t *bits, uint32_t threshold, trf_real scale)
{
#if TRF__SHUFFLES
    trf__v16 r;
    trf__vec zero, value;
    TRF__ZERO(zero);
    value = scale - zero;
#define TRF__X(i) { \
        trf__ivec wide = __builtin_convertvector(((const trf__bits_in_memory *)(const void *)bits)[i], trf__ivec); \
        r.part[i] = TRF__SELECT((trf__ivec)(wide < (trf__int)threshold), zero, value); }
    TRF__EACH(TRF__X)
#undef TRF__X
    return r;
#else
    trf_real factor[TRF__WIDE];
    int i;
    for (i = 0; i < TRF__WIDE; i++) factor[i] = bits[i] >= threshold ? scale : 0;
    return trf__load(factor);
#endif
}

/* 1 where lane < n, else 0: the mask of a row's end. */
TRF__INLINE trf__v16 trf__first(int64_t n)
{
    static const trf_real ones[2 * TRF__WIDE] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return trf__load(ones + TRF__WIDE - (n < 0 ? 0 : n > TRF__WIDE ? TRF__WIDE : n));
}

#if defined(TRF_DOUBLE)

/* In double the lanes go to libm: this build is for checking gradients. */
#define TRF__BY_LANE(name, expression) \
TRF__INLINE trf__v16 name(trf__v16 a) \
{ \
    trf_real x[TRF__WIDE]; \
    int i; \
    trf__store(x, a); \
    for (i = 0; i < TRF__WIDE; i++) x[i] = expression; \
    return trf__load(x); \
}
TRF__BY_LANE(trf__exp, exp(x[i]))
TRF__BY_LANE(trf__erf, erf(x[i]))
TRF__BY_LANE(trf__sqrt, sqrt(x[i]))
TRF__FN double trf__ln(double x) { return log(x); }

#else

/* exp: x = n ln 2 + r, |r| <= ln 2 / 2; e^x = 2^n e^r. n by the trick of adding 1.5 * 2^23, which leaves the
   rounded n in the low bits; e^r by its Taylor polynomial of degree 7 (remainder 5e-9 relative). Relative
   error below 2e-7; 0 below -87.3, and at most e^88.3. */
TRF__INLINE trf__v16 trf__exp(trf__v16 x)
{
    const trf__v16 one = trf__set(1.0f), magic = trf__set(12582912.0f), low = trf__set(-87.3f);
    trf__v16 t, n, r, p, y, clamped = trf__min(trf__max(x, low), trf__set(88.3f));
    t = trf__fma(clamped, trf__set(1.44269504088896341f), magic);
    n = trf__sub(t, magic);
    r = trf__fma(n, trf__set(-0.693359375f), clamped);              /* ln 2 in two pieces; n * the first is exact */
    r = trf__fma(n, trf__set(2.12194440054690583e-4f), r);
    p = trf__set(1.0f / 5040);
    p = trf__fma(p, r, trf__set(1.0f / 720));
    p = trf__fma(p, r, trf__set(1.0f / 120));
    p = trf__fma(p, r, trf__set(1.0f / 24));
    p = trf__fma(p, r, trf__set(1.0f / 6));
    p = trf__fma(p, r, trf__set(0.5f));
    p = trf__fma(p, r, one);
    p = trf__fma(p, r, one);
#define TRF__X(i) { \
        trf__ivec bits; trf__vec scale; \
        TRF__AS_INT(bits, t.part[i]); \
        bits = (trf__ivec)(((trf__uvec)bits + 127u) << 23); \
        TRF__AS_REAL(scale, bits); \
        y.part[i] = p.part[i] * scale; }
    TRF__EACH(TRF__X)
#undef TRF__X
    return trf__if_less(x, low, trf__set(0), y);
}

/* erf: the odd rational function P(x^2) x / Q(x^2) fitted to [-4, 4], beyond which erf is +-1 in float. */
TRF__INLINE trf__v16 trf__erf(trf__v16 x)
{
    trf__v16 c = trf__min(trf__max(x, trf__set(-4.0f)), trf__set(4.0f)), s = trf__mul(c, c), p, q;
    p = trf__set(-2.72614225801306e-10f);
    p = trf__fma(p, s, trf__set(2.77068142495902e-08f));
    p = trf__fma(p, s, trf__set(-2.10102402082508e-06f));
    p = trf__fma(p, s, trf__set(-5.69250639462346e-05f));
    p = trf__fma(p, s, trf__set(-7.34990630326855e-04f));
    p = trf__fma(p, s, trf__set(-2.95459980854025e-03f));
    p = trf__fma(p, s, trf__set(-1.60960333262415e-02f));
    q = trf__set(-1.45660718464996e-05f);
    q = trf__fma(q, s, trf__set(-2.13374055278905e-04f));
    q = trf__fma(q, s, trf__set(-1.68282697438203e-03f));
    q = trf__fma(q, s, trf__set(-7.37332916720468e-03f));
    q = trf__fma(q, s, trf__set(-1.42647390514189e-02f));
    return trf__div(trf__mul(c, p), q);
}

/* Square root of a >= 0: three Newton steps for 1 / sqrt(a) from a guess that halves the exponent, and one for the
   root itself. An a below 2^-100 is taken times 2^64, and its root times 2^-32, as the steps need normal numbers.
   Relative error below 1e-7, exact for 0 and infinity. (sqrtf may set errno: compilers leave it.) */
TRF__INLINE trf__v16 trf__sqrt(trf__v16 a)
{
    const trf__v16 one = trf__set(1.0f), tiny = trf__set(7.88860905e-31f);
    trf__v16 x = trf__mul(a, trf__if_less(a, tiny, trf__set(18446744073709551616.0f), one));
    trf__v16 r, s, half = trf__mul(x, trf__set(-0.5f));
    int k;
#define TRF__X(i) { \
        trf__ivec bits; \
        TRF__AS_INT(bits, x.part[i]); \
        bits = 0x5F3759DF - (bits >> 1); \
        TRF__AS_REAL(r.part[i], bits); }
    TRF__EACH(TRF__X)
#undef TRF__X
    for (k = 0; k < 3; k++) r = trf__mul(r, trf__fma(trf__mul(half, r), r, trf__set(1.5f)));
    s = trf__mul(x, r);
    s = trf__fma(trf__fma(trf__mul(s, trf__set(-1)), s, x), trf__mul(r, trf__set(0.5f)), s);
    s = trf__mul(s, trf__if_less(a, tiny, trf__set(2.32830644e-10f), one));
    return trf__if_less(a, trf__set((trf_real)HUGE_VAL), s, a);
}

/* Natural logarithm of a normal x > 0 without libm: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and
   ln m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m-1)/(m+1), |s| < 0.172. Relative error a few
   1e-16, absolute near ln 1. */
TRF__FN double trf__ln(double x)
{
    uint64_t bits;
    int e, k;
    double m, s, s2, p = 0;
    if (!(x > 0) || !trf__is_finite(x)) return x == 0 ? -HUGE_VAL : x < 0 ? (double)NAN : x;
    memcpy(&bits, &x, sizeof bits);
    e = (int)(bits >> 52) - 1022;
    bits = (bits & 0x000FFFFFFFFFFFFFull) | 0x3FE0000000000000ull;
    memcpy(&m, &bits, sizeof m);
    if (m < 0.70710678118654752) { m *= 2; e--; }
    s = (m - 1) / (m + 1);
    s2 = s * s;
    for (k = 21; k >= 3; k -= 2) p = p * s2 + 2.0 / k;
    p = s * s2 * p + (s + s);           /* a sum, so that the last line has one product only (see >>vector) */
    return e * 0.69314718055994531 + p;
}

#endif

/* Sixteen Philox blocks at a time: out[w][lane] is word w of the block whose counter is (c0[lane], c1[lane], c2, c3).
   The same words as trf__philox. */
TRF__INLINE void trf__philox16(const uint32_t c0[TRF__WIDE], const uint32_t c1[TRF__WIDE], uint32_t c2, uint32_t c3,
                               uint32_t key0, uint32_t key1, uint32_t out[4][TRF__WIDE])
{
    uint32_t a[TRF__WIDE], b[TRF__WIDE], c[TRF__WIDE], d[TRF__WIDE];
    int round, i;
    for (i = 0; i < TRF__WIDE; i++) { a[i] = c0[i]; b[i] = c1[i]; c[i] = c2; d[i] = c3; }
    for (round = 0; round < 10; round++) {
        for (i = 0; i < TRF__WIDE; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * a[i], p1 = (uint64_t)0xCD9E8D57u * c[i];
            a[i] = (uint32_t)(p1 >> 32) ^ b[i] ^ key0;
            b[i] = (uint32_t)p1;
            c[i] = (uint32_t)(p0 >> 32) ^ d[i] ^ key1;
            d[i] = (uint32_t)p0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (i = 0; i < TRF__WIDE; i++) { out[0][i] = a[i]; out[1][i] = b[i]; out[2][i] = c[i]; out[3][i] = d[i]; }
}

// -----------------------------------------------------------------------------------------------
// >>ops            the contract between the model and the hardware
//
// A backend is one table, trf__backend: first the verbs that open it and move memory, then the ops. Everything a
// model computes is a straight list of op calls; a missing op does not compile. All matrices are row-major, rows are
// tokens.
//
//   embed             y = drop(scale * weight[id] + position)               + its gradient
//   linear            y = x w^T + b          linear_dx: dx = dy w            linear_dw: dw += dy^T x, db += sum dy
//   activate          a = drop(act(h))                                      + gradient
//   attention         softmax(q k^T / sqrt(d_head)) v, per sequence and head + gradient
//   attention_weights the softmax alone, of one head
//   add_norm          s = x + drop(sub), y = norm(s)                        + gradient
//   pool              the mean of each sequence's first rows                + gradient
//   cross_entropy     vocabulary projection, smoothed loss and their gradients in one
//   top               vocabulary projection, log-softmax and the best tokens of each row
//   ancestors         which cached keys belong to a hypothesis, after search has chosen
//   remember          keys and values of the tokens that are read go into the cache
//   advance           beam search chooses, and the rows of the next token are lined up
//   pack              the backend's own copy of a weight matrix, for products
//   clip, adam        the optimizer: norm, clipping and the decision to skip; then one pass over all weights
// A build for translating only (TRF_NO_TRAIN) leaves the training ones out.
//
// Where things are. Every pointer in the structs below is an address of the device: the host hands them on and never
// looks behind them. Memory comes from `alloc`, and numbers pass only through upload, download and fetch.
//   trf__act          an activation: only the backend knows its type (trf_real here, perhaps 16 bits elsewhere)
//   trf_real          weights, their gradients, Adam's moments, statistics of rows
//
// When things happen. What is asked for happens in the order of asking, and may happen later; `sync` waits until all
// has, and tells the first thing that went wrong, then and from then on; which is why ops return nothing.
//   upload            has read its source on return; the caller may change it at once
//   download, fetch   what the host wants to know: asked for, then sync, then read; the place stays until then
//   free              takes effect behind everything asked for before
//   a run with no state (a model's) works behind all that other runs have asked for
// On the CPU the device's memory is the host's, and all happens at once.
//
// Asking costs time too, on a GPU more than a small op itself. So a backend may keep a list of ops that it was asked
// for, and play it again: `replay`, with the list's shape, has done so (1), or the list is asked for op by op and
// `asked` ends it. Nothing but what is on the device may differ between two lists of one shape; for shapes to come
// again, a training batch is filled up to as many rows, and spans, as `fill` wants.
//
// Every op takes 0 rows. Gradients of activations are set (=), of parameters added to (+=); `first` makes that (=)
// too, for the first micro-batch of a step. Outputs overlap no input, except where a struct says so.
// -----------------------------------------------------------------------------------------------

typedef struct trf__act trf__act;       /* never defined */

/* What changes from step to step: one block on the device, so that a recorded step can be played again. */
typedef struct trf__now {
    uint32_t key0, key1, step;          /* of every random decision: the seed, and the number of the update */
    double learning_rate, source_tokens;        /* source_tokens: of this batch, only counted, into the slots */
} trf__now;

/* What a list of ops is made from, besides what it reads on the device: lists of equal shapes are the same list. */
typedef struct trf__shape { int64_t n[16]; } trf__shape;

/* Who computes has one of these; a model, which only owns memory, has one without a state. */
typedef struct trf__run {
    const struct trf__backend *backend;
    trf_device device;
    trf_hooks hooks;
    size_t element;                     /* bytes of an activation */
    void *state;                        /* the backend's own: threads and scratch, or streams and plans */
    const struct trf__process *process; /* what there is once for all of the CPU's (see >>tiles) */
    const trf__now *now;                /* on the device; NULL: nothing is dropped */
} trf__run;

/* Element number n of an activation. */
TRF__FN trf__act *trf__act_at(const trf__run *run, trf__act *a, int64_t n)
{
    return a ? (trf__act *)(void *)((char *)(void *)a + n * (int64_t)run->element) : NULL;
}

/* A weight matrix (out, in) from row `row` on, and the backend's own copy of it, or NULL: packed panels (see >>gemm),
   or 16 bits. Both pointers are those of row 0. Where there is a copy the bias is of the same arena. */
typedef struct trf__mat { const trf_real *plain; const void *copy; int64_t row; } trf__mat;

/* Where the rows of a matrix come from: the number of their sentence in the whole step and the position in it. With
   the site they number every random decision, whatever the split into batches. NULL: sentence 0, position = row. */
typedef struct trf__rows { const int32_t *sentence, *position; } trf__rows;

/* One dropout, made once: an element is kept when its 16 random bits are >= threshold; kept ones are scaled. */
typedef struct trf__drop {
    uint32_t threshold, site;           /* threshold 0: nothing is dropped */
    trf_real scale;                     /* 65536 / (65536 - threshold) */
} trf__drop;

typedef struct trf__embed {
    trf__act *y;                        /* (rows, d) */
    const trf_real *weight, *table;     /* (vocab, d); (positions, d) or NULL */
    const int32_t *ids;                 /* -1: the zero vector */
    trf__rows at;
    int64_t rows, d;
    trf_real scale;
    trf__drop drop;
} trf__embed;

/* Rows that read the same id stand together: list k is rows[first[k]] .. rows[first[k + 1] - 1], in order. Lists at
   the end may be empty. */
typedef struct trf__groups { const int32_t *rows, *first; int64_t n; } trf__groups;

typedef struct trf__embed_gradient {
    trf_real *dweight, *dtable;         /* dtable: NULL if positions are not learned */
    trf__act *dy;                       /* becomes drop(dy) */
    const int32_t *ids;
    trf__groups groups;                 /* without rows of id -1 */
    trf__rows at;
    int64_t rows, d, vocab, positions;  /* positions: rows of dtable */
    trf_real scale;
    trf__drop drop;
    int first, first_table;
} trf__embed_gradient;

typedef struct trf__linear {
    trf__act *y;                        /* (rows, out) */
    const trf__act *x;                  /* (rows, in) */
    trf__mat w;
    const trf_real *b;                  /* or NULL */
    int64_t rows, out, in;
} trf__linear;

typedef struct trf__linear_dx {
    trf__act *dx;
    const trf__act *dy;
    trf__mat w;
    int64_t rows, out, in;
    int add;                            /* 1: dx +=, where two uses of one activation meet */
} trf__linear_dx;

typedef struct trf__linear_dw {
    trf_real *dw, *db;                  /* db may be NULL */
    const trf__act *dy, *x;
    int64_t rows, out, in;
    int first;
} trf__linear_dw;

typedef struct trf__activate {
    trf__act *a;
    const trf__act *h;
    int64_t rows, width;
    int kind;                           /* a trf_activation */
    trf__rows at;
    trf__drop drop;
} trf__activate;

typedef struct trf__activate_gradient {
    trf__act *dh;
    const trf__act *da, *h;
    int64_t rows, width;
    int kind;
    trf__rows at;
    trf__drop drop;
} trf__activate_gradient;

/* One sequence's attention: which rows ask, which rows answer. */
typedef struct trf__span { int32_t query, n_query, key, n_key, sentence; } trf__span;

/* What both directions of attention read. q: (queries, heads * d_head), k and v: (keys, heads * d_head), with these
   distances between rows. Key i of span s is row key + i, or, with key_rows (the ancestors of a beam in the cache),
   row key_rows[s * key_stride + i]. causal: query i sees n_key - n_query + i + 1 keys. With `area` k and v are what
   `remember` has stored in areas of so many rows, v behind k. */
typedef struct trf__attention_in {
    const trf__act *q, *k, *v;
    int64_t ldq, ldk;                   /* ldk is that of k and v */
    const trf__span *spans;
    int64_t n_spans, most_queries, most_keys;   /* most: of any span */
    const int32_t *key_rows;            /* or NULL */
    int64_t key_stride, area;
    int heads, d_head, causal;
    trf__drop drop;                     /* on the weights */
} trf__attention_in;

typedef struct trf__attention {
    trf__attention_in in;
    trf__act *out;                      /* (queries, heads * d_head) without gaps */
    trf_real *stats;                    /* (queries, heads, 2), the backend's own notes for the gradient; or NULL */
} trf__attention;

typedef struct trf__attention_gradient {
    trf__attention_in in;
    trf__act *dq, *dk, *dv;             /* distances between rows as q and k */
    const trf__act *dout, *out;
    const trf_real *stats;
} trf__attention_gradient;

typedef struct trf__attention_weights {
    trf__attention_in in;               /* of one span */
    trf_real *weights;                  /* (n_query, n_key) */
    int head;
} trf__attention_weights;

typedef struct trf__norm {              /* (rows, d) */
    trf__act *s, *y;                    /* s or y may be x; s may be NULL if sub is; y NULL: no norm follows */
    trf_real *stats;                    /* (rows, 2): mean and factor; or NULL */
    const trf__act *x, *sub;            /* sub NULL: s = x */
    const trf_real *gain, *bias;
    int64_t rows, d;
    double epsilon;
    int rule;                           /* a trf_norm_rule */
    trf__rows at;
    trf__drop drop;                     /* on sub */
} trf__norm;

typedef struct trf__norm_gradient {     /* ds = norm'(dy + dy2) + ds_in, dsub = drop(ds) */
    trf__act *ds, *dsub;                /* ds may be dy, dy2 or ds_in; dsub may be NULL */
    trf_real *dgain, *dbias;
    const trf__act *dy, *dy2, *ds_in;   /* dy2 and ds_in may be NULL */
    const trf__act *s;
    const trf_real *stats, *gain;       /* gain NULL: there is no norm, ds = dy + dy2 */
    int64_t rows, d;
    double epsilon;
    int rule, first;
    trf__rows at;
    trf__drop drop;
} trf__norm_gradient;

typedef struct trf__pool {              /* from the rows of spans to one for each, (n_spans, d); its gradient: back */
    trf__act *to;
    const trf__act *from;
    const trf__span *spans;             /* span s has the n_query rows from row `query` on */
    int64_t n_spans, d, most;           /* of each span so many rows count, fewer where it has fewer */
} trf__pool;

/* Sums over target tokens. */
typedef struct trf__sums { double loss, nll, correct, tokens; } trf__sums;

typedef struct trf__loss {
    double *row_loss, *row_nll;         /* per row; rows with a negative target are 0 everywhere */
    trf__sums *sums;                    /* of these rows (=), or NULL */
    trf_real *slots;                    /* the same sums are added to the TRF__SLOTS behind the gradients; or NULL */
    void *room;                         /* loss_room bytes */
    trf__act *dx;
    trf_real *dw, *db;                  /* gradients of the sum of row_loss; dx NULL: none; dw, db NULL: not those */
    const trf__act *x;
    trf__mat w;
    const trf_real *bias;               /* or NULL */
    const int32_t *targets;
    int64_t rows, vocab, d;
    double on, off, entropy;    /* wanted: on at the target, off elsewhere, 0 at zero_column; entropy is subtracted */
    int64_t zero_column;                /* -1: none */
    int first;
} trf__loss;

/* Five sums of a step travel behind the gradients, so that one all-reduce carries everything: two numbers each, what
   a float holds of it and the rest. */
enum {
    TRF__SLOT_LOSS = 0, TRF__SLOT_NLL = 2, TRF__SLOT_CORRECT = 4, TRF__SLOT_TOKENS = 6, TRF__SLOT_SOURCE = 8,
    TRF__SLOTS = 16
};

#define TRF__MOST_GRADIENT (TRF__REAL_BYTES == 4 ? 1e18 : 1e150)    /* Adam squares it */

/* What `clip` finds out about a step, and decides: Adam obeys it, a report is made of it. */
typedef struct trf__verdict {
    trf__sums sums;
    double source_tokens, norm, scale;  /* norm: of the mean gradient, before clipping; scale: clipping / tokens,
                                           with which a gradient stays below TRF__MOST_GRADIENT */
    int64_t bad_tile;                   /* the first one with a number that is not finite; -1: none */
    int64_t updates;                    /* made so far: skipped steps do not count */
    int32_t skipped;
} trf__verdict;

/* A piece of one parameter. */
typedef struct trf__tile {
    int64_t begin, n, missed;           /* missed: updates that its moments have not had, as it was frozen */
    int32_t decay;
} trf__tile;

typedef struct trf__clip {
    trf__verdict *verdict;
    double *partial;                    /* (n_tiles): room for sums of squares */
    const trf_real *gradients, *slots;
    const trf__tile *tiles;
    int64_t n_tiles;
    double clip_norm;
} trf__clip;

typedef struct trf__adam {
    trf_real *p, *m, *v;
    void *copy;                         /* the backend's own copy of the weights, made on the way; or NULL */
    const trf_real *g;
    const trf__tile *tiles;
    int64_t n_tiles;
    const trf__verdict *verdict;
    double beta1, beta2, epsilon, weight_decay;
    int optimizer, epsilon_rule;        /* a trf_optimizer, a trf_adam_epsilon */
} trf__adam;

enum { TRF__ANY = -1, TRF__NOT_EOS = -2 };      /* instead of a forced id */
typedef struct trf__top {
    double *log_probabilities;          /* (rows, n) best first */
    int32_t *ids;                       /* (rows, n) equal ones by lowest id; -1: no more */
    void *room;                         /* top_room bytes */
    const trf__act *x;                  /* (rows, d) */
    trf__mat w;
    const trf_real *bias;               /* or NULL */
    int64_t rows, vocab, d, n;
    int32_t banned[3];                  /* ids never returned, or -1; they still count in the softmax */
    const int32_t *only;                /* NULL, or per row: TRF__ANY; >= 0: this id alone, in place 0; */
    int32_t eos;                        /* TRF__NOT_EOS: any but this one, which leaves the softmax */
} trf__top;

/* to[r] = from[parents[r]], position[r] numbers, then the slot of the token that row r reads now. */
typedef struct trf__ancestors {
    int32_t *to;
    const int32_t *from, *parents, *position, *slots;   /* (rows, stride), and three times (rows) */
    int64_t rows, stride;
} trf__ancestors;

/* cache[slots[r]] = fresh[r], of `width` numbers each, keys and values; slot -1: row r is nobody's. area: 0, or a
   multiple of 16; what is remembered for many tokens comes in areas of so many slots, and within one the backend may
   store it as its attention will read it. */
typedef struct trf__remember {
    trf__act *cache;
    const trf__act *fresh;
    const int32_t *slots;
    int64_t rows, width, area;
} trf__remember;

/* Where a round of searches is: rows and sentences that live, the column of the cache that their token goes into, and
   candidates they want. */
typedef struct trf__progress { int32_t rows, n_live, at, wanted; } trf__progress;

/* Every live sentence chooses among its rows' candidates (>>beam), and the rows of the next token are lined up, first
   those that live, then empty ones up to `rows`. Or `begin` sentences that arrive begin, behind those that live. */
typedef struct trf__advance {
    struct trf__beam *beams;            /* per place */
    trf__span *sources;                 /* per place: rows of the encoder */
    int32_t *live, *starts;             /* per live sentence: its place, and its first row */
    trf__progress *progress;
    const struct trf__arrival *arrivals;
    const double *log_probabilities;    /* (rows, wanted) what `top` has found, and its ids */
    const int32_t *found;
    int32_t *ids, *parents, *position, *only, *slots;
    trf__span *self, *cross;            /* per row; per live sentence, NULL without sources */
    int64_t wanted, rows, n_cross;      /* n_cross: how many there are in cross */
    int64_t n_rows, columns;            /* of the cache: slots of a token; tokens, whose oldest one is replaced */
    int32_t start, begin;               /* start: the id that is read first */
} trf__advance;

/* Makes the copy of the parameter (out, in) at `offset` of an arena of weights, if it wants one of such; the copies
   lie in the same layout. matrix 0: products add it, or nobody copies it. */
typedef struct trf__pack { void *copies; const trf_real *weights; int64_t offset, out, in; int matrix; } trf__pack;

#define TRF__OPS_FORWARD(X) \
    X(embed, trf__embed) X(linear, trf__linear) X(activate, trf__activate) X(attention, trf__attention) \
    X(attention_weights, trf__attention_weights) X(add_norm, trf__norm) X(pool, trf__pool) \
    X(cross_entropy, trf__loss) X(top, trf__top) X(ancestors, trf__ancestors) X(remember, trf__remember) \
    X(advance, trf__advance) X(pack, trf__pack)

#define TRF__OPS_TRAINING(X) \
    X(embed_gradient, trf__embed_gradient) X(linear_dx, trf__linear_dx) \
    X(activate_gradient, trf__activate_gradient) X(attention_gradient, trf__attention_gradient) \
    X(norm_gradient, trf__norm_gradient) X(pool_gradient, trf__pool) X(clip, trf__clip) X(adam, trf__adam)

#if defined(TRF_NO_TRAIN)
#define TRF__OPS(X) TRF__OPS_FORWARD(X)
#else
#define TRF__OPS(X) TRF__OPS_FORWARD(X) TRF__OPS_TRAINING(X)
#endif

typedef struct trf__backend {
    const char *name;                   /* "avx512", "128-bit": what these functions were compiled for */
    int on_host;                        /* 1: its memory is the host's; callers' tensors are used where they are */
    int ahead;                          /* so many tokens of a search are asked for before the host looks */
    trf_status (*probe)(const trf_device *device, trf_error *err);      /* whether this machine has the device */
    /* State. reserve: scratch for attention over up to `longest` keys of heads that wide, and for products with
       weights of so many numbers (0: all are copied); growing keeps the rest, on failure nothing has changed.
       state_bytes: what both take. */
    trf_status (*open)(trf__run *run, trf_error *err);
    trf_status (*reserve)(trf__run *run, int64_t longest, int64_t d_head, int64_t weight, trf_error *err);
    void (*close)(trf__run *run);
    size_t (*state_bytes)(const trf__run *run, int64_t longest, int64_t d_head, int64_t weight);
    /* Memory. alloc: of any size, 0 included; NULL if there is none. fetch: activations as numbers. */
    void *(*alloc)(const trf__run *run, size_t bytes);
    void (*release)(const trf__run *run, void *memory, size_t bytes);
    void (*zero)(const trf__run *run, void *memory, size_t bytes);
    void (*copy)(const trf__run *run, void *to, const void *from, size_t bytes);
    void (*upload)(const trf__run *run, void *to, const void *from, size_t bytes);
    void (*download)(const trf__run *run, void *to, const void *from, size_t bytes);
    void (*fetch)(const trf__run *run, trf_real *to, const trf__act *from, int64_t n);
    trf_status (*sync)(const trf__run *run, trf_error *err);
    void *(*stream)(const trf__run *run);       /* where things happen, for the program's own work there; or NULL */
    /* Lists of ops. asked: whole 0: what was asked for is only part of the list; returns 0 if all of it has to be
       asked for once more. */
    int64_t (*fill)(const trf__run *run, int64_t n);
    int (*replay)(const trf__run *run, const trf__shape *shape);
    int (*asked)(const trf__run *run, int whole);
    /* Sizes that depend on how it computes. copy_bytes: of the copies of an arena of weights, in
       proportion to its size; 0 if it wants none. */
    size_t (*element)(const trf_device *device);
    size_t (*loss_room)(const trf_device *device, int64_t rows, int64_t vocab, int64_t d, int copied);
    size_t (*top_room)(const trf_device *device, int64_t rows, int64_t vocab, int64_t n);
    size_t (*copy_bytes)(const trf_device *device, int64_t n_weights, int training);
#define TRF__X(name, type) void (*name)(const trf__run *run, const type *job);
    TRF__OPS(TRF__X)
#undef TRF__X
#if !defined(TRF_NO_TRAIN)
    void (*linear_dw)(const trf__run *run, const trf__linear_dw *products, int n);     /* n <= TRF__DW_MOST */
#endif
} trf__backend;

enum { TRF__DW_MOST = 3 };      /* weight gradients in one call */

// -----------------------------------------------------------------------------------------------
// >>beam           beam search over one sentence, driven from outside
//
// A beam knows no model. Its driver (the translator) asks what it wants (trf__beam_wanted), computes for every live
// row the best next tokens with their log-probabilities, hands them in (trf__beam_advance), and is told which rows
// live on: new row r continues old row parent[r] with token[r]. Rows are never moved, only named; they stand best
// first, and all have the same number n of tokens. When `done` is set, trf__beam_finish writes the answers.
//
// History is a trellis, 1 + limit columns of at most `beam` nodes; a hypothesis is one node, (n, row):
//
//     n = 0   row 0: start
//     n = 1   row 0: c, parent 0        row 1: a, parent 0          answers "c" and "a" so far
//     n = 2   row 0: c, parent 0        row 1: b, parent 0          "cc" and "cb": nothing lives on from "a"
//             token[n-1][row], parent[n-1][row]: both arrays are (limit, beam)
//
// Nothing is allocated here: trf__beam_layout cuts the arrays out of the caller's memory, once. It may be a device's:
// then only trf__beam_open and what comes after it run there, and trf__beam_places moves the end of it to the host.
//
// Proof: the search keeps one number, `dropped`, the best score that anything it gave up could have reached: tokens
// it was not shown (no more likely than the last one shown), continuations that found no place, live hypotheses left
// at the end. An answer is proven when its score is no lower.
//
// Order among equals: continuations by row, then lowest id; answers by the step they ended in, then lowest ids.
// Never taken: probability 0 and NaN, for which the driver shows id -1; a row that shows one has unknown scores
// behind it, which voids the proof. If nothing at all is left, the best row ends there, with log-probability minus
// infinity. With TRF_LENGTH_POWER, alpha > 0 and count_eos = 0 the empty answer has length 0: its score is minus
// infinity.
// -----------------------------------------------------------------------------------------------

#define TRF__IMPOSSIBLE (-HUGE_VAL)     /* log-probability and score of what cannot be */

enum { TRF__MAX_BEAM = 1024, TRF__MAX_CANDIDATES = 16 };

/* What the next step needs: of every live row the `count` most likely tokens, among which EOS is none and out of the
   softmax if forced is TRF__NOT_EOS, or, if forced >= 0, that one alone. */
typedef struct trf__beam_request { int32_t count, forced; } trf__beam_request;

/* A live row and its next token; a hypothesis that has finished in node (n, row). */
typedef struct trf__chosen { double sum, own; int32_t row, id; } trf__chosen;
typedef struct trf__finished {
    double sum, score, own;     /* own: EOS's */
    int32_t n, row;
    trf_ended ended;
} trf__finished;

typedef struct trf__beam {
    trf_search search;          /* the rules; greedy search is a beam of one with one candidate */
    int32_t limit, vocab, eos;  /* of this sentence; limit: most tokens of an answer, EOS not counted */
    const int32_t *prefix;      /* the caller's: every answer begins with these tokens */
    int32_t n_prefix;
    int32_t least;              /* tokens before EOS is allowed: min_length, and a decoder-only model's beginning */
    int32_t n;                  /* tokens in every live hypothesis */
    int32_t live;               /* live hypotheses: the rows that the driver computes */
    int32_t width;              /* places for them; `beam`, unless finished ones take theirs away (shrink) */
    int32_t done;
    int32_t n_finished;         /* so many have finished, */
    int32_t n_kept, keep;       /* and the best of them are kept: at most n_best, or `beam` for TRF_STOP_HEURISTIC */
    int32_t n_chosen;
    double dropped;             /* best score that anything given up so far could have reached; */
    int32_t gave_up;            /* 1: there was such a thing, even one whose score is minus infinity */
    double lost_token, lost_eos;    /* largest sums given up in this step: continuations, and endings */
    double *sum;                /* (beam) S of each live hypothesis */
    int32_t *token, *parent;    /* (longest, beam) the trellis, */
    double *own;                /* and the log-probability of each of its tokens */
    trf__chosen *chosen;        /* (candidates * beam) the best continuations of this step, best first */
    trf__finished *best;        /* (keep) finished hypotheses, best first */
} trf__beam;

/* Where a beam's arrays are in memory; returns the bytes they take. */
TRF__FN size_t trf__beam_places(trf__beam *beam, int32_t longest, void *memory)
{
    trf__cursor cursor = trf__cursor_at(memory);
    int64_t width = beam->search.beam, nodes = longest * width;
    beam->sum    = (double *)trf__take(&cursor, width, sizeof *beam->sum);
    beam->token  = (int32_t *)trf__take(&cursor, nodes, sizeof *beam->token);
    beam->parent = (int32_t *)trf__take(&cursor, nodes, sizeof *beam->parent);
    beam->own    = (double *)trf__take(&cursor, nodes, sizeof *beam->own);
    beam->chosen = (trf__chosen *)trf__take(&cursor, width * beam->search.candidates, sizeof *beam->chosen);
    beam->best   = (trf__finished *)trf__take(&cursor, beam->keep, sizeof *beam->best);
    return cursor.used;
}

/* Lays a beam out in memory for answers up to `longest` tokens, and returns the bytes that takes. memory (aligned to
   TRF__ALIGN) may be NULL: then only the size is computed. The options have passed trf__search_check. */
TRF__FN size_t trf__beam_layout(trf__beam *beam, const trf_search *search, int32_t longest, void *memory)
{
    TRF__ZERO(*beam);
    beam->search = *search;
    if (search->beam == 1) beam->search.candidates = 1;     /* greedy: the most likely token until the first EOS */
    beam->done = 1;
    beam->keep = search->stop == TRF_STOP_HEURISTIC ? search->beam : search->n_best;
    return trf__beam_places(beam, longest, memory);
}

/* Score of a hypothesis with log-probability S and length L:

       s = S - word_penalty * L;     raw: s     power: s / L^alpha     GNMT: s / ((5 + L) / 6)^alpha */
TRF__BOTH double trf__search_score(const trf_search *search, double sum, int32_t length)
{
    double s = sum - search->word_penalty * (double)length;
    switch (search->length_rule) {
    case TRF_LENGTH_POWER:
        if (length == 0 && search->alpha > 0) return TRF__IMPOSSIBLE;
        return s / pow((double)length, search->alpha);
    case TRF_LENGTH_GNMT:
        return s / pow((5.0 + (double)length) / 6.0, search->alpha);
    default:
        return s;
    }
}

/* The best score that a beginning of n tokens can still reach. More tokens never raise its sum, and it may end at any
   length up to the longest. Without a word penalty the longest is best, as sums are not above zero and the divisor
   grows: sum / penalty(longest), the bound of Wu et al. and tensor2tensor. With one, every length is tried. */
TRF__BOTH double trf__beam_bound(const trf__beam *beam, double sum, int32_t n)
{
    const trf_search *search = &beam->search;
    int32_t longest = beam->limit + (search->at_limit == TRF_LIMIT_FORCE_EOS ? search->count_eos : 0), length;
    double best = trf__search_score(search, sum, longest), score;
    if (search->word_penalty == 0) return best;
    for (length = n + search->count_eos; length < longest; length++) {
        score = trf__search_score(search, sum, length);
        if (score > best) best = score;
    }
    return best;
}

/* Negative if the tokens of a come before those of b, in the order of words in a dictionary. Both are walked back to
   their first common node; the difference seen last is the first one in reading order. */
TRF__BOTH int32_t trf__beam_compare_ids(const trf__beam *beam, const trf__finished *a, const trf__finished *b)
{
    int32_t width = beam->search.beam, row_a = a->row, row_b = b->row, order = a->n - b->n, t;
    for (t = a->n > b->n ? a->n : b->n; t > 0; t--) {
        size_t at_a = (size_t)(t - 1) * (size_t)width + (size_t)row_a;
        size_t at_b = (size_t)(t - 1) * (size_t)width + (size_t)row_b;
        if (t <= a->n && t <= b->n) {
            if (row_a == row_b) break;
            if (beam->token[at_a] != beam->token[at_b]) order = beam->token[at_a] < beam->token[at_b] ? -1 : 1;
        }
        if (t <= a->n) row_a = beam->parent[at_a];
        if (t <= b->n) row_b = beam->parent[at_b];
    }
    return order;
}

TRF__BOTH int trf__beam_ranks_before(const trf__beam *beam, const trf__finished *a, const trf__finished *b)
{
    int32_t step_a = a->n + (a->ended == TRF_ENDED_EOS), step_b = b->n + (b->ended == TRF_ENDED_EOS);
    if (a->score > b->score) return 1;
    if (a->score < b->score) return 0;
    if (step_a != step_b) return step_a < step_b;
    return trf__beam_compare_ids(beam, a, b) < 0;
}

/* Node (n, row) is an answer. Kept sorted; only the best `keep` can be returned or are asked for by a stop rule. */
TRF__BOTH void trf__beam_end(trf__beam *beam, double sum, double own, int32_t row, trf_ended ended)
{
    trf__finished answer;
    int32_t i = beam->n_kept, length = beam->n + (ended == TRF_ENDED_EOS ? beam->search.count_eos : 0);
    answer.sum = sum;
    answer.own = own;
    answer.n = beam->n;
    answer.row = row;
    answer.ended = ended;
    answer.score = trf__search_score(&beam->search, sum, length);
    beam->n_finished++;
    if (beam->n_kept < beam->keep) beam->n_kept++;
    else if (trf__beam_ranks_before(beam, &answer, &beam->best[i - 1])) i--;
    else return;
    for (; i > 0 && trf__beam_ranks_before(beam, &answer, &beam->best[i - 1]); i--) beam->best[i] = beam->best[i - 1];
    beam->best[i] = answer;
}

/* The search is over. Live hypotheses at the limit are answers, unless the rules want an EOS; other live ones are
   given up. Under TRF_LIMIT_FALL_BACK a live one at the limit is no answer beside one that ended with EOS. */
TRF__BOTH void trf__beam_close(trf__beam *beam)
{
    int at_limit = beam->n == beam->limit && beam->search.at_limit != TRF_LIMIT_FORCE_EOS;
    int count_live = beam->search.at_limit == TRF_LIMIT_KEEP_LIVE || beam->n_finished == 0;
    int32_t row;
    for (row = 0; row < beam->live; row++) {
        double bound = at_limit ? TRF__IMPOSSIBLE : trf__beam_bound(beam, beam->sum[row], beam->n);
        if (at_limit && count_live) trf__beam_end(beam, beam->sum[row], 0, row, TRF_ENDED_MAX_LENGTH);
        if (bound > beam->dropped) beam->dropped = bound;
        if (!at_limit && beam->sum[row] > TRF__IMPOSSIBLE) beam->gave_up = 1;
    }
    if (beam->n_kept > beam->search.n_best) beam->n_kept = beam->search.n_best;
    beam->live = 0;
    beam->done = 1;
}

/* Whether the search ends after this step. Live hypothesis 0 is the best: all have the same length. */
TRF__BOTH int trf__beam_stops(const trf__beam *beam)
{
    const trf_search *search = &beam->search;
    double hope;
    if (beam->live == 0) return 1;
    if (beam->n == beam->limit && search->at_limit != TRF_LIMIT_FORCE_EOS) return 1;
    if (search->stop == TRF_STOP_FINISHED) return beam->n_finished >= search->beam;
    if (search->stop == TRF_STOP_NONE_ALIVE || beam->n_kept < beam->keep) return 0;
    hope = search->stop == TRF_STOP_BOUND ? trf__beam_bound(beam, beam->sum[0], beam->n)
                                          : trf__search_score(search, beam->sum[0], beam->n);
    return beam->best[beam->n_kept - 1].score > hope;
}

/* What a sentence is: 0 <= n_prefix <= limit <= longest. The prefix is borrowed until the search is done. */
TRF__FN void trf__beam_sentence(trf__beam *beam, int32_t limit, const int32_t *prefix, int32_t n_prefix, int32_t eos,
                                int32_t vocab)
{
    beam->limit = limit;
    beam->prefix = prefix;
    beam->n_prefix = n_prefix;
    beam->least = beam->search.min_length;
    beam->eos = eos;
    beam->vocab = vocab;
}

/* Begins it: there is one live row, without tokens; or none, and `done`, if no token is allowed at all. */
TRF__BOTH void trf__beam_open(trf__beam *beam)
{
    beam->n = beam->n_finished = beam->n_kept = beam->done = beam->gave_up = 0;
    beam->live = 1;
    beam->width = beam->search.beam;
    beam->dropped = TRF__IMPOSSIBLE;
    beam->sum[0] = 0;
    if (trf__beam_stops(beam)) trf__beam_close(beam);
}

TRF__BOTH trf__beam_request trf__beam_wanted(const trf__beam *beam)
{
    trf__beam_request request;
    int32_t eos_forbidden = beam->n < beam->least, eos_out = eos_forbidden && beam->search.renormalise;
    request.forced = beam->n < beam->n_prefix ? beam->prefix[beam->n] : beam->n == beam->limit ? beam->eos
                   : eos_out ? TRF__NOT_EOS : TRF__ANY;
    request.count = beam->search.candidates * beam->width + (eos_forbidden && !eos_out);    /* it may be of no use */
    if (request.count > beam->vocab - eos_out) request.count = beam->vocab - eos_out;
    if (request.forced >= 0) request.count = 1;
    return request;
}

/* Notes that a continuation was given up; trf__beam_settle turns the largest sums into scores, once a step. */
TRF__BOTH void trf__beam_lose(trf__beam *beam, double sum, int32_t id)
{
    double *lost = id == beam->eos ? &beam->lost_eos : &beam->lost_token;
    if (sum > *lost) { *lost = sum; beam->gave_up = 1; }
}

TRF__BOTH void trf__beam_settle(trf__beam *beam)
{
    double ending = trf__search_score(&beam->search, beam->lost_eos, beam->n + beam->search.count_eos);
    double going_on = trf__beam_bound(beam, beam->lost_token, beam->n + 1);
    if (ending > beam->dropped) beam->dropped = ending;
    if (going_on > beam->dropped) beam->dropped = going_on;
}

/* Puts a continuation into the sorted list of the best `take`. Rows arrive in order: among equals the later row
   stands behind, and within a row the higher id. */
TRF__BOTH void trf__beam_choose(trf__beam *beam, int32_t take, double sum, double own, int32_t row, int32_t id)
{
    trf__chosen *list = beam->chosen, *last = list + take - 1;
    int32_t i = beam->n_chosen;
    if (i == take && !(sum > last->sum || (sum == last->sum && row == last->row && id < last->id))) {
        trf__beam_lose(beam, sum, id);
        return;
    }
    if (i < take) beam->n_chosen++;
    else { trf__beam_lose(beam, last->sum, last->id); i--; }
    for (; i > 0; i--) {
        const trf__chosen *other = &list[i - 1];
        if (!(sum > other->sum || (sum == other->sum && row == other->row && id < other->id))) break;
        list[i] = *other;
    }
    list[i].sum = sum;
    list[i].own = own;
    list[i].row = row;
    list[i].id = id;
}

/* First half of a step: the best continuations of all rows. Tokens that a row has not shown are at most as likely as
   the least likely one shown, or, if one shown was unknown, as likely as can be. A forced token is taken whatever its
   probability, and while the prefix lasts there is one row. A number above zero is rounding: it counts as 0. */
TRF__BOTH void trf__beam_gather(trf__beam *beam, const double *log_probabilities, const int32_t *ids, int64_t stride,
                              int32_t count)
{
    int32_t forced = trf__beam_wanted(beam).forced, take = beam->search.candidates * beam->width, row, j;
    int eos_allowed = forced >= 0 || beam->n >= beam->least;
    beam->n_chosen = 0;
    beam->lost_token = beam->lost_eos = TRF__IMPOSSIBLE;
    for (row = 0; row < beam->live; row++) {
        int hides = forced < 0 && count < beam->vocab - (forced == TRF__NOT_EOS);   /* 1: not shown; 2: not known */
        double least = 0, hidden;
        for (j = 0; j < count; j++) {
            int32_t id = forced >= 0 ? forced : ids[row * stride + j];
            double p = log_probabilities[row * stride + j], own;
            if (id < 0 || !(p < HUGE_VAL)) { p = TRF__IMPOSSIBLE; hides = 2; }
            if (p > 0) p = 0;
            if (p < least) least = p;
            own = p;
            if (beam->n < beam->n_prefix && !beam->search.score_prefix) p = 0;
            if (forced < 0 && (p == TRF__IMPOSSIBLE || (id == beam->eos && !eos_allowed))) continue;
            trf__beam_choose(beam, take, beam->sum[row] + p, own, row, id);
        }
        if (!hides) continue;
        hidden = beam->sum[row] + (hides == 2 ? 0 : least);
        trf__beam_lose(beam, hidden, -1);
        if (eos_allowed) trf__beam_lose(beam, hidden, beam->eos);
    }
    if (beam->n_chosen == 0 && beam->n_kept == 0)
        trf__beam_choose(beam, take, TRF__IMPOSSIBLE, TRF__IMPOSSIBLE, 0, beam->eos);
}

/* Second half: endings first, then the rows that live on. Under TRF_LIMIT_KEEP_LIVE the last step ends the best
   `width` where they stand: nothing moves up into the place of one that ended with EOS (CTranslate2, Marian). */
TRF__BOTH void trf__beam_place(trf__beam *beam)
{
    const trf_search *search = &beam->search;
    int last = beam->n + 1 == beam->limit && search->at_limit == TRF_LIMIT_KEEP_LIVE;
    int32_t places = beam->width, k;
    int32_t eos = beam->n < beam->n_prefix ? -1 : beam->eos;    /* one in the prefix ends nothing */
    size_t node = (size_t)beam->n * (size_t)search->beam;
    for (k = 0; k < beam->n_chosen; k++) {
        const trf__chosen *chosen = &beam->chosen[k];
        if (chosen->id != eos) continue;
        if (search->eos_in_top_beam && k >= beam->width) { trf__beam_lose(beam, chosen->sum, chosen->id); continue; }
        trf__beam_end(beam, chosen->sum, chosen->own, chosen->row, TRF_ENDED_EOS);
        if (search->shrink) places--;       /* a row has one EOS: never below 0 */
    }
    beam->live = 0;
    for (k = 0; k < beam->n_chosen; k++) {
        const trf__chosen *chosen = &beam->chosen[k];
        if (chosen->id == eos) continue;
        if (beam->live == places || (last && k >= beam->width)) {
            trf__beam_lose(beam, chosen->sum, chosen->id);
            continue;
        }
        beam->sum[beam->live] = chosen->sum;
        beam->token[node + (size_t)beam->live] = chosen->id;
        beam->parent[node + (size_t)beam->live] = chosen->row;
        beam->own[node + (size_t)beam->live] = chosen->own;
        beam->live++;
    }
    beam->width = places;
}

/* One step. The candidates of row r stand at r * stride, `count` of them, as trf__beam_wanted asked, no token twice.
   Returns the number of rows that live on, 0 when the search is done; row r continues row trf__beam_parents()[r] with
   token trf__beam_tokens()[r]. */
TRF__BOTH int32_t trf__beam_advance(trf__beam *beam, const double *log_probabilities, const int32_t *ids,
                                  int64_t stride, int32_t count)
{
    trf__beam_gather(beam, log_probabilities, ids, stride, count);
    trf__beam_place(beam);
    trf__beam_settle(beam);
    if (beam->live > 0) beam->n++;
    if (trf__beam_stops(beam)) trf__beam_close(beam);
    return beam->live;
}

/* After a step that left rows alive: their last tokens, and the rows of the step before that they continue. */
TRF__BOTH const int32_t *trf__beam_tokens(const trf__beam *beam)
{
    return beam->token + (size_t)(beam->n - 1) * (size_t)beam->search.beam;
}

TRF__BOTH const int32_t *trf__beam_parents(const trf__beam *beam)
{
    return beam->parent + (size_t)(beam->n - 1) * (size_t)beam->search.beam;
}

/* Tokens of all answers together, with EOS: the room trf__beam_finish needs. */
TRF__FN int64_t trf__beam_ids(const trf__beam *beam)
{
    int64_t total = 0;
    int32_t k;
    for (k = 0; k < beam->n_kept; k++) total += (int64_t)beam->best[k].n + 1;
    return total;
}

/* Writes the answers, best first, into answers[n_best], their tokens into ids and those's log-probabilities into own:
   of each answer its n and one more. Returns how many there are. An unfinished answer that stands in for
   finished ones (TRF_LIMIT_FALL_BACK) is proven only if nothing at all was given up, as any finished one would
   have replaced it. */
TRF__FN int32_t trf__beam_finish(const trf__beam *beam, trf_hypothesis *answers, int32_t *ids, double *own)
{
    int32_t k, t;
    for (k = 0; k < beam->n_kept; k++) {
        const trf__finished *best = &beam->best[k];
        trf_hypothesis *answer = &answers[k];
        int stands_in = best->ended == TRF_ENDED_MAX_LENGTH && beam->search.at_limit == TRF_LIMIT_FALL_BACK;
        int32_t row = best->row;
        for (t = best->n; t > 0; t--) {
            size_t node = (size_t)(t - 1) * (size_t)beam->search.beam + (size_t)row;
            ids[t - 1] = beam->token[node];
            own[t - 1] = beam->own[node];
            row = beam->parent[node];
        }
        own[best->n] = best->own;
        answer->ids = ids;
        answer->n = best->n;
        answer->log_probabilities = own;
        answer->log_probability = answer->beginning = 0;
        for (t = 0; t < best->n + (best->ended == TRF_ENDED_EOS); t++) answer->log_probability += own[t];
        answer->score = best->score;
        answer->ended = best->ended;
        answer->proven = stands_in ? !beam->gave_up : best->score >= beam->dropped;
        ids += best->n + 1;
        own += best->n + 1;
    }
    return beam->n_kept;
}

// >>line-up        what each row reads next, after every sentence has chosen: see >>translate

/* A sentence that begins, and the place it takes. */
typedef struct trf__arrival { trf__beam beam; trf__span source; int32_t place; } trf__arrival;

/* Sentence number k of the live ones chooses, or begins. Returns its place. */
TRF__BOTH int32_t trf__advance_sentence(const trf__advance *a, int32_t k)
{
    const trf__arrival *arrival = a->begin ? &a->arrivals[k - a->progress->n_live] : NULL;
    int32_t place = arrival ? arrival->place : a->live[k];
    trf__beam *beam = &a->beams[place];
    if (arrival) {
        *beam = arrival->beam;
        a->sources[place] = arrival->source;
        trf__beam_open(beam);
    } else {
        int64_t at = a->starts[k] * a->wanted;
        trf__beam_advance(beam, a->log_probabilities + at, a->found + at, a->wanted, trf__beam_wanted(beam).count);
    }
    return place;
}

/* The sentence of this place is live sentence number k from now on, and its rows are `row` ..; they were `before` ...
   Their token goes into column `at` of the cache. */
TRF__BOTH void trf__advance_rows(const trf__advance *a, int32_t place, int32_t k, int32_t row, int32_t before,
                                 int32_t at)
{
    const trf__beam *beam = &a->beams[place];
    int32_t forced = trf__beam_wanted(beam).forced, j;
    a->live[k] = place;
    a->starts[k] = row;
    if (a->cross) {
        a->cross[k] = a->sources[place];
        a->cross[k].query = row;
        a->cross[k].n_query = beam->live;
    }
    for (j = 0; j < beam->live; j++) {
        trf__span span = { row + j, 1, 0, beam->n + 1, 0 };
        a->self[row + j] = span;
        a->ids[row + j] = a->begin ? a->start : trf__beam_tokens(beam)[j];
        a->parents[row + j] = a->begin ? 0 : before + trf__beam_parents(beam)[j];
        a->position[row + j] = beam->n;
        a->only[row + j] = forced;
        a->slots[row + j] = (int32_t)(at * a->n_rows + row + j);
    }
}

/* How it stands before a token is chosen, or sentences begin: none is lined up, or all that live. */
TRF__BOTH trf__progress trf__advance_from(const trf__advance *a)
{
    trf__progress now = *a->progress;
    if (a->begin) return now;
    now.rows = now.n_live = 0;
    now.wanted = 1;
    now.at = now.at + 1 < a->columns ? now.at + 1 : 0;
    return now;
}

/* Row r is nobody's: it reads nothing, sees nothing and is not kept. */
TRF__BOTH void trf__advance_nobody(const trf__advance *a, int64_t r)
{
    trf__span span = { (int32_t)r, 1, 0, 0, 0 };
    a->self[r] = span;
    a->ids[r] = a->slots[r] = -1;
    a->parents[r] = a->position[r] = 0;
    a->only[r] = TRF__ANY;
}

// -----------------------------------------------------------------------------------------------
// >>cpu            the backend that every machine has: threads, matrix products, and the ops in the paper's order
//
// Each op is a tile function (trf__NAME_tile: what one worker does with one piece) and the op itself, which cuts the
// work into tiles. An op's struct is its tiles' argument. Activations are trf_real here: trf__from and trf__to look
// behind the contract's pointers.
// -----------------------------------------------------------------------------------------------

// >>tiles          the one place where ops meet threads (>>threads has them)
//
// An op is cut into numbered tiles that write disjoint outputs; where bits depend on the cut, as in CBLAS,
// the cut depends on shapes alone. So which worker runs which tile in which order changes no bit.

/* Called for every tile with the number of the worker that runs it; tests count with it. */
#if !defined(TRF__TILE_HOOK)
#define TRF__TILE_HOOK(tiling, worker) ((void)0)
#endif

typedef void trf__tile_function(const trf__run *run, const void *job, int64_t tile, int worker);

/* An op that is being computed. Worker 0 is the thread that called. */
typedef struct trf__tiling {
    trf__tile_function *function;
    const trf__run *run;
    const void *job;
    int64_t n_tiles;
} trf__tiling;

/* The threads of one object. */
typedef struct trf__team trf__team;

/* Where a library behind CBLAS bears only so many callers at a time: enter waits for `wanted` places, or for all
   there are if that is fewer, and returns how many it took; leave gives them back. */
typedef struct trf__gate { int (*enter)(int wanted); void (*leave)(int taken); } trf__gate;

/* The CPU's state. */
typedef struct trf__cpu {
    int threads, blas;          /* blas: 1: large products go to CBLAS, */
    const trf__gate *gate;      /* through this; NULL: as they come */
    trf__team *team;            /* NULL: one thread */
    trf_real *room;             /* where all threads pack a weight, or a part of it; behind it, in the same memory, */
    char *scratch;              /* threads * scratch_each bytes */
    size_t scratch_each, room_bytes;
} trf__cpu;

/* What there is once in a process, outside all columns. open starts threads, and finds out whether and through which
   gate CBLAS may be called; close ends them. share runs all tiles on at most `workers` threads, or on none (0), where
   they do not exist. bytes: of the team. */
typedef struct trf__process {
    trf_status (*open)(trf__cpu *cpu, const trf_hooks *hooks, trf_error *err);
    void (*close)(trf__cpu *cpu, const trf_hooks *hooks);
    int (*share)(trf__team *team, int workers, const trf__tiling *work);
    size_t (*bytes)(int threads);
} trf__process;

TRF__INLINE trf__cpu *trf__cpu_of(const trf__run *run) { return (trf__cpu *)run->state; }

/* On at most `workers` threads. */
TRF__FN void trf__tiles_on(const trf__run *run, int workers, int64_t n_tiles, trf__tile_function *function,
                           const void *job)
{
    trf__team *team = trf__cpu_of(run)->team;
    trf__tiling work;
    int64_t tile;
    work.function = function; work.run = run; work.job = job; work.n_tiles = n_tiles;
    if (team && workers > 1 && n_tiles > 1 && run->process->share(team, workers, &work)) return;
    for (tile = 0; tile < n_tiles; tile++) {
        TRF__TILE_HOOK(&work, 0);
        function(run, job, tile, 0);
    }
}

TRF__FN void trf__tiles(const trf__run *run, int64_t n_tiles, trf__tile_function *function, const void *job)
{
    trf__tiles_on(run, trf__cpu_of(run)->threads, n_tiles, function, job);
}

/* For tiles that call CBLAS if `blas`: with as many workers as the gate lets in. */
TRF__FN void trf__product_tiles(const trf__run *run, int blas, int64_t n_tiles, trf__tile_function *function,
                                const void *job)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    int workers = cpu->threads, gated = blas && cpu->gate && n_tiles > 0;
    if (gated) workers = cpu->gate->enter((int)trf__min64(workers, n_tiles));
    trf__tiles_on(run, workers, n_tiles, function, job);
    if (gated) cpu->gate->leave(workers);
}

TRF__FN trf_real *trf__scratch(const trf__run *run, int worker)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    return (trf_real *)(void *)(cpu->scratch + (size_t)worker * cpu->scratch_each);
}

/* Rows per tile: about eight tiles, or two for each thread, so that all have work, but no smaller than pays. */
TRF__FN int64_t trf__rows_each(int64_t rows, int threads)
{
    int64_t tiles = trf__max64(8, 2 * (int64_t)threads);
    return trf__max64(32, trf__min64(256, trf__round_up(trf__ceil_div(rows, tiles), 16)));
}

TRF__FN int64_t trf__tile_rows(const trf__run *run, int64_t rows)
{
    return trf__rows_each(rows, trf__cpu_of(run)->threads);
}

// >>gemm           matrix products: our own, or CBLAS's
//
//   C (m, n) = A (m, k) B (k, n) [+ b of n] [+ C]     A and B with any strides
//
// Every element of C is one chain of multiply-adds over k in order, wherever the matrix is cut: so the
// built-in product gives a row the same bits whatever its neighbours, tiles and threads are. It reads B in panels:
// sixteen columns, row by row (k, 16); a weight (out, in) is used as B = w^T, so its panel is
// sixteen rows of w transposed. A translator packs its weights once; a trainer packs them into a room that all
// threads read, as they are met; what has its columns side by side is copied into a worker's scratch as it goes.
// Which product: see trf_products. Where vectors hold eight numbers or more ours is the faster one, or as fast where
// both wait for memory (tools/bench.md); the large ones go to CBLAS elsewhere.
// CBLAS calls are single-threaded: the threads are ours (>>tiles).

#if TRF__GNU
#define TRF__PREFETCH(p) __builtin_prefetch(p)
#else
#define TRF__PREFETCH(p) (void)(p)
#endif
#if defined(__clang__)
#define TRF__UNROLL _Pragma("unroll")
#elif TRF__GNU && !defined(__CUDACC__)      /* nvcc does not know it */
#define TRF__UNROLL _Pragma("GCC unroll 16")
#else
#define TRF__UNROLL
#endif
#if TRF__GNU && defined(__SSE2__) && !defined(__CUDACC__)
#define TRF__HOLD(vector) __asm__("" : "+v"(vector))    /* in a register; compilers read it again at each use */
#else
#define TRF__HOLD(vector) (void)(vector)
#endif

enum {
    TRF__MM_ROWS = 6,                               /* rows of C at a time, in registers, */
    TRF__MM_PAIRED = TRF__PARTS == 1 ? INT32_MAX : TRF__PARTS == 2 ? 2 : 0,     /* two panels of up to so many rows */
    TRF__DEEP = 256,                                /* rows of B at a time: 16 KiB a panel, half a level-1 cache */
    TRF__FAR = 64,                                  /* rows of B that are fetched ahead for a few rows of C; */
    TRF__SHARES = 4,                                /* so many calls of six rows fetch the next panels together */
    TRF__STRIP = 2 * TRF__MM_ROWS,                  /* rows of A that are packed side by side, */
    TRF__TALL = 10 * TRF__STRIP,                    /* rows of C at a time whose A has its columns side by side */
    TRF__ROOM = 1 << 20,                            /* numbers of a weight that are packed at a time, at most */
    TRF__PACK = 16,                                 /* rows or columns of it, in one tile */
    TRF__SKINNY = 16,                               /* up to so many rows CBLAS is never asked, */
    TRF__PACKED_ROWS = 512                          /* nor up to so many where the weight is packed already */
};

/* Element (i, j) of a matrix stands at at[i * row + j * column]. */
typedef struct trf__view { const trf_real *at; int64_t row, column; } trf__view;

TRF__FN trf__view trf__view_of(const trf_real *at, int64_t row, int64_t column)
{
    trf__view view = { at, row, column };
    return view;
}

/* C (m, n) = A (m, k) B (k, n), or += with `add`; else each row begins with `bias`, if there is one. Where B is in
   panels of sixteen columns its view is that of whole panels: row t, columns 16 p .. 16 p + 15 at
   at + t * row + p * column, readable to a multiple of 16. */
typedef struct trf__product {
    trf_real *c;
    int64_t ldc, m, n, k;
    trf__view a, b;
    int64_t strip;              /* 0, or A is packed: the distance of strips of TRF__STRIP rows (>>gemm) */
    const trf_real *bias;
    int add;
} trf__product;

TRF__FN trf__product trf__product_of(trf_real *c, int64_t ldc, int64_t m, int64_t n, int64_t k, trf__view a,
                                     trf__view b, int add)
{
    trf__product p = { c, ldc, m, n, k, a, b, 0, NULL, add };
    return p;
}

/* R rows and P panels of C in registers: c[r][q] (+)= sum over t of a[r][t] * b[t][q]. The last panel has n_last
   columns. Meanwhile what is read later comes into the cache: 2 to 5 rows fetch what they read themselves `ahead`
   steps later, and at the end the beginning of the panels at `next`, which are multiplied afterwards; 1 row and 6
   rows fetch those, `ahead` numbers further with each step. */
#define TRF__MM_KERNEL(R, P) \
TRF__FN void trf__mm_##R##_##P(const trf__product *x, const trf_real *a, const trf_real *b, const trf_real *next, \
                               int64_t ahead, const trf_real *bias, trf_real *c, int64_t n_last) \
{ \
    trf__v16 sum[R][P]; \
    int64_t t, k = x->k, a_row = x->a.row, a_step = x->a.column, b_step = x->b.row, b_panel = x->b.column; \
    int64_t ldc = x->ldc; \
    int r, p, add = x->add; \
    TRF__UNROLL for (r = 0; r < R; r++) TRF__UNROLL for (p = 0; p < P; p++) { \
        const trf_real *first = add ? c + r * ldc : bias; \
        sum[r][p] = first ? trf__load_n(first + 16 * p, p == P - 1 ? n_last : 16) : trf__set(0); \
    } \
    for (t = 0; t < k; t++) { \
        trf__v16 column[P]; \
        const trf_real *later = R == 1 || R == TRF__MM_ROWS ? next + t * ahead \
                              : t + ahead < k ? b + (t + ahead) * b_step : next + (t + ahead - k) * b_step; \
        TRF__UNROLL for (p = 0; p < P; p++) { \
            column[p] = trf__load(b + p * b_panel + t * b_step); \
            TRF__UNROLL for (r = 0; r < TRF__PARTS; r++) TRF__HOLD(column[p].part[r]); \
        } \
        TRF__UNROLL for (p = 0; p < P; p++) TRF__PREFETCH(later + p * b_panel); \
        TRF__UNROLL for (r = 0; r < R; r++) { \
            trf__v16 value = trf__set(a[r * a_row + t * a_step]); \
            TRF__UNROLL for (p = 0; p < P; p++) sum[r][p] = trf__fma(value, column[p], sum[r][p]); \
        } \
    } \
    TRF__UNROLL for (r = 0; r < R; r++) TRF__UNROLL for (p = 0; p < P; p++) \
        trf__store_n(c + r * ldc + 16 * p, sum[r][p], p == P - 1 ? n_last : 16); \
}
#define TRF__MM_KERNELS(P) TRF__MM_KERNEL(1, P) TRF__MM_KERNEL(2, P) TRF__MM_KERNEL(3, P) \
                           TRF__MM_KERNEL(4, P) TRF__MM_KERNEL(5, P) TRF__MM_KERNEL(6, P)
TRF__MM_KERNELS(1)
TRF__MM_KERNELS(2)

/* Where row i of A begins. */
TRF__INLINE int64_t trf__strip_row(const trf__product *p, int64_t i)
{
    return p->strip ? i / TRF__STRIP * p->strip + i % TRF__STRIP : i * p->a.row;
}

/* The product with B in panels, of which a level-1 cache holds TRF__DEEP rows while all rows of A meet them; if those
   are few, each panel is read once, from its beginning to its end. */
TRF__FN void trf__mm(trf__product p)
{
    int64_t j, i, k = p.k, done, deep = trf__max64(p.m > TRF__MM_ROWS ? (int64_t)TRF__DEEP : k, 1);
    int64_t shares = p.m < TRF__SHARES * TRF__MM_ROWS ? 1 : TRF__SHARES;
    for (done = 0; done == 0 || done < k; done += deep) {
        p.k = trf__min64(deep, k - done);
        for (j = 0; j < p.n; ) {
            int two = p.m <= TRF__MM_PAIRED && p.n - j > 16;
            int64_t width = two ? trf__min64(32, p.n - j) : trf__min64(16, p.n - j), last = two ? width - 16 : width;
            const trf_real *b = p.b.at + j / 16 * p.b.column + done * p.b.row, *bias = p.bias ? p.bias + j : NULL;
            for (i = 0; i < p.m; i += TRF__MM_ROWS) {
                const trf_real *a = p.a.at + trf__strip_row(&p, i) + done * p.a.column;
                const trf_real *next = j + width == p.n || i >= shares * TRF__MM_ROWS ? b
                    : b + trf__ceil_div(width, 16) * p.b.column + i / TRF__MM_ROWS * (p.k / shares) * p.b.row;
                trf_real *c = p.c + i * p.ldc + j;
                int64_t rows = trf__min64(TRF__MM_ROWS, p.m - i);
                int64_t ahead = rows > 1 && rows < TRF__MM_ROWS ? trf__min64(TRF__FAR, p.k) : p.b.row / shares;
                switch (rows + 8 * two) {
#define TRF__CASE(R) \
                case R: trf__mm_##R##_1(&p, a, b, next, ahead, bias, c, last); break; \
                case R + 8: trf__mm_##R##_2(&p, a, b, next, ahead, bias, c, last); break;
                TRF__CASE(1) TRF__CASE(2) TRF__CASE(3) TRF__CASE(4) TRF__CASE(5) TRF__CASE(6)
#undef TRF__CASE
                default: break;
                }
            }
            j += width;
        }
        p.add = 1;
    }
}

/* `deep` rows of one panel of B into (deep, 16); missing columns are 0. */
TRF__FN void trf__pack_panel(trf_real *panel, trf__view b, int64_t deep, int64_t columns)
{
    int64_t t = 0, j;
    for (; columns >= 16 && b.row == 1 && t + 4 <= deep; t += 4)
        for (j = 0; j < 16; j += 4) {
            const trf_real *at = b.at + t + j * b.column;
            const trf_real *from[4] = { at, at + b.column, at + 2 * b.column, at + 3 * b.column };
            trf__turn4(panel + 16 * t + j, 16, from);
        }
    for (; t < deep; t++) {
        const trf_real *from = b.at + t * b.row;
        if (columns >= 16 && b.column == 1) { trf__store(panel + 16 * t, trf__load(from)); continue; }
        for (j = 0; j < 16; j++) panel[16 * t + j] = j < columns ? from[j * b.column] : 0;
    }
}

/* A whole weight (out, in) as panels of w^T, one after another: round_up(out, 16) * in numbers. */
TRF__FN void trf__pack_weight(trf_real *packed, const trf_real *w, int64_t out, int64_t in)
{
    int64_t j;
    for (j = 0; j < out; j += 16)
        trf__pack_panel(packed + j * in, trf__view_of(w + j * in, 1, in), in, trf__min64(16, out - j));
}

/* Numbers of scratch that a worker's product needs: for panels of B, and for strips of A, sixteen numbers apart. */
enum { TRF__STRIPS = (TRF__TALL + TRF__STRIP - 1) / TRF__STRIP,
       TRF__GEMM_SCRATCH = TRF__DEEP * (32 + TRF__STRIPS * TRF__STRIP) + 16 * TRF__STRIPS };

/* Whether neighbouring rows of A stand side by side: they are packed, TRF__TALL at most. */
TRF__FN int trf__turned(const trf__product *p) { return p->a.row == 1 && p->a.column != 1; }

/* Rows of A that stand side by side into strips: TRF__STRIP numbers of each of `deep` columns, one after another.
   What is read and written beyond a strip is overwritten by its next column. last: behind these columns A ends. */
TRF__FN void trf__pack_strips(trf_real *to, const trf__product *p, trf__view a, int64_t deep, int last)
{
    int64_t i, t, further = TRF__STRIP * deep + 16, careful = a.column < 16 ? deep : last;
    for (t = 0; t < deep; t++, a.at += a.column, to += TRF__STRIP) {
        trf_real *strip = to;
        for (i = 0; t < deep - careful && i < p->m; i += TRF__STRIP, strip += further)
            trf__store(strip, trf__load(a.at + i));
        for (; i < p->m; i += TRF__STRIP, strip += further) trf__store(strip, trf__load_n(a.at + i, p->m - i));
    }
}

/* The built-in product where something is to be packed into scratch as it goes: A if it is turned, and B, unless it
   is in panels already. */
TRF__FN void trf__mm_packing(trf_real *scratch, const trf__product *p, int in_panels)
{
    int64_t j, t, q, columns, wide = in_panels ? p->n : TRF__PARTS == 1 ? 32 : 16;
    trf_real *tall = scratch + TRF__DEEP * 32;
    for (t = 0; t == 0 || t < p->k; t += TRF__DEEP) {
        int64_t deep = trf__min64(TRF__DEEP, p->k - t);
        trf__view a = trf__view_of(p->a.at + t * p->a.column, p->a.row, p->a.column);
        trf__view b = trf__view_of(p->b.at + t * p->b.row, p->b.row, p->b.column);
        if (trf__turned(p)) {
            trf__pack_strips(tall, p, a, deep, t + deep == p->k);
            a = trf__view_of(tall, 1, TRF__STRIP);
        }
        for (j = 0; j < p->n; j += columns) {
            trf__product part = trf__product_of(p->c + j, p->ldc, p->m, wide, deep, a, b, p->add || t > 0);
            part.n = columns = trf__min64(wide, p->n - j);
            part.strip = trf__turned(p) ? TRF__STRIP * deep + 16 : 0;
            part.bias = p->bias ? p->bias + j : NULL;
            if (!in_panels) {
                for (q = 0; q < columns; q += 16, b.at += 16 * b.column)
                    trf__pack_panel(scratch + q * deep, b, deep, columns - q);
                part.b = trf__view_of(scratch, 16, 16 * deep);
            }
            trf__mm(part);
        }
    }
}

#if !defined(TRF_NO_CBLAS)
#if !defined(TRF_CBLAS_HEADER)
#define TRF_CBLAS_HEADER <cblas.h>
#endif
#include TRF_CBLAS_HEADER
#if defined(TRF_DOUBLE)
#define TRF__GEMM cblas_dgemm
#else
#define TRF__GEMM cblas_sgemm
#endif
#endif

TRF__FN void trf__add_bias(trf_real *y, const trf_real *b, int64_t rows, int64_t columns, int64_t ld)
{
    int64_t r, c;
    for (r = 0; r < rows; r++)
        for (c = 0; c < columns; c += 16) {
            trf_real *at = y + r * ld + c;
            int64_t n = columns - c;
            trf__store_n(at, trf__add(trf__load_n(at, n), trf__load_n(b + c, n)), n);
        }
}

/* A product in an op: by CBLAS if `blas`, where one stride of A and of B must be 1; else ours, with B as `packed` by
   trf__pack_weight or, if that is NULL, packing into the worker's scratch. */
TRF__FN void trf__multiply(const trf__run *run, int worker, int blas, const trf_real *packed, trf__product p)
{
#if !defined(TRF_NO_CBLAS)
    if (blas) {
        int by_rows = p.a.column == 1, b_by_rows = p.b.column == 1;
        TRF__GEMM(CblasRowMajor, by_rows ? CblasNoTrans : CblasTrans, b_by_rows ? CblasNoTrans : CblasTrans,
                  (int)p.m, (int)p.n, (int)p.k, 1,
                  p.a.at, (int)(by_rows ? trf__max64(p.a.row, p.k) : p.a.column),
                  p.b.at, (int)(b_by_rows ? trf__max64(p.b.row, p.n) : p.b.column),
                  (trf_real)(p.add != 0), p.c, (int)p.ldc);
        if (p.bias) trf__add_bias(p.c, p.bias, p.m, p.n, p.ldc);
        return;
    }
#endif
    (void)blas;
    if (packed) p.b = trf__view_of(packed, 16, 16 * p.k);
    if (packed && !trf__turned(&p)) trf__mm(p);
    else trf__mm_packing(trf__scratch(run, worker), &p, packed != NULL);
}

/* Row r and following of a weight, as row 0. */
TRF__FN trf__mat trf__mat_from(trf__mat w, int64_t r, int64_t in)
{
    r += w.row;
    w.plain += r * in;
    w.copy = w.copy && r % 16 == 0 ? (const trf_real *)w.copy + r * in : NULL;     /* where panels begin */
    w.row = 0;
    return w;
}

/* The change between CBLAS and the built-in product depends on the number of rows only (and on packed weights). */
TRF__FN int trf__use_blas(const trf__run *run, int64_t rows)
{
    return trf__cpu_of(run)->blas && rows > TRF__SKINNY;
}

/* A part of an op's product that B's panels in the room suffice for, and how it is cut into tiles of C. */
typedef struct trf__product_job {
    trf__product p;
    const trf_real *packed;     /* B in panels, or NULL */
    int64_t rows, columns;      /* of a tile */
    int blas;
} trf__product_job;

/* Tiles of CBLAS depend on the product alone, as its bits depend on them; of ours there are two for each thread, and
   those of a turned A are no taller than can be packed. */
TRF__FN void trf__product_cut(trf__product_job *j, int threads)
{
    int64_t tiles = trf__ceil_div(j->p.m, TRF__TALL);
    j->rows = trf__rows_each(j->p.m, j->blas ? 1 : threads);
    j->columns = j->p.m <= TRF__SKINNY ? 128 : j->p.m <= 256 ? 512 : trf__round_up(trf__max64(1, j->p.n), 16);
    if (!trf__turned(&j->p)) return;
    j->rows = j->columns = trf__ceil_div(j->p.n, TRF__TALL) * tiles < 8 ? TRF__TALL / 2 : TRF__TALL;
    if (j->blas) return;
    j->rows = trf__round_up(trf__max64(1, trf__ceil_div(j->p.m, trf__round_up(tiles, 2 * threads))), TRF__STRIP);
    j->columns = trf__round_up(j->p.n, 16);
}

TRF__FN void trf__product_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__product_job *j = (const trf__product_job *)job;
    int64_t across = trf__ceil_div(j->p.n, j->columns);
    int64_t row = tile / across * j->rows, column = tile % across * j->columns;
    trf__product p = j->p;
    p.c += row * p.ldc + column;
    p.m = trf__min64(j->rows, p.m - row);
    p.n = trf__min64(j->columns, p.n - column);
    p.a.at += row * p.a.row;
    p.b.at += column * p.b.column;
    if (p.bias) p.bias += column;
    trf__multiply(run, worker, j->blas, j->packed ? j->packed + column * p.k : NULL, p);
}

/* Some panels of all rows of B, or, where its columns stand side by side, all panels of some rows. */
TRF__FN void trf__room_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__product *p = &((const trf__product_job *)job)->p;
    int64_t by_rows = p->b.column == 1, row = by_rows ? tile * TRF__PACK : 0, column = by_rows ? 0 : tile * TRF__PACK;
    int64_t deep = by_rows ? trf__min64(TRF__PACK, p->k - row) : p->k;
    int64_t end = by_rows ? p->n : trf__min64(p->n, column + TRF__PACK);
    (void)worker;
    for (; column < end; column += 16)
        trf__pack_panel(trf__cpu_of(run)->room + column * p->k + 16 * row,
                        trf__view_of(p->b.at + row * p->b.row + column * p->b.column, p->b.row, p->b.column), deep,
                        p->n - column);
}

/* An op's whole product on all threads. B in panels: packed; else, if it is not for CBLAS, they are made in the room,
   for as much of it at a time as fits. */
TRF__FN void trf__product_all(const trf__run *run, int blas, const trf_real *packed, const trf__product *whole)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    int64_t room = (int64_t)(cpu->room_bytes / sizeof(trf_real)), deep = whole->k, wide = whole->n, t, j;
    int packs = !blas && !packed && room >= TRF__DEEP * 32 && deep > 0 && wide > 0;
    trf__product_job part;
    if (packs) {
        int64_t fits = room / trf__min64(trf__round_up(wide, 32), 512) / TRF__DEEP * TRF__DEEP;
        deep = trf__min64(deep, trf__max64(TRF__DEEP, fits));
        wide = trf__min64(wide, room / deep / 32 * 32);
    }
    for (j = 0; j < whole->n; j += wide)
        for (t = 0; t == 0 || t < whole->k; t += deep) {
            part.p = *whole;
            part.p.c += j;
            part.p.n = trf__min64(wide, whole->n - j);
            part.p.k = trf__min64(deep, whole->k - t);
            part.p.a.at += t * whole->a.column;
            part.p.b.at += t * whole->b.row + j * whole->b.column;
            part.p.bias = t == 0 && whole->bias ? whole->bias + j : NULL;
            part.p.add = whole->add || t > 0;
            part.packed = packs ? cpu->room : packed;
            part.blas = blas;
            trf__product_cut(&part, cpu->threads);
            if (packs)
                trf__tiles(run, trf__ceil_div(part.p.b.column == 1 ? part.p.k : part.p.n, TRF__PACK), trf__room_tile,
                           &part);
            trf__product_tiles(run, blas, trf__ceil_div(part.p.m, part.rows) * trf__ceil_div(part.p.n, part.columns),
                               trf__product_tile, &part);
            if (deep == 0) break;
        }
}

TRF__INLINE const trf_real *trf__from(const trf__act *a) { return (const trf_real *)(const void *)a; }
TRF__INLINE trf_real *trf__to(trf__act *a) { return (trf_real *)(void *)a; }

/* The last row of a tile, and one. */
TRF__INLINE int64_t trf__tile_end(int64_t tile, int64_t tile_rows, int64_t rows)
{
    return trf__min64(rows, (tile + 1) * tile_rows);
}

// >>verbs          memory: the device's is the host's, and everything has happened when a call returns

TRF__FN void *trf__cpu_alloc(const trf__run *run, size_t bytes) { return trf__alloc(&run->hooks, bytes); }
TRF__FN void trf__cpu_free(const trf__run *run, void *memory, size_t bytes) { trf__free(&run->hooks, memory, bytes); }

TRF__FN void trf__cpu_zero(const trf__run *run, void *memory, size_t bytes)
{
    (void)run;
    memset(memory, 0, bytes);
}

/* Copies, uploads and downloads. */
TRF__FN void trf__cpu_copy(const trf__run *run, void *to, const void *from, size_t bytes)
{
    (void)run;
    if (bytes > 0) memcpy(to, from, bytes);
}

TRF__FN void trf__cpu_fetch(const trf__run *run, trf_real *to, const trf__act *from, int64_t n)
{
    trf__cpu_copy(run, to, from, (size_t)n * sizeof *to);
}

TRF__FN trf_status trf__cpu_sync(const trf__run *run, trf_error *err)
{
    (void)run; (void)err;
    return TRF_OK;
}

TRF__FN void *trf__cpu_stream(const trf__run *run) { (void)run; return NULL; }

/* To ask costs nothing: no list is kept. */
TRF__FN int64_t trf__cpu_fill(const trf__run *run, int64_t n) { (void)run; return n; }
TRF__FN int trf__cpu_replay(const trf__run *run, const trf__shape *shape) { (void)run; (void)shape; return 0; }
TRF__FN int trf__cpu_asked(const trf__run *run, int whole) { (void)run; (void)whole; return 1; }

TRF__FN size_t trf__cpu_element(const trf_device *device) { (void)device; return sizeof(trf_real); }

/* Whether products go to our own rather than to CBLAS. */
TRF__FN int trf__cpu_prefers_own(const trf_device *device)
{
#if defined(TRF_NO_CBLAS)
    (void)device;
    return 1;
#else
    return device->products == TRF_PRODUCTS_AUTO ? TRF__PARTS <= 2 : device->products == TRF_PRODUCTS_BUILT_IN;
#endif
}

/* Packed panels pay where a few rows meet the same weights again and again: in translating. */
TRF__FN size_t trf__cpu_copy_bytes(const trf_device *device, int64_t n_weights, int training)
{
    (void)device;
    return training ? 0 : trf__bytes(n_weights, sizeof(trf_real));
}

TRF__FN void trf__pack_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__pack *j = (const trf__pack *)job;
    int64_t row = tile * 256, at = j->offset + row * j->in;
    (void)run; (void)worker;
    trf__pack_weight((trf_real *)j->copies + at, j->weights + at, trf__min64(256, j->out - row), j->in);
}

TRF__FN void trf__cpu_pack(const trf__run *run, const trf__pack *j)
{
    if (j->matrix) trf__tiles(run, trf__ceil_div(j->out, 256), trf__pack_tile, j);
}

// >>dropout        paper 5.4
//
//   y = x * scale where bits >= threshold, else 0      the backward is the same with dy
//
// Feature f of a row takes 16 of the 128 * 16 bits that sixteen Philox blocks give: blocks are counted by (group of
// 128 features * 16 + lane, position, sentence, step) under the key (seed, site); inside a group, features
// 16 c .. 16 c + 15 take one half of one word of the sixteen lanes. So a mask depends on nothing but its place:
// not on the batch, the threads, or the machine. (Attention weights are numbered otherwise: see there.)

TRF__INLINE int trf__dropping(const trf__run *run, const trf__drop *drop) { return run->now && drop->threshold; }

/* Makes the masks of one row, sixteen features at a time; keeps the last group of 128. */
typedef struct trf__mask {
    const trf__now *now;
    const trf__drop *drop;
    uint32_t position, sentence;
    int64_t group;              /* of 128 features, whose words are here; -1: none */
    uint32_t words[4][TRF__WIDE];
} trf__mask;

TRF__INLINE int64_t trf__position(const trf__rows *at, int64_t row) { return at->position ? at->position[row] : row; }

TRF__FN trf__mask trf__mask_of_row(const trf__run *run, const trf__drop *drop, const trf__rows *at, int64_t row)
{
    trf__mask mask;
    mask.now = run->now;
    mask.drop = drop;
    mask.position = (uint32_t)trf__position(at, row);
    mask.sentence = at->sentence ? (uint32_t)at->sentence[row] : 0;
    mask.group = -1;
    return mask;
}

/* The key's second word: every site has its own. */
TRF__INLINE uint32_t trf__site_key(const trf__now *now, const trf__drop *drop)
{
    return now->key1 ^ drop->site * 0x9E3779B9u;
}

/* The factors of features 16 * chunk .. + 15: scale or 0. */
TRF__INLINE trf__v16 trf__mask_chunk(trf__mask *mask, int64_t chunk)
{
    uint16_t bits[TRF__WIDE];
    const uint32_t *words;
    uint32_t shift = chunk & 1 ? 16 : 0;
    int i;
    if (chunk >> 3 != mask->group) {
        uint32_t counter[2][TRF__WIDE];
        mask->group = chunk >> 3;
        for (i = 0; i < TRF__WIDE; i++) {
            counter[0][i] = (uint32_t)mask->group * 16 + (uint32_t)i;
            counter[1][i] = mask->position;
        }
        trf__philox16(counter[0], counter[1], mask->sentence, mask->now->step, mask->now->key0,
                      trf__site_key(mask->now, mask->drop), mask->words);
    }
    words = mask->words[chunk >> 1 & 3];
    for (i = 0; i < TRF__WIDE; i++) bits[i] = (uint16_t)(words[i] >> shift & 0xFFFF);
    return trf__kept(bits, mask->drop->threshold, mask->drop->scale);
}

// >>embed          paper 3.4, 3.5
//
//   y[r] = scale * weight[id[r]] + table[position[r]], then dropout      id < 0: the zero vector instead of a weight
//   weight: (vocab, d)   table: (max_length, d) or NULL   y: (rows, d)
//
//   with g = drop(dy):   dweight[id[r]] += scale * g[r]     dtable[position[r]] += g[r]
//   A tile owns 16 columns. It walks the ids in groups of equal ones, each in the order of rows, so they add up in
//   one order; then the rows, for the positions.

TRF__FN void trf__embed_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__embed *j = (const trf__embed *)job;
    int64_t tile_rows = trf__tile_rows(run, j->rows), row, c, end = trf__tile_end(tile, tile_rows, j->rows);
    int dropping = trf__dropping(run, &j->drop);
    (void)worker;
    for (row = tile * tile_rows; row < end; row++) {
        const trf_real *w = j->ids[row] < 0 ? NULL : j->weight + j->ids[row] * j->d;
        const trf_real *p = j->table ? j->table + trf__position(&j->at, row) * j->d : NULL;
        trf__mask mask;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (c = 0; c < j->d; c += 16) {
            int64_t n = j->d - c;
            trf__v16 value = p ? trf__load_n(p + c, n) : trf__set(0);
            if (w) value = trf__fma(trf__load_n(w + c, n), trf__set(j->scale), value);
            if (dropping) value = trf__mul(value, trf__mask_chunk(&mask, c / 16));
            trf__store_n(trf__to(j->y) + row * j->d + c, value, n);
        }
    }
}

TRF__FN void trf__cpu_embed(const trf__run *run, const trf__embed *j)
{
    trf__tiles(run, trf__ceil_div(j->rows, trf__tile_rows(run, j->rows)), trf__embed_tile, j);
}

#if !defined(TRF_NO_TRAIN)

/* dy = drop(dy), in place. */
TRF__FN void trf__embed_drop_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__embed_gradient *j = (const trf__embed_gradient *)job;
    int64_t tile_rows = trf__tile_rows(run, j->rows), row, c, end = trf__tile_end(tile, tile_rows, j->rows);
    (void)worker;
    for (row = tile * tile_rows; row < end; row++) {
        trf__mask mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        trf_real *dy = trf__to(j->dy) + row * j->d;
        for (c = 0; c < j->d; c += 16)
            trf__store_n(dy + c, trf__mul(trf__load_n(dy + c, j->d - c), trf__mask_chunk(&mask, c / 16)), j->d - c);
    }
}

/* Columns c to c + 15 of a table of gradients become zero: before the first micro-batch of a step is added. */
TRF__FN void trf__zero_columns(trf_real *table, int64_t rows, int64_t d, int64_t c)
{
    int64_t row;
    for (row = 0; row < rows; row++)
        memset(table + row * d + c, 0, (size_t)trf__min64(16, d - c) * sizeof *table);
}

TRF__FN void trf__embed_gradient_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__embed_gradient *j = (const trf__embed_gradient *)job;
    const trf_real *dy = trf__from(j->dy);
    int64_t row, k, i, c = tile * 16, n = j->d - c;
    (void)run; (void)worker;
    if (j->first) trf__zero_columns(j->dweight, j->vocab, j->d, c);
    for (k = 0; k < j->groups.n; k++) {
        const int32_t *rows = j->groups.rows;
        trf_real *dw;
        trf__v16 sum;
        if (j->groups.first[k] == j->groups.first[k + 1]) break;
        dw = j->dweight + j->ids[rows[j->groups.first[k]]] * j->d + c;
        sum = trf__load_n(dw, n);
        for (i = j->groups.first[k]; i < j->groups.first[k + 1]; i++)
            sum = trf__fma(trf__load_n(dy + rows[i] * j->d + c, n), trf__set(j->scale), sum);
        trf__store_n(dw, sum, n);
    }
    if (!j->dtable) return;
    if (j->first_table) trf__zero_columns(j->dtable, j->positions, j->d, c);
    for (row = 0; row < j->rows; row++) {
        trf_real *dp = j->dtable + trf__position(&j->at, row) * j->d + c;
        trf__store_n(dp, trf__add(trf__load_n(dy + row * j->d + c, n), trf__load_n(dp, n)), n);
    }
}

TRF__FN void trf__cpu_embed_gradient(const trf__run *run, const trf__embed_gradient *j)
{
    if (trf__dropping(run, &j->drop))
        trf__tiles(run, trf__ceil_div(j->rows, trf__tile_rows(run, j->rows)), trf__embed_drop_tile, j);
    trf__tiles(run, trf__ceil_div(j->d, 16), trf__embed_gradient_tile, j);
}

#endif

// >>linear         paper 3.2.2, 3.3, 3.4: every projection
//
//   y = x w^T + b      x: (rows, in)   w: (out, in)   b: (out) or NULL   y: (rows, out)
//   dx = dy w [+ dx]      dw += dy^T x      db += sum over rows of dy
//
// Bias gradients add partial sums of 64 rows, in order.

TRF__FN void trf__cpu_linear(const trf__run *run, const trf__linear *j)
{
    trf__mat w = trf__mat_from(j->w, 0, j->in);
    trf__product p = trf__product_of(trf__to(j->y), j->out, j->rows, j->out, j->in,
                                     trf__view_of(trf__from(j->x), j->in, 1), trf__view_of(w.plain, 1, j->in), 0);
    int blas = trf__use_blas(run, j->rows) && !(w.copy && j->rows <= TRF__PACKED_ROWS);
    p.bias = j->b;
    trf__product_all(run, blas, (const trf_real *)w.copy, &p);
}

#if !defined(TRF_NO_TRAIN)

TRF__FN void trf__cpu_linear_dx(const trf__run *run, const trf__linear_dx *j)
{
    trf__product p = trf__product_of(trf__to(j->dx), j->in, j->rows, j->in, j->out,
                                     trf__view_of(trf__from(j->dy), j->out, 1),
                                     trf__view_of(trf__mat_from(j->w, 0, j->in).plain, j->in, 1), j->add);
    trf__product_all(run, trf__use_blas(run, j->rows), NULL, &p);
}

/* sum[c] += (or = with `first`) the sum over rows of x[r][c]: partial sums of 64 rows, added in order. */
TRF__FN void trf__column_sums(trf_real *sum, const trf_real *x, int64_t rows, int64_t columns, int64_t ld, int first)
{
    int64_t r, c, r0;
    if (first) memset(sum, 0, (size_t)columns * sizeof *sum);
    for (r0 = 0; r0 < rows; r0 += 64)
        for (c = 0; c < columns; c += 16) {
            trf__v16 partial = trf__set(0);
            for (r = r0; r < trf__min64(rows, r0 + 64); r++)
                partial = trf__add(partial, trf__load_n(x + r * ld + c, columns - c));
            trf__store_n(sum + c, trf__add(trf__load_n(sum + c, columns - c), partial), columns - c);
        }
}

/* Gradients of a weight (out, in) and its bias; rows of dy stand ld apart. */
typedef struct trf__dw_job {
    trf_real *dw, *db;
    const trf_real *dy, *x;
    int64_t rows, out, in, ld;
    int first;
} trf__dw_job;

enum { TRF__SUMS_TILE = 64 };

TRF__FN void trf__sums_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__dw_job *j = (const trf__dw_job *)job;
    int64_t c = tile * TRF__SUMS_TILE;
    (void)run; (void)worker;
    trf__column_sums(j->db + c, j->dy + c, j->rows, trf__min64(TRF__SUMS_TILE, j->out - c), j->ld, j->first);
}

TRF__FN void trf__dw_all(const trf__run *run, const trf__dw_job *j)
{
    trf__product p = trf__product_of(j->dw, j->in, j->out, j->in, j->rows, trf__view_of(j->dy, 1, j->ld),
                                     trf__view_of(j->x, j->in, 1), !j->first);
    if (j->dw) trf__product_all(run, trf__use_blas(run, j->rows), NULL, &p);
    if (j->db) trf__tiles(run, trf__ceil_div(j->out, TRF__SUMS_TILE), trf__sums_tile, j);
}

TRF__FN void trf__cpu_linear_dw(const trf__run *run, const trf__linear_dw *products, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        const trf__linear_dw *p = &products[i];
        trf__dw_job j = { p->dw, p->db, trf__from(p->dy), trf__from(p->x), p->rows, p->out, p->in, p->out, p->first };
        trf__dw_all(run, &j);
    }
}

#endif

// >>activate       paper 3.3 (ReLU); Hendrycks and Gimpel 2016 (GELU, the exact one); SiLU x sigmoid(x)
//
//   a = drop(act(h))      dh = act'(h) * drop(da)
//   relu' = [h > 0]     gelu = h P(h), gelu' = P(h) + h p(h), P and p the normal distribution and density
//   silu = h s, silu' = s (1 + h (1 - s)), s = 1 / (1 + exp(-h))

TRF__INLINE trf__v16 trf__sigmoid(trf__v16 h)
{
    return trf__div(trf__set(1), trf__add(trf__set(1), trf__exp(trf__sub(trf__set(0), h))));
}

TRF__INLINE trf__v16 trf__normal_distribution(trf__v16 h)
{
    return trf__fma(trf__erf(trf__mul(h, trf__set((trf_real)0.70710678118654752))), trf__set((trf_real)0.5),
                    trf__set((trf_real)0.5));
}

TRF__INLINE trf__v16 trf__act_of(int kind, trf__v16 h)
{
    if (kind == TRF_RELU) return trf__max(h, trf__set(0));
    if (kind == TRF_GELU) return trf__mul(h, trf__normal_distribution(h));
    return trf__mul(h, trf__sigmoid(h));
}

TRF__INLINE trf__v16 trf__act_slope(int kind, trf__v16 h)
{
    if (kind == TRF_RELU) return trf__if_less(trf__set(0), h, trf__set(1), trf__set(0));
    if (kind == TRF_GELU) {
        trf__v16 density = trf__mul(trf__set((trf_real)0.39894228040143268),
                                    trf__exp(trf__mul(trf__mul(h, h), trf__set((trf_real)-0.5))));
        return trf__fma(h, density, trf__normal_distribution(h));
    } else {
        trf__v16 s = trf__sigmoid(h);
        return trf__mul(s, trf__fma(h, trf__sub(trf__set(1), s), trf__set(1)));
    }
}

TRF__FN void trf__activate_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__activate *j = (const trf__activate *)job;
    int64_t tile_rows = trf__tile_rows(run, j->rows), row, c, end = trf__tile_end(tile, tile_rows, j->rows);
    int dropping = trf__dropping(run, &j->drop);
    (void)worker;
    for (row = tile * tile_rows; row < end; row++) {
        trf__mask mask;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (c = 0; c < j->width; c += 16) {
            int64_t at = row * j->width + c, n = j->width - c;
            trf__v16 a = trf__act_of(j->kind, trf__load_n(trf__from(j->h) + at, n));
            if (dropping) a = trf__mul(a, trf__mask_chunk(&mask, c / 16));
            trf__store_n(trf__to(j->a) + at, a, n);
        }
    }
}

TRF__FN void trf__cpu_activate(const trf__run *run, const trf__activate *j)
{
    trf__tiles(run, trf__ceil_div(j->rows, trf__tile_rows(run, j->rows)), trf__activate_tile, j);
}

#if !defined(TRF_NO_TRAIN)

TRF__FN void trf__activate_gradient_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__activate_gradient *j = (const trf__activate_gradient *)job;
    int64_t tile_rows = trf__tile_rows(run, j->rows), row, c, end = trf__tile_end(tile, tile_rows, j->rows);
    int dropping = trf__dropping(run, &j->drop);
    (void)worker;
    for (row = tile * tile_rows; row < end; row++) {
        trf__mask mask;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (c = 0; c < j->width; c += 16) {
            int64_t at = row * j->width + c, n = j->width - c;
            trf__v16 slope = trf__act_slope(j->kind, trf__load_n(trf__from(j->h) + at, n));
            trf__v16 dh = trf__mul(trf__load_n(trf__from(j->da) + at, n), slope);
            if (dropping) dh = trf__mul(dh, trf__mask_chunk(&mask, c / 16));
            trf__store_n(trf__to(j->dh) + at, dh, n);
        }
    }
}

TRF__FN void trf__cpu_activate_gradient(const trf__run *run, const trf__activate_gradient *j)
{
    trf__tiles(run, trf__ceil_div(j->rows, trf__tile_rows(run, j->rows)), trf__activate_gradient_tile, j);
}

#endif

// >>attention      paper 3.2.1
//
//   S = q k^T / sqrt(d_head)     P = softmax of each row of S     D = drop(P)     out = D v
//   for one head of one sequence: q: (n, d_head)   k, v: (m, d_head)   S, P: (n, m)   no keys: out = 0
//   kept for backward: each row's maximum of q k^T and 1 / (sum of exp); P is computed again from them
//
//   dD = dout v^T     dP = drop(dD)     dS = P * (dP - sum over the row of P dP), and that sum is dout . out
//   dv = D^T dout     dq = dS k / sqrt(d_head)     dk = dS^T q / sqrt(d_head)
//
// A tile is one head of one sequence. Queries are taken TRF__QUERIES at a time: of S and P no more than
// (TRF__QUERIES, m) ever exists. Rows of S are padded to m16, a multiple of sixteen; padding has weight 0.
//
// Dropout numbers rows, not matrices: a Philox block of 128 bits serves eight neighbouring keys of one query. It is
// counted by (block, query, sentence, step), with the head's lower 12 bits above the query's 20 and the others above
// the block's 17; key 8 b + i takes half i % 2 of word i / 2. So neither padding nor tiles change a mask.

enum { TRF__QUERIES = 32 };

typedef struct trf__attention_room {
    trf_real *kt, *vt;      /* (d_head, m16): k and v transposed */
    trf_real *k, *v;        /* (m, d16): k and v with padded rows, where those are no whole panels */
    trf_real *s, *ds;       /* (TRF__QUERIES, m16) */
    trf_real *q, *dout;     /* (TRF__QUERIES, d16) */
    uint16_t *bits;         /* (TRF__QUERIES, m16) what decides over dropout */
    int64_t m16, d16;
} trf__attention_room;

/* Cuts a worker's scratch for attention over m keys, and returns the bytes that takes. */
TRF__FN size_t trf__attention_cut(trf__attention_room *room, void *scratch, int64_t m, int64_t d_head)
{
    trf__cursor cursor = trf__cursor_at(scratch);
    room->m16 = trf__round_up(m, 16);
    room->d16 = trf__round_up(d_head, 16);
    room->kt = trf__take_reals(&cursor, d_head, room->m16);
    room->vt = trf__take_reals(&cursor, d_head, room->m16);
    room->k = trf__take_reals(&cursor, room->m16, room->d16);
    room->v = trf__take_reals(&cursor, room->m16, room->d16);
    room->s = trf__take_reals(&cursor, TRF__QUERIES, room->m16);
    room->ds = trf__take_reals(&cursor, TRF__QUERIES, room->m16);
    room->q = trf__take_reals(&cursor, TRF__QUERIES, room->d16);
    room->dout = trf__take_reals(&cursor, TRF__QUERIES, room->d16);
    room->bits = (uint16_t *)trf__take(&cursor, TRF__QUERIES, (size_t)room->m16 * sizeof(uint16_t));
    return cursor.used;
}

/* Scratch of one worker: for attention, or for a product that packs as it goes. */
TRF__FN size_t trf__scratch_bytes(int64_t longest, int64_t d_head)
{
    trf__attention_room room;
    size_t bytes = trf__attention_cut(&room, NULL, longest, d_head);
    return bytes > TRF__GEMM_SCRATCH * sizeof(trf_real) ? bytes : TRF__GEMM_SCRATCH * sizeof(trf_real);
}

/* One head of one span: what a tile works on. */
typedef struct trf__head {
    const trf__attention_in *in;
    const trf__span *span;
    const int32_t *key_rows;    /* of this span, or NULL */
    int head;
    int64_t first;              /* this head's column in q, k, v and out */
    trf_real scale;             /* 1 / sqrt(d_head) */
} trf__head;

TRF__BOTH trf__head trf__head_of(const trf__attention_in *in, int64_t tile)
{
    trf__head h;
    int64_t s = tile / in->heads;
    h.in = in;
    h.span = &in->spans[s];
    h.key_rows = in->key_rows ? in->key_rows + s * in->key_stride : NULL;
    h.head = (int)(tile % in->heads);
    h.first = (int64_t)h.head * in->d_head;
    h.scale = (trf_real)(1 / sqrt((double)in->d_head));
    return h;
}

TRF__BOTH int64_t trf__key_row(const trf__head *h, int64_t i)
{
    return h->key_rows ? h->key_rows[i] : h->span->key + i;
}

/* to[c][i] = x[row of key i][c] of this head; columns m .. m16 - 1 are 0. */
TRF__FN trf__view trf__keys_transposed(trf_real *to, const trf__act *x, const trf__head *h, int64_t m16)
{
    int64_t i, c, d = h->in->d_head, k;
    for (i = 0; i < m16; i += 4) {
        const trf_real *from[4] = { NULL, NULL, NULL, NULL };
        for (k = 0; k < 4 && i + k < h->span->n_key; k++)
            from[k] = trf__from(x) + trf__key_row(h, i + k) * h->in->ldk + h->first;
        for (c = 0; k == 4 && c + 4 <= d; c += 4) {
            const trf_real *at[4] = { from[0] + c, from[1] + c, from[2] + c, from[3] + c };
            trf__turn4(to + c * m16 + i, m16, at);
        }
        for (; c < d; c++) for (k = 0; k < 4; k++) to[c * m16 + i + k] = from[k] ? from[k][c] : 0;
    }
    return trf__view_of(to, m16, 16);
}

/* n rows of x, this head's columns, padded with zeros to d16. */
TRF__FN void trf__rows_padded(trf_real *to, const trf_real *x, int64_t ld, int64_t n, int64_t d, int64_t d16)
{
    int64_t i, c;
    for (i = 0; i < n; i++)
        for (c = 0; c < d16; c += 16) trf__store(to + i * d16 + c, trf__load_n(x + i * ld + c, d - c));
}

/* Rows as panels: where they are, if whole panels lie there, else in the room. */
TRF__FN trf__view trf__rows_as_panels(trf_real *room, const trf_real *x, int64_t ld, int64_t n, int64_t d,
                                      int64_t d16)
{
    if (d == d16) return trf__view_of(x, ld, 16);
    trf__rows_padded(room, x, ld, n, d, d16);
    return trf__view_of(room, d16, 16);
}

TRF__FN trf__view trf__keys_as_panels(trf_real *room, const trf__act *x, const trf__head *h, int64_t d16)
{
    int64_t i, d = h->in->d_head;
    const trf_real *from = trf__from(x) + h->first;
    if (!h->key_rows)
        return trf__rows_as_panels(room, from + h->span->key * h->in->ldk, h->in->ldk, h->span->n_key, d, d16);
    for (i = 0; i < h->span->n_key; i++)
        trf__rows_padded(room + i * d16, from + h->key_rows[i] * h->in->ldk, 0, 1, d, d16);
    return trf__view_of(room, d16, 16);
}

/* Keys that query i of the span sees. */
TRF__BOTH int64_t trf__keys_seen(const trf__head *h, int64_t i)
{
    return h->in->causal ? (int64_t)h->span->n_key - h->span->n_query + i + 1 : h->span->n_key;
}

TRF__FN void trf__zero_rows(trf_real *x, int64_t ld, int64_t n, int64_t d)
{
    int64_t i;
    for (i = 0; i < n; i++) memset(x + i * ld, 0, (size_t)d * sizeof *x);
}

TRF__FN trf_real trf__most_of(const trf_real *z, int64_t n)
{
    trf__v16 top = trf__set(-(trf_real)FLT_MAX);
    trf_real most;
    int64_t c;
    for (c = 0; c + 16 <= n; c += 16) top = trf__max(top, trf__load(z + c));
    most = trf__max_lane(top);
    for (; c < n; c++) if (most < z[c]) most = z[c];
    return most;
}

/* A row of q k^T, `seen` of its m16 numbers valid, becomes its softmax. Fills stats = {maximum, 1 / sum}, or, if they
   are known already, follows them. */
TRF__FN void trf__softmax_row(trf_real *s, int64_t seen, int64_t m16, trf_real scale, const trf_real *known,
                              trf_real stats[2])
{
    trf__v16 sum = trf__set(0), maximum, factor;
    int64_t c;
    for (c = seen; c < m16; c++) s[c] = -(trf_real)FLT_MAX;
    stats[0] = known ? known[0] : trf__most_of(s, m16);
    maximum = trf__set(stats[0]);
    factor = trf__set(scale);
    for (c = 0; c < m16; c += 16) {
        trf__v16 e = trf__exp(trf__mul(trf__sub(trf__load(s + c), maximum), factor));
        sum = trf__add(sum, e);
        trf__store(s + c, e);
    }
    stats[1] = known ? known[1] : 1 / trf__sum(sum);
    factor = trf__set(stats[1]);
    for (c = 0; c < m16; c += 16) trf__store(s + c, trf__mul(trf__load(s + c), factor));
}

/* Rows i0 .. i0 + n - 1 of P into room->s; keys: turned. known, kept: the op's statistics, to follow or to fill; or
   NULL. */
TRF__FN void trf__attention_rows(const trf__head *h, const trf__attention_room *room, trf__view keys,
                                 const trf_real *known, trf_real *kept, int64_t i0, int64_t n)
{
    int64_t i, query = h->span->query + i0;
    const trf_real *q = trf__from(h->in->q) + query * h->in->ldq + h->first;
    trf__mm(trf__product_of(room->s, room->m16, n, room->m16, h->in->d_head, trf__view_of(q, h->in->ldq, 1), keys,
                            0));
    for (i = 0; i < n; i++) {
        int64_t at = ((query + i) * h->in->heads + h->head) * 2;
        trf_real local[2];
        trf__softmax_row(room->s + i * room->m16, trf__keys_seen(h, i0 + i), room->m16, h->scale,
                         known ? known + at : NULL, kept ? kept + at : local);
    }
}

/* The bits of queries i0 .. i0 + n - 1, for the keys of the first `blocks` groups of eight: (n, 8 * blocks). */
TRF__FN void trf__attention_bits(const trf__run *run, const trf__head *h, uint16_t *bits, int64_t i0, int64_t n,
                                 int64_t blocks)
{
    uint32_t counter[2][TRF__WIDE], words[4][TRF__WIDE], head = (uint32_t)h->head;
    int64_t at, b = 0, i = i0;
    int lane, w;
    for (at = 0; at < n * blocks; at += TRF__WIDE) {
        int lanes = (int)trf__min64(TRF__WIDE, n * blocks - at);
        for (lane = 0; lane < TRF__WIDE; lane++) {
            counter[0][lane] = (uint32_t)b | head >> 12 << 17;
            counter[1][lane] = (uint32_t)i | (head & 0xFFF) << 20;
            if (++b == blocks) { b = 0; i++; }
        }
        trf__philox16(counter[0], counter[1], (uint32_t)h->span->sentence, run->now->step, run->now->key0,
                      trf__site_key(run->now, &h->in->drop), words);
        for (lane = 0; lane < lanes; lane++)
            for (w = 0; w < 4; w++) {
                bits[(at + lane) * 8 + 2 * w] = (uint16_t)(words[w][lane] & 0xFFFF);
                bits[(at + lane) * 8 + 2 * w + 1] = (uint16_t)(words[w][lane] >> 16);
            }
    }
}

/* One row of weights (or of their gradient) times its mask. */
TRF__FN void trf__drop_weights(const trf__drop *drop, const uint16_t *bits, trf_real *row, int64_t n)
{
    int64_t c;
    for (c = 0; c < n; c += 16)
        trf__store(row + c, trf__mul(trf__load(row + c), trf__kept(bits + c, drop->threshold, drop->scale)));
}

TRF__FN trf_real trf__dot(const trf_real *a, const trf_real *b, int64_t n)
{
    trf__v16 sum = trf__set(0);
    int64_t c;
    for (c = 0; c < n; c += 16) sum = trf__fma(trf__load_n(a + c, n - c), trf__load_n(b + c, n - c), sum);
    return trf__sum(sum);
}

/* One query against keys that lie anywhere: nothing is packed. s: room for m16 numbers. */
TRF__FN void trf__attention_of_one(const trf__head *h, trf_real *s, int64_t m16, trf_real *out)
{
    const trf_real *q = trf__from(h->in->q) + h->span->query * h->in->ldq + h->first;
    const trf_real *k = trf__from(h->in->k) + h->first, *v = trf__from(h->in->v) + h->first;
    int64_t i, c, d = h->in->d_head, ld = h->in->ldk;
    trf_real stats[2];
    for (i = 0; i < h->span->n_key; i++) s[i] = trf__dot(q, k + h->key_rows[i] * ld, d);
    trf__softmax_row(s, i, m16, h->scale, NULL, stats);
    for (c = 0; c < d; c += 16) {
        trf__v16 sum = trf__set(0);
        for (i = 0; i < h->span->n_key; i++)
            sum = trf__fma(trf__set(s[i]), trf__load_n(v + h->key_rows[i] * ld + c, d - c), sum);
        trf__store_n(out + c, sum, d - c);
    }
}

TRF__FN void trf__attention_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__attention *a = (const trf__attention *)job;
    trf__head h = trf__head_of(&a->in, tile);
    int64_t i0, i, d = a->in.d_head, ldo = a->in.heads * d;
    trf_real *out = trf__to(a->out) + h.span->query * ldo + h.first;
    const trf_real *stored = trf__from(a->in.k) + h.span->key * a->in.ldk;
    trf__attention_room room;
    trf__view keys, values;
    trf__attention_cut(&room, trf__scratch(run, worker), h.span->n_key, d);
    if (h.span->n_key == 0) { trf__zero_rows(out, ldo, h.span->n_query, d); return; }
    if (h.key_rows && h.span->n_query == 1 && !a->stats && !trf__dropping(run, &a->in.drop)) {
        trf__attention_of_one(&h, room.s, room.m16, out);
        return;
    }
    if (a->in.area) {
        keys = trf__view_of(stored + h.first * a->in.area, a->in.area, 16);
        values = trf__rows_as_panels(room.v, stored + ldo * a->in.area + h.first, ldo, h.span->n_key, d, room.d16);
    } else {
        keys = trf__keys_transposed(room.kt, a->in.k, &h, room.m16);
        values = trf__keys_as_panels(room.v, a->in.v, &h, room.d16);
    }
    for (i0 = 0; i0 < h.span->n_query; i0 += TRF__QUERIES) {
        int64_t n = trf__min64(TRF__QUERIES, h.span->n_query - i0), seen = trf__keys_seen(&h, i0 + n - 1);
        int64_t seen16 = trf__round_up(seen, 16);
        trf__attention_rows(&h, &room, keys, NULL, a->stats, i0, n);
        if (trf__dropping(run, &a->in.drop)) {
            trf__attention_bits(run, &h, room.bits, i0, n, seen16 / 8);
            for (i = 0; i < n; i++)
                trf__drop_weights(&a->in.drop, room.bits + i * seen16, room.s + i * room.m16, seen16);
        }
        trf__mm(trf__product_of(out + i0 * ldo, ldo, n, d, seen, trf__view_of(room.s, room.m16, 1),
                                values, 0));
    }
}

TRF__FN void trf__cpu_attention(const trf__run *run, const trf__attention *a)
{
    trf__tiles(run, a->in.n_spans * a->in.heads, trf__attention_tile, a);
}

TRF__FN void trf__attention_weights_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__attention_weights *a = (const trf__attention_weights *)job;
    trf__head h = trf__head_of(&a->in, a->head);
    int64_t i0 = tile * TRF__QUERIES, i, m = h.span->n_key, n = trf__min64(TRF__QUERIES, h.span->n_query - i0);
    trf__attention_room room;
    trf__attention_cut(&room, trf__scratch(run, worker), m, a->in.d_head);
    trf__attention_rows(&h, &room, trf__keys_transposed(room.kt, a->in.k, &h, room.m16), NULL, NULL, i0, n);
    for (i = 0; i < n; i++)
        memcpy(a->weights + (i0 + i) * m, room.s + i * room.m16, (size_t)m * sizeof *a->weights);
}

TRF__FN void trf__cpu_attention_weights(const trf__run *run, const trf__attention_weights *a)
{
    if (a->in.spans->n_key > 0)
        trf__tiles(run, trf__ceil_div(a->in.spans->n_query, TRF__QUERIES), trf__attention_weights_tile, a);
}

#if !defined(TRF_NO_TRAIN)

/* One row of dS into ds, which comes in as dP; s is P. delta: sum of P dP. */
TRF__FN void trf__attention_row_gradient(const trf_real *s, trf_real *ds, int64_t m16, trf_real delta, trf_real scale)
{
    trf__v16 mean = trf__set(delta), factor = trf__set(scale);
    int64_t c;
    for (c = 0; c < m16; c += 16)
        trf__store(ds + c, trf__mul(trf__mul(trf__load(s + c), trf__sub(trf__load(ds + c), mean)), factor));
}

/* Queries i0 .. i0 + n - 1: room->ds becomes dS, room->s becomes D. */
TRF__FN void trf__attention_rows_gradient(const trf__run *run, const trf__attention_gradient *a, const trf__head *h,
                                          const trf__attention_room *room, int64_t i0, int64_t n)
{
    const trf__drop *drop = &a->in.drop;
    int dropping = trf__dropping(run, drop);
    int64_t i, d = a->in.d_head, ldo = a->in.heads * d, at = (h->span->query + i0) * ldo + h->first;
    int64_t seen16 = trf__round_up(trf__keys_seen(h, i0 + n - 1), 16);
    const trf_real *dout = trf__from(a->dout) + at, *out = trf__from(a->out) + at;
    trf__attention_rows(h, room, trf__view_of(room->kt, room->m16, 16), a->stats, NULL, i0, n);
    trf__mm(trf__product_of(room->ds, room->m16, n, room->m16, d, trf__view_of(dout, ldo, 1),
                            trf__view_of(room->vt, room->m16, 16), 0));
    if (dropping) trf__attention_bits(run, h, room->bits, i0, n, seen16 / 8);
    for (i = 0; i < n; i++) {
        trf_real *s = room->s + i * room->m16, *ds = room->ds + i * room->m16;
        if (dropping) trf__drop_weights(drop, room->bits + i * seen16, ds, seen16);
        trf__attention_row_gradient(s, ds, room->m16, trf__dot(dout + i * ldo, out + i * ldo, d), h->scale);
        if (dropping) trf__drop_weights(drop, room->bits + i * seen16, s, seen16);
    }
}

TRF__FN void trf__attention_gradient_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__attention_gradient *a = (const trf__attention_gradient *)job;
    trf__head h = trf__head_of(&a->in, tile);
    const trf__span *span = h.span;
    int64_t i0, d = a->in.d_head, ldq = a->in.ldq, ldk = a->in.ldk, ldo = a->in.heads * d;
    trf_real *dq = trf__to(a->dq) + span->query * ldq + h.first;
    trf_real *dk = trf__to(a->dk) + span->key * ldk + h.first, *dv = trf__to(a->dv) + span->key * ldk + h.first;
    trf__attention_room room;
    trf__view keys;
    trf__attention_cut(&room, trf__scratch(run, worker), span->n_key, d);
    trf__zero_rows(dk, ldk, span->n_key, d);
    trf__zero_rows(dv, ldk, span->n_key, d);
    trf__keys_transposed(room.kt, a->in.k, &h, room.m16);
    trf__keys_transposed(room.vt, a->in.v, &h, room.m16);
    keys = trf__keys_as_panels(room.k, a->in.k, &h, room.d16);
    for (i0 = 0; i0 < span->n_query; i0 += TRF__QUERIES) {
        int64_t n = trf__min64(TRF__QUERIES, span->n_query - i0), query = span->query + i0;
        int64_t seen = trf__keys_seen(&h, i0 + n - 1);
        trf__view queries = trf__rows_as_panels(room.q, trf__from(a->in.q) + query * ldq + h.first, ldq, n, d,
                                                room.d16);
        trf__view douts = trf__rows_as_panels(room.dout, trf__from(a->dout) + query * ldo + h.first, ldo, n, d,
                                              room.d16);
        trf__attention_rows_gradient(run, a, &h, &room, i0, n);
        trf__mm(trf__product_of(dq + i0 * ldq, ldq, n, d, seen, trf__view_of(room.ds, room.m16, 1), keys, 0));
        trf__mm(trf__product_of(dk, ldk, seen, d, n, trf__view_of(room.ds, 1, room.m16), queries, 1));
        trf__mm(trf__product_of(dv, ldk, seen, d, n, trf__view_of(room.s, 1, room.m16), douts, 1));
    }
}

TRF__FN void trf__cpu_attention_gradient(const trf__run *run, const trf__attention_gradient *a)
{
    trf__tiles(run, a->in.n_spans * a->in.heads, trf__attention_gradient_tile, a);
}

#endif

// >>add_norm       paper 3.1 and 5.4: dropout on the sublayer, residual connection, layer norm (Ba et al. 2016)
//
//   s = x + drop(sub)     y = gain * (s - mean) * r + bias
//   r = 1 / sqrt(var + epsilon), var biased; TRF_NORM_ANNOTATED: r = 1 / (deviation + epsilon), deviation unbiased
//   x, sub, s, y: (rows, d)   gain, bias: (d)   kept for backward: s, and per row mean and r
//
//   with n = (s - mean) r, g = dy + dy2, dn = gain * g, averages over d:
//   ds = r (dn - avg(dn) - (s - mean) c sum(dn (s - mean))) + ds_in
//   c = r^2 / d, annotated: r / ((d-1) deviation)
//   dsub = drop(ds)     dx = ds     dgain += g * n     dbias += g
//   Without a norm (y NULL in forward, gain NULL in backward): ds = dy + dy2.

enum { TRF__NORM_ROWS = 32 };

TRF__FN void trf__norm_row(const trf__norm *j, const trf_real *s, trf_real *y, trf_real stats[2])
{
    trf__v16 sum = trf__set(0), squares = trf__set(0), mean, factor;
    double var, r;
    int64_t c, d = j->d;
    /* from the first one, so that equal numbers have exactly themselves as mean */
    for (c = 0; c < d; c += 16)
        sum = trf__fma(trf__sub(trf__load_n(s + c, d - c), trf__set(s[0])), trf__first(d - c), sum);
    stats[0] = s[0] + trf__sum(sum) / (trf_real)d;
    mean = trf__set(stats[0]);
    for (c = 0; c < d; c += 16) {
        trf__v16 centered = trf__mul(trf__sub(trf__load_n(s + c, d - c), mean), trf__first(d - c));
        squares = trf__fma(centered, centered, squares);
    }
    var = (double)trf__sum(squares);
    if (j->rule == TRF_NORM_ANNOTATED) r = 1 / (sqrt(var / (double)(d > 1 ? d - 1 : 1)) + j->epsilon);
    else r = 1 / sqrt(var / (double)d + j->epsilon);
    stats[1] = (trf_real)r;
    factor = trf__set(stats[1]);
    for (c = 0; c < d; c += 16) {
        trf__v16 n = trf__mul(trf__sub(trf__load_n(s + c, d - c), mean), factor);
        trf__store_n(y + c, trf__fma(n, trf__load_n(j->gain + c, d - c), trf__load_n(j->bias + c, d - c)), d - c);
    }
}

TRF__FN void trf__add_norm_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__norm *j = (const trf__norm *)job;
    int64_t row, c, d = j->d, end = trf__tile_end(tile, TRF__NORM_ROWS, j->rows);
    int dropping = trf__dropping(run, &j->drop);
    (void)worker;
    for (row = tile * TRF__NORM_ROWS; row < end; row++) {
        const trf_real *x = trf__from(j->x) + row * d, *s = x;
        if (j->sub) {
            const trf_real *sub = trf__from(j->sub) + row * d;
            trf_real *sum = trf__to(j->s) + row * d;
            trf__mask mask;
            if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
            for (c = 0; c < d; c += 16) {
                trf__v16 a = trf__load_n(x + c, d - c), b = trf__load_n(sub + c, d - c);
                a = dropping ? trf__fma(b, trf__mask_chunk(&mask, c / 16), a) : trf__add(a, b);
                trf__store_n(sum + c, a, d - c);
            }
            s = sum;
        }
        if (j->y) {
            trf_real local[2];
            trf__norm_row(j, s, trf__to(j->y) + row * d, j->stats ? j->stats + 2 * row : local);
        }
    }
}

TRF__FN void trf__cpu_add_norm(const trf__run *run, const trf__norm *j)
{
    trf__tiles(run, trf__ceil_div(j->rows, TRF__NORM_ROWS), trf__add_norm_tile, j);
}

#if !defined(TRF_NO_TRAIN)

TRF__INLINE trf__v16 trf__norm_dy(const trf__norm_gradient *j, int64_t at, int64_t n)
{
    trf__v16 dy = trf__load_n(trf__from(j->dy) + at, n);
    return j->dy2 ? trf__add(dy, trf__load_n(trf__from(j->dy2) + at, n)) : dy;
}

TRF__FN void trf__norm_row_gradient(const trf__norm_gradient *j, int64_t row)
{
    static const trf_real nothing[TRF__WIDE] = {0};
    const trf_real *more, *s = trf__from(j->s);
    int64_t c, d = j->d, at = row * d, more_step;
    double mean = (double)j->stats[2 * row], r = (double)j->stats[2 * row + 1], slope, deviation;
    trf__v16 center = trf__set((trf_real)mean), factor = trf__set((trf_real)r);
    trf__v16 sum = trf__set(0), dot = trf__set(0), average, pull;
    for (c = 0; c < d; c += 16) {
        trf__v16 g = trf__norm_dy(j, at + c, d - c), gain = trf__load_n(j->gain + c, d - c);
        trf__v16 centered = trf__sub(trf__load_n(s + at + c, d - c), center);
        sum = trf__fma(g, gain, sum);
        dot = trf__fma(trf__mul(g, centered), gain, dot);       /* a row's end: gain is loaded as 0 */
    }
    if (j->rule == TRF_NORM_ANNOTATED) {
        deviation = 1 / r - j->epsilon;
        slope = deviation > 0 && d > 1 ? r / ((double)(d - 1) * deviation) : 0;
    } else slope = r * r / (double)d;
    /* Without ds_in zeros are added: a branch would let compilers share the product, which then is not fused. */
    more = j->ds_in ? trf__from(j->ds_in) + at : nothing;
    more_step = j->ds_in != NULL;
    average = trf__set((trf_real)(-(double)trf__sum(sum) / (double)d));
    pull = trf__set((trf_real)(-slope * (double)trf__sum(dot)));
    for (c = 0; c < d; c += 16) {
        trf__v16 g = trf__norm_dy(j, at + c, d - c), gain = trf__load_n(j->gain + c, d - c);
        trf__v16 centered = trf__sub(trf__load_n(s + at + c, d - c), center);
        trf__v16 ds = trf__fma(centered, pull, trf__fma(g, gain, average));
        ds = trf__fma(ds, factor, trf__load_n(more + c * more_step, d - c));
        trf__store_n(trf__to(j->ds) + at + c, ds, d - c);
    }
}

TRF__FN void trf__norm_gradient_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__norm_gradient *j = (const trf__norm_gradient *)job;
    int64_t row, c, d = j->d, end = trf__tile_end(tile, TRF__NORM_ROWS, j->rows);
    int dropping = trf__dropping(run, &j->drop);
    (void)worker;
    for (row = tile * TRF__NORM_ROWS; row < end; row++) {
        trf_real *ds = trf__to(j->ds) + row * d;
        trf__mask mask;
        if (j->gain) trf__norm_row_gradient(j, row);
        else if (j->ds != j->dy || j->dy2)
            for (c = 0; c < d; c += 16) trf__store_n(ds + c, trf__norm_dy(j, row * d + c, d - c), d - c);
        if (!j->dsub) continue;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (c = 0; c < d; c += 16) {
            trf__v16 dsub = trf__load_n(ds + c, d - c);
            if (dropping) dsub = trf__mul(dsub, trf__mask_chunk(&mask, c / 16));
            trf__store_n(trf__to(j->dsub) + row * d + c, dsub, d - c);
        }
    }
}

/* dgain and dbias of sixteen columns: partial sums of 64 rows, added in order. */
TRF__FN void trf__norm_gain_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__norm_gradient *j = (const trf__norm_gradient *)job;
    int64_t row, r0, d = j->d, c = tile * 16, n = d - c;
    trf__v16 all_gain = j->first ? trf__set(0) : trf__load_n(j->dgain + c, n);
    trf__v16 all_bias = j->first ? trf__set(0) : trf__load_n(j->dbias + c, n);
    (void)run; (void)worker;
    for (r0 = 0; r0 < j->rows; r0 += 64) {
        trf__v16 dgain = trf__set(0), dbias = trf__set(0);
        for (row = r0; row < trf__min64(j->rows, r0 + 64); row++) {
            trf__v16 g = trf__norm_dy(j, row * d + c, n), mean = trf__set(j->stats[2 * row]);
            trf__v16 normal = trf__mul(trf__sub(trf__load_n(trf__from(j->s) + row * d + c, n), mean),
                                       trf__set(j->stats[2 * row + 1]));
            dgain = trf__fma(g, normal, dgain);
            dbias = trf__add(dbias, g);
        }
        all_gain = trf__add(all_gain, dgain);
        all_bias = trf__add(all_bias, dbias);
    }
    trf__store_n(j->dgain + c, all_gain, n);
    trf__store_n(j->dbias + c, all_bias, n);
}

/* dgain and dbias first: ds may overwrite dy and dy2. */
TRF__FN void trf__cpu_norm_gradient(const trf__run *run, const trf__norm_gradient *j)
{
    if (j->gain) trf__tiles(run, trf__ceil_div(j->d, 16), trf__norm_gain_tile, j);
    trf__tiles(run, trf__ceil_div(j->rows, TRF__NORM_ROWS), trf__norm_gradient_tile, j);
}

#endif

// >>pool           one row for each sequence
//
//   y[s] = sum of x[r] / n    over the first n = min(most, n_s) of its n_s rows; 0 if it has none
//   dx[r] = dy[s] / n for these rows, 0 for the others
//
// most = 1: the first row (Devlin et al. 2019); beyond all lengths: the mean. A tile is a sequence.

TRF__BOTH int64_t trf__pooled(const trf__span *span, int64_t most)
{
    return span->n_query < most ? span->n_query : most;
}

TRF__FN void trf__pool_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__pool *j = (const trf__pool *)job;
    const trf__span *span = &j->spans[tile];
    const trf_real *x = trf__from(j->from) + span->query * j->d;
    int64_t n = trf__pooled(span, j->most), r, c;
    trf__v16 share = trf__set(n > 0 ? 1 / (trf_real)n : 0), sum;
    (void)run; (void)worker;
    for (c = 0; c < j->d; c += 16) {
        sum = trf__set(0);
        for (r = 0; r < n; r++) sum = trf__add(sum, trf__load_n(x + r * j->d + c, j->d - c));
        trf__store_n(trf__to(j->to) + tile * j->d + c, trf__mul(sum, share), j->d - c);
    }
}

TRF__FN void trf__cpu_pool(const trf__run *run, const trf__pool *j)
{
    trf__tiles(run, j->n_spans, trf__pool_tile, j);
}

#if !defined(TRF_NO_TRAIN)

TRF__FN void trf__pool_gradient_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__pool *j = (const trf__pool *)job;
    const trf__span *span = &j->spans[tile];
    const trf_real *dy = trf__from(j->from) + tile * j->d;
    trf_real *dx = trf__to(j->to) + span->query * j->d;
    int64_t n = trf__pooled(span, j->most), r, c;
    trf__v16 share = trf__set(n > 0 ? 1 / (trf_real)n : 0);
    (void)run; (void)worker;
    for (r = 0; r < span->n_query; r++)
        for (c = 0; c < j->d; c += 16)
            trf__store_n(dx + r * j->d + c,
                         r < n ? trf__mul(trf__load_n(dy + c, j->d - c), share) : trf__set(0), j->d - c);
}

TRF__FN void trf__cpu_pool_gradient(const trf__run *run, const trf__pool *j)
{
    trf__tiles(run, j->n_spans, trf__pool_gradient_tile, j);
}

#endif

// >>cross_entropy  paper 3.4 and 5.4: vocabulary projection, softmax, label smoothing, all in one
//
//   z = x w^T + b     loss = - sum over v of q[v] (z[v] - log sum exp z) - entropy
//   q: `on` at the target, `off` elsewhere, 0 at zero_column; it sums to 1      dz = softmax(z) - q
//   dx = dz w     dw += dz^T x     db += sum of dz
//
// Logits exist for one group of 512 rows at a time, and turn into their own gradient in place: phase one
// is cut by rows (project, softmax, dx), phase two by tokens (dw, db).

enum { TRF__LOSS_GROUP = 512 };
#define TRF__SMALL (1.0 / 33554432)     /* a power of two: scaled by it, sums of huge logits do not overflow */

/* Cuts the room of a loss: the logits of one group, for every row whether its target was the most likely token, and
   the weight in panels, for our own product. */
TRF__FN size_t trf__loss_cut(void *room, const trf_device *device, int64_t rows, int64_t vocab, int64_t d, int copied,
                             trf_real **logits, int32_t **hit, trf_real **panels)
{
    trf__cursor cursor = trf__cursor_at(room);
    *logits = trf__take_reals(&cursor, trf__min64(rows, TRF__LOSS_GROUP), trf__round_up(vocab, 16));
    *hit = (int32_t *)trf__take(&cursor, rows, sizeof(int32_t));
    *panels = NULL;
    if (!copied && trf__cpu_prefers_own(device)) *panels = trf__take_reals(&cursor, trf__round_up(vocab, 16), d);
    return cursor.used;
}

TRF__FN size_t trf__cpu_loss_room(const trf_device *device, int64_t rows, int64_t vocab, int64_t d, int copied)
{
    trf_real *logits, *panels;
    int32_t *hit;
    return trf__loss_cut(NULL, device, rows, vocab, d, copied, &logits, &hit, &panels);
}

/* One group: rows row0 .. row0 + rows - 1. */
typedef struct trf__loss_job {
    const trf__loss *l;
    trf__mat w;                 /* from its row on */
    int64_t row0, rows, ld;
    int64_t each;               /* rows of a tile */
    int blas;
    trf_real *logits;
    int32_t *hit;
} trf__loss_job;

/* Loss of a row whose logits are z; z becomes dz if gradients are wanted. */
TRF__FN void trf__loss_row(const trf__loss *l, int64_t row, trf_real *z, int32_t *hit)
{
    int32_t target = l->targets[row];
    int64_t c, n = l->vocab;
    trf_real maximum, scale, at_target, at_zero = l->zero_column >= 0 ? z[l->zero_column] : 0;
    trf__v16 sum = trf__set(0), total = trf__set(0), m, factor, off;
    double log_sum, all, zero;
    if (target < 0) {
        l->row_loss[row] = l->row_nll[row] = 0;
        *hit = 0;
        memset(z, 0, (size_t)n * sizeof *z);
        return;
    }
    maximum = trf__most_of(z, n);
    at_target = z[target];
    m = trf__set(maximum);
    factor = trf__set((trf_real)TRF__SMALL);
    off = trf__set(-maximum * (trf_real)TRF__SMALL);
    for (c = 0; c < n; c += 16) {       /* z becomes exp(z - maximum); total: the sum of z - maximum */
        trf__v16 x = trf__load_n(z + c, n - c), valid = trf__first(n - c);
        trf__v16 e = trf__exp(trf__min(trf__sub(x, m), trf__set(0)));   /* zeros behind the end may be far above m */
        total = trf__fma(trf__fma(x, factor, off), valid, total);
        sum = trf__fma(e, valid, sum);
        trf__store_n(z + c, e, n - c);
    }
    scale = 1 / trf__sum(sum);
    log_sum = trf__ln((double)trf__sum(sum));
    all = (double)trf__sum(total) / TRF__SMALL - (double)n * log_sum;       /* sum of all log-probabilities */
    zero = l->zero_column >= 0 ? (double)at_zero - (double)maximum - log_sum : 0;
    l->row_nll[row] = (double)maximum - (double)at_target + log_sum;        /* in this order: maximum may be huge */
    l->row_loss[row] = (l->on - l->off) * l->row_nll[row];
    if (l->off != 0) l->row_loss[row] -= l->off * (all - zero);     /* 0 * infinity must not be NaN */
    l->row_loss[row] -= l->entropy;
    *hit = at_target >= maximum;
    if (!l->dx) return;
    factor = trf__set(scale);
    off = trf__set((trf_real)-l->off);
    for (c = 0; c < n; c += 16)
        trf__store_n(z + c, trf__fma(trf__load_n(z + c, n - c), factor, off), n - c);
    z[target] -= (trf_real)(l->on - l->off);
    if (l->zero_column >= 0) z[l->zero_column] += (trf_real)l->off;
}

TRF__FN void trf__loss_rows_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__loss_job *j = (const trf__loss_job *)job;
    const trf__loss *l = j->l;
    int64_t first = tile * j->each, row = j->row0 + first, r;
    int64_t rows = trf__min64(j->each, j->rows - first);
    trf_real *z = j->logits + first * j->ld;
    trf__product p = trf__product_of(z, j->ld, rows, l->vocab, l->d,
                                     trf__view_of(trf__from(l->x) + row * l->d, l->d, 1),
                                     trf__view_of(j->w.plain, 1, l->d), 0);
    p.bias = l->bias;
    trf__multiply(run, worker, j->blas, (const trf_real *)j->w.copy, p);
    for (r = 0; r < rows; r++) trf__loss_row(l, row + r, z + r * j->ld, &j->hit[row + r]);
#if !defined(TRF_NO_TRAIN)
    if (l->dx)
        trf__multiply(run, worker, j->blas, NULL,
                      trf__product_of(trf__to(l->dx) + row * l->d, l->d, rows, l->d, l->vocab,
                                      trf__view_of(z, j->ld, 1), trf__view_of(j->w.plain, l->d, 1), 0));
#endif
}

#if !defined(TRF_NO_TRAIN)

/* A double as two numbers of the arena's type, so that sums over ranks lose nothing that matters. */
TRF__BOTH void trf__slot_add(trf_real *slots, int slot, double x)
{
    double sum = (double)slots[slot] + (double)slots[slot + 1] + x;
    slots[slot] = (trf_real)sum;
    slots[slot + 1] = (trf_real)(sum - (double)slots[slot]);
}

TRF__BOTH double trf__slot(const trf_real *slots, int slot) { return (double)slots[slot] + (double)slots[slot + 1]; }

#endif

/* The sums go where they are wanted. */
TRF__BOTH void trf__loss_told(const trf__loss *l, const trf__now *now, const trf__sums *sums)
{
    (void)now;
    if (l->sums) *l->sums = *sums;
#if !defined(TRF_NO_TRAIN)
    if (!l->slots) return;
    if (l->first) memset(l->slots, 0, TRF__SLOTS * sizeof *l->slots);
    trf__slot_add(l->slots, TRF__SLOT_LOSS, sums->loss);
    trf__slot_add(l->slots, TRF__SLOT_NLL, sums->nll);
    trf__slot_add(l->slots, TRF__SLOT_CORRECT, sums->correct);
    trf__slot_add(l->slots, TRF__SLOT_TOKENS, sums->tokens);
    trf__slot_add(l->slots, TRF__SLOT_SOURCE, now ? now->source_tokens : 0);
#endif
}

/* The sums over all rows, in their order. */
TRF__FN void trf__loss_sums(const trf__loss *l, const trf__now *now, const int32_t *hit)
{
    trf__sums sums;
    int64_t i;
    TRF__ZERO(sums);
    for (i = 0; i < l->rows; i++) {
        sums.loss += l->row_loss[i];
        sums.nll += l->row_nll[i];
        sums.correct += hit[i];
        sums.tokens += l->targets[i] >= 0;
    }
    trf__loss_told(l, now, &sums);
}

TRF__FN void trf__cpu_cross_entropy(const trf__run *run, const trf__loss *l)
{
    trf__loss_job job;
    trf_real *panels;
    job.l = l;
    job.w = trf__mat_from(l->w, 0, l->d);
    job.ld = trf__round_up(l->vocab, 16);
    job.blas = trf__use_blas(run, l->rows);
    /* a quarter of a group; of ours a share for each thread, as no bit depends on it */
    job.each = trf__max64(32, TRF__LOSS_GROUP / (job.blas ? 4 : trf__max64(4, 2 * trf__cpu_of(run)->threads)));
    trf__loss_cut(l->room, &run->device, l->rows, l->vocab, l->d, l->w.copy != NULL, &job.logits, &job.hit, &panels);
    if (!job.blas && !job.w.copy && panels) {
        trf__pack pack = { panels, job.w.plain, 0, l->vocab, l->d, 1 };
        trf__cpu_pack(run, &pack);
        job.w.copy = panels;
    }
    /* once without rows too: `first` sets the gradients of the weight */
    for (job.row0 = 0; job.row0 < l->rows || job.row0 == 0; job.row0 += TRF__LOSS_GROUP) {
        job.rows = trf__min64(TRF__LOSS_GROUP, l->rows - job.row0);
        trf__product_tiles(run, job.blas, trf__ceil_div(job.rows, job.each), trf__loss_rows_tile, &job);
#if !defined(TRF_NO_TRAIN)
        if (l->dx) {
            trf__dw_job dw = { l->dw, l->db, job.logits, trf__from(l->x) + job.row0 * l->d, job.rows, l->vocab, l->d,
                               job.ld, l->first && job.row0 == 0 };
            trf__dw_all(run, &dw);
        }
#endif
    }
    trf__loss_sums(l, run->now, job.hit);
}

#if !defined(TRF_NO_TRAIN)

// >>clip           the global norm, and what follows from it
//
//   norm = sqrt(sum of squares) / tokens     scale = min(1, clip_norm / (norm + 1e-6)) / tokens
//   as torch.nn.utils.clip_grad_norm_; skipped: the loss or a gradient is not finite, or too large to be squared
//
// Tiles are pieces of single parameters; their squares are summed in double, and the tiles' sums in order.

TRF__FN void trf__clip_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__clip *j = (const trf__clip *)job;
    const trf_real *x = j->gradients + j->tiles[tile].begin;
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int64_t i, n = j->tiles[tile].n;
    int lane;
    (void)run; (void)worker;
    for (i = 0; i + 8 <= n; i += 8)
        for (lane = 0; lane < 8; lane++) sum[lane] += (double)x[i + lane] * (double)x[i + lane];
    for (; i < n; i++) sum[0] += (double)x[i] * (double)x[i];
    j->partial[tile] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* The first tile with a number that is not finite, or -1. */
TRF__FN int64_t trf__bad_tile(const trf__clip *j)
{
    int64_t t, i;
    for (t = 0; t < j->n_tiles; t++)
        for (i = 0; !trf__is_finite(j->partial[t]) && i < j->tiles[t].n; i++)
            if (!trf__is_finite((double)j->gradients[j->tiles[t].begin + i])) return t;
    return -1;
}

/* What follows from the sum of all squares. */
TRF__BOTH void trf__judge(const trf__clip *j, double sum, int64_t bad_tile)
{
    trf__verdict *v = j->verdict;
    v->sums.loss = trf__slot(j->slots, TRF__SLOT_LOSS);
    v->sums.nll = trf__slot(j->slots, TRF__SLOT_NLL);
    v->sums.correct = trf__slot(j->slots, TRF__SLOT_CORRECT);
    v->sums.tokens = trf__slot(j->slots, TRF__SLOT_TOKENS);
    v->source_tokens = trf__slot(j->slots, TRF__SLOT_SOURCE);
    v->bad_tile = bad_tile;
    v->norm = sqrt(sum) / v->sums.tokens;
    v->scale = j->clip_norm / (v->norm + 1e-6);
    if (!(v->scale < 1)) v->scale = 1;
    v->skipped = !(v->norm * v->scale < TRF__MOST_GRADIENT) || !trf__is_finite(v->sums.loss);
    v->scale /= v->sums.tokens;
    if (!v->skipped) v->updates++;
}

TRF__FN void trf__cpu_clip(const trf__run *run, const trf__clip *j)
{
    double sum = 0;
    int64_t i;
    trf__tiles(run, j->n_tiles, trf__clip_tile, j);
    for (i = 0; i < j->n_tiles; i++) sum += j->partial[i];
    trf__judge(j, sum, trf__is_finite(sum) ? -1 : trf__bad_tile(j));
}

// >>adam           Kingma and Ba 2015; where epsilon stands: trf_adam_epsilon
//
//   g = scale * gradient (+ l2 p)     m = beta1 m + (1 - beta1) g     v = beta2 v + (1 - beta2) g^2
//   p = p - shrink p - rate * m / (max(sqrt(v_scale v + epsilon_in), least_root) + epsilon_out)
//
// A mean begins at the side that weighs more and adds the difference, which is right for every beta. No number
// becomes infinite: l2 p stops where its square is still a number, and a weight stays as it is if the new one would
// be.

typedef struct trf__adam_job {
    double rate, v_scale, epsilon_in, epsilon_out, least_root, l2, shrink;      /* as above */
    double scale1, scale2;      /* the verdict's scale in two factors: in float one may be 0 */
} trf__adam_job;

/* The coefficients, for the updates that the moments have had. A float v holds nothing below 1e-45: it counts as
   1e-43 at least, below which it has not two digits, or the m of a gradient of 1e-23 would be divided by epsilon
   alone. (The root is compared, not v: with a number that small an addition takes a processor hundreds of cycles.) */
TRF__BOTH trf__adam_job trf__adam_job_of(const trf__adam *a, int64_t missed, double learning_rate)
{
    double n = (double)(a->verdict->updates - missed), c1 = 1 - pow(a->beta1, n), c2 = 1 - pow(a->beta2, n);
    double scale = a->verdict->scale, first = scale < 1e-20 ? 1e-20 : 1;
    trf__adam_job j;
    TRF__ZERO(j);
    j.scale1 = first;
    j.scale2 = scale / first;
    j.rate = learning_rate / c1;
    j.v_scale = 1 / c2;
    if (a->epsilon_rule == TRF_EPSILON_FAIRSEQ) { j.rate = learning_rate * sqrt(c2) / c1; j.v_scale = 1; }
    if (a->epsilon_rule == TRF_EPSILON_INSIDE) j.epsilon_in = a->epsilon;
    else j.epsilon_out = a->epsilon;
    if (TRF__REAL_BYTES == 4) j.least_root = 3.2e-22 * sqrt(j.v_scale);
    if (a->optimizer == TRF_ADAM) j.l2 = a->weight_decay;
    else j.shrink = learning_rate * a->weight_decay;
    return j;
}

/* beta old + (1 - beta) x */
TRF__INLINE trf__v16 trf__running_mean(trf__v16 old, trf__v16 x, double beta)
{
    if (beta < 0.5) return trf__fma(trf__set((trf_real)beta), trf__sub(old, x), x);
    return trf__fma(trf__set((trf_real)(1 - beta)), trf__sub(x, old), old);
}

TRF__FN void trf__adam_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__adam *a = (const trf__adam *)job;
    const trf__adam_job of = trf__adam_job_of(a, a->tiles[tile].missed, run->now->learning_rate), *j = &of;
    int64_t i, begin = a->tiles[tile].begin, n = a->tiles[tile].n;
    int decay = a->tiles[tile].decay;
    trf__v16 scale1 = trf__set((trf_real)j->scale1), scale2 = trf__set((trf_real)j->scale2);
    trf__v16 one = trf__set(1), rate = trf__set((trf_real)-j->rate), v_scale = trf__set((trf_real)j->v_scale);
    trf__v16 most = trf__set((trf_real)TRF__MOST_GRADIENT), least = trf__set((trf_real)-TRF__MOST_GRADIENT);
    trf__v16 square = trf__mul(most, most);
    trf__v16 inside = trf__set((trf_real)j->epsilon_in), outside = trf__set((trf_real)j->epsilon_out);
    trf__v16 least_root = trf__set((trf_real)j->least_root);
    trf__v16 l2 = trf__set((trf_real)(decay ? j->l2 : 0)), shrink = trf__set((trf_real)(decay ? -j->shrink : 0));
    (void)worker;
    for (i = begin; i < begin + n; i += 16) {
        int64_t left = begin + n - i;
        trf__v16 p = trf__load_n(a->p + i, left), m = trf__load_n(a->m + i, left), v = trf__load_n(a->v + i, left);
        trf__v16 pull = trf__min(trf__max(trf__mul(l2, p), least), most), root, moved;
        trf__v16 g = trf__fma(trf__mul(trf__load_n(a->g + i, left), scale1), scale2, pull);
        m = trf__running_mean(m, g, a->beta1);
        v = trf__running_mean(v, trf__min(trf__mul(g, g), square), a->beta2);   /* trf__min: see trf__fma */
        root = trf__max(trf__sqrt(trf__fma(v, v_scale, inside)), least_root);
        moved = trf__fma(rate, trf__div(m, trf__add(root, outside)), trf__fma(shrink, p, p));
        p = trf__if_less(trf__sub(moved, moved), one, moved, p);    /* infinity - infinity is not less */
        trf__store_n(a->p + i, p, left);
        trf__store_n(a->m + i, m, left);
        trf__store_n(a->v + i, v, left);
    }
}

TRF__FN void trf__cpu_adam(const trf__run *run, const trf__adam *a)
{
    if (!a->verdict->skipped) trf__tiles(run, a->n_tiles, trf__adam_tile, a);
}

#endif

// >>top            what search asks of a row of logits
//
//   z = x w^T + b; log-softmax of each row, and its n best tokens, best first, equal ones by lowest id
//
// Logits exist for TRF__TOP_ROWS rows and a slice of the vocabulary at a time, in a cache. What a slice leaves behind
// is its maximum, its sum of exponentials and its n best; then the slices of a row are put together, in their order.

enum { TRF__TOP_ROWS = 64, TRF__TOP_COLUMNS = 1024, TRF__TOP_FEW = 32 };

typedef struct trf__top_job {
    const trf__top *t;
    int64_t slices, rows, columns;      /* rows, columns: of the logits that exist */
    trf_real *z;                        /* (threads, rows, columns) */
    trf_real *sums;                     /* (rows, slices, 2) */
    trf_real *floor;                    /* (threads, rows) below it no token is among the n best, as a worker knows */
    trf_real *best;                     /* (rows, slices, n) logits, best first, and their ids; -1: no more */
    int32_t *ids;
    int blas;
} trf__top_job;

TRF__FN size_t trf__top_cut(void *room, const trf_device *device, int64_t rows, int64_t vocab, int64_t n,
                            trf__top_job *j)
{
    trf__cursor cursor = trf__cursor_at(room);
    j->slices = trf__ceil_div(vocab, TRF__TOP_COLUMNS);
    j->rows = trf__min64(rows, TRF__TOP_ROWS);
    j->columns = trf__min64(trf__round_up(vocab, 16), TRF__TOP_COLUMNS);
    j->z = trf__take_reals(&cursor, device->threads * j->rows, j->columns);
    j->sums = trf__take_reals(&cursor, rows, 2 * j->slices);
    j->floor = trf__take_reals(&cursor, device->threads, rows);
    j->best = trf__take_reals(&cursor, rows, j->slices * n);
    j->ids = (int32_t *)trf__take(&cursor, rows, trf__bytes(j->slices, trf__bytes(n, sizeof(int32_t))));
    return cursor.used;
}

TRF__FN size_t trf__cpu_top_room(const trf_device *device, int64_t rows, int64_t vocab, int64_t n)
{
    trf__top_job job;
    return trf__top_cut(NULL, device, rows, vocab, n, &job);
}

/* Puts a token into a sorted list of n, of which `found` are there; returns how many now. Among equals the earlier
   one stays in front. */
TRF__INLINE int64_t trf__top_insert(trf_real *best, int32_t *ids, int64_t n, int64_t found, trf_real value,
                                    int32_t id)
{
    int64_t i = found < n ? found : n - 1;
    if (found == n && !(value > best[i])) return found;
    for (; i > 0 && value > best[i - 1]; i--) { best[i] = best[i - 1]; ids[i] = ids[i - 1]; }
    best[i] = value;
    ids[i] = id;
    return found < n ? found + 1 : n;
}

/* The sum of exp(z - maximum). */
TRF__FN trf_real trf__exp_sum(const trf_real *z, int64_t n, trf_real maximum)
{
    trf__v16 sum = trf__set(0), m = trf__set(maximum);
    int64_t c;
    for (c = 0; c < n; c += 16) {
        trf__v16 e = trf__exp(trf__min(trf__sub(trf__load_n(z + c, n - c), m), trf__set(0)));
        sum = n - c < 16 ? trf__fma(e, trf__first(n - c), sum) : trf__add(sum, e);
    }
    return trf__sum(sum);
}

/* Row `row`, whose logits from id `column` on are z. What is below the floor is not even looked at, TRF__TOP_FEW at a
   time; the floor rises to the last of n that have been found. */
TRF__FN void trf__top_slice(const trf__top_job *j, int64_t row, trf_real *z, int64_t column, int64_t columns,
                            trf_real *floor)
{
    const trf__top *t = j->t;
    int64_t at = row * j->slices + column / TRF__TOP_COLUMNS, c, i, found = 0;
    int32_t only = t->only ? t->only[row] : TRF__ANY, without = only == TRF__NOT_EOS ? t->eos : -1;
    int32_t *ids = j->ids + at * t->n;
    trf_real *best = j->best + at * t->n, most[TRF__TOP_COLUMNS / TRF__TOP_FEW];
    if (without >= column && without < column + columns) z[without - column] = -(trf_real)FLT_MAX;
    for (c = 0; c < columns; c += TRF__TOP_FEW)
        most[c / TRF__TOP_FEW] = trf__most_of(z + c, trf__min64(columns - c, TRF__TOP_FEW));
    j->sums[2 * at] = trf__most_of(most, trf__ceil_div(columns, TRF__TOP_FEW));
    j->sums[2 * at + 1] = trf__exp_sum(z, columns, j->sums[2 * at]);
    for (i = 0; i < t->n; i++) ids[i] = -1;
    if (only >= column && only < column + columns) { ids[0] = only; best[0] = z[only - column]; }
    for (c = 0; only < 0 && c < columns; c += TRF__TOP_FEW) {
        if (most[c / TRF__TOP_FEW] < *floor) continue;
        for (i = c; i < trf__min64(columns, c + TRF__TOP_FEW); i++) {
            int32_t id = (int32_t)(column + i);
            if (z[i] < *floor) continue;
            if (id != t->banned[0] && id != t->banned[1] && id != t->banned[2] && id != without &&
                z[i] > -(trf_real)HUGE_VAL)
                found = trf__top_insert(best, ids, t->n, found, z[i], id);
        }
        if (found == t->n && best[t->n - 1] > *floor) *floor = best[t->n - 1];
    }
}

/* Tiles of one slice follow each other: they read the same weights. */
TRF__FN void trf__top_slice_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__top_job *j = (const trf__top_job *)job;
    const trf__top *t = j->t;
    int64_t blocks = trf__ceil_div(t->rows, j->rows), row = tile % blocks * j->rows, r;
    int64_t column = tile / blocks * TRF__TOP_COLUMNS, columns = trf__min64(TRF__TOP_COLUMNS, t->vocab - column);
    trf_real *z = j->z + worker * j->rows * j->columns;
    trf__mat w = trf__mat_from(t->w, column, t->d);
    trf__product p = trf__product_of(z, j->columns, trf__min64(j->rows, t->rows - row), columns, t->d,
                                     trf__view_of(trf__from(t->x) + row * t->d, t->d, 1),
                                     trf__view_of(w.plain, 1, t->d), 0);
    p.bias = t->bias ? t->bias + column : NULL;
    trf__multiply(run, worker, j->blas, (const trf_real *)w.copy, p);
    for (r = 0; r < p.m; r++)
        trf__top_slice(j, row + r, z + r * j->columns, column, columns, &j->floor[worker * t->rows + row + r]);
}

/* A row's slices together: the logarithm of the sum of all exponentials, and the best of the best. */
TRF__FN void trf__top_tile(const trf__run *run, const void *job, int64_t row, int worker)
{
    const trf__top_job *j = (const trf__top_job *)job;
    const trf__top *t = j->t;
    const trf_real *sums = j->sums + row * j->slices * 2;
    trf_real *best = j->best + row * j->slices * t->n;
    int32_t *ids = j->ids + row * j->slices * t->n;
    double *to = t->log_probabilities + row * t->n, sum = 0, lse;
    trf_real most = sums[0], e[TRF__WIDE];
    int64_t i, k, s, found = 0;
    (void)run; (void)worker;
    for (s = 1; s < j->slices; s++) if (most < sums[2 * s]) most = sums[2 * s];
    for (s = 0; s < j->slices; s++) {
        trf__store(e, trf__exp(trf__set(sums[2 * s] - most)));
        sum += (double)e[0] * (double)sums[2 * s + 1];      /* exact in double: no fma makes another of it */
    }
    lse = (double)most + trf__ln(sum);
    /* the first slice's list is the one that the others' tokens go into */
    while (found < t->n && ids[found] >= 0) found++;
    for (k = t->n; k < j->slices * t->n; k++)
        if (ids[k] >= 0) found = trf__top_insert(best, ids, t->n, found, best[k], ids[k]);
    for (i = 0; i < t->n; i++) {
        t->ids[row * t->n + i] = i < found ? ids[i] : -1;
        to[i] = i < found ? (double)best[i] - lse : -HUGE_VAL;
    }
}

TRF__FN void trf__cpu_top(const trf__run *run, const trf__top *t)
{
    trf__top_job job;
    int64_t i;
    trf__top_cut(t->room, &run->device, t->rows, t->vocab, t->n, &job);
    job.t = t;
    for (i = 0; i < run->device.threads * t->rows; i++) job.floor[i] = -(trf_real)HUGE_VAL;
    job.blas = trf__use_blas(run, t->rows) && !(t->w.copy && t->rows <= TRF__PACKED_ROWS);
    if (t->rows == 0) return;
    trf__product_tiles(run, job.blas, trf__ceil_div(t->rows, job.rows) * job.slices, trf__top_slice_tile, &job);
    trf__tiles(run, t->rows, trf__top_tile, &job);
}

// >>ancestors

TRF__FN void trf__cpu_ancestors(const trf__run *run, const trf__ancestors *j)
{
    int64_t r;
    (void)run;
    for (r = 0; r < j->rows; r++) {
        int32_t *to = j->to + r * j->stride, at = j->position[r];
        if (at > 0) memcpy(to, j->from + j->parents[r] * j->stride, (size_t)at * sizeof *to);
        to[at] = j->slots[r];
    }
}

/* In an area keys are turned, as attention multiplies by them, and values follow: (width / 2, area), then
   (area, width / 2). */
TRF__FN void trf__cpu_remember(const trf__run *run, const trf__remember *j)
{
    int64_t r, c, half = j->width / 2;
    (void)run;
    for (r = 0; r < j->rows; r++) {
        const trf_real *from = trf__from(j->fresh) + r * j->width;
        int64_t slot = j->slots[r], i = j->area ? slot % j->area : 0;
        trf_real *to;
        if (slot < 0) continue;
        to = trf__to(j->cache) + (slot - i) * j->width;
        if (!j->area) { memcpy(to, from, (size_t)j->width * sizeof *to); continue; }
        for (c = 0; c < half; c++) to[c * j->area + i] = from[c];
        memcpy(to + half * (j->area + i), from + half, (size_t)half * sizeof *to);
    }
}

// >>advance

TRF__FN void trf__cpu_advance(const trf__run *run, const trf__advance *a)
{
    trf__progress now = trf__advance_from(a);
    int32_t k = now.n_live, end = a->progress->n_live + a->begin;
    int64_t r;
    (void)run;
    for (; k < end; k++) {
        int32_t before = a->begin ? 0 : a->starts[k], place = trf__advance_sentence(a, k);
        const trf__beam *beam = &a->beams[place];
        if (beam->live == 0) continue;
        now.wanted = (int32_t)trf__max64(now.wanted, trf__beam_wanted(beam).count);
        trf__advance_rows(a, place, now.n_live++, now.rows, before, now.at);
        now.rows += beam->live;
    }
    for (r = now.rows; r < a->rows; r++) trf__advance_nobody(a, r);
    for (r = now.n_live; r < a->n_cross; r++) a->cross[r].n_query = 0;
    *a->progress = now;
}

// >>state          threads, the way to CBLAS, and scratch

TRF__FN trf_status trf__cpu_probe(const trf_device *device, trf_error *err)
{
#if defined(TRF_NO_CBLAS)
    if (device->products == TRF_PRODUCTS_CBLAS)
        return trf__fail(err, TRF_E_BACKEND, -1, "device.products",
                         "this program was built without CBLAS (TRF_NO_CBLAS, or no <cblas.h>): "
                         "TRF_PRODUCTS_AUTO or TRF_PRODUCTS_BUILT_IN");
#endif
    if (device->precision == TRF_PRECISION_FLOAT32) return TRF_OK;
    return trf__fail(err, TRF_E_BACKEND, -1, "device.precision",
                     "the CPU does not compute with 16 bits: TRF_PRECISION_BF16 is for CUDA");
}

TRF__FN size_t trf__room_bytes(int64_t weight)
{
    return trf__bytes(trf__round_up(trf__min64(weight, TRF__ROOM), 16), sizeof(trf_real));
}

TRF__FN size_t trf__cpu_state_bytes(const trf__run *run, int64_t longest, int64_t d_head, int64_t weight)
{
    int threads = run->device.threads;
    size_t scratch = trf__bytes(threads, trf__scratch_bytes(longest, d_head));
    return trf__add_size(sizeof(trf__cpu) + run->process->bytes(threads),
                         trf__add_size(trf__room_bytes(weight), scratch));
}

/* Of the room and the scratch together. */
TRF__FN size_t trf__cpu_bytes(const trf__cpu *cpu, size_t scratch_each, size_t room)
{
    return trf__add_size(room, trf__bytes(cpu->threads, scratch_each));
}

TRF__FN void trf__cpu_close(trf__run *run)
{
    trf__cpu *cpu = trf__cpu_of(run);
    if (!cpu) return;
    run->process->close(cpu, &run->hooks);
    trf__free(&run->hooks, cpu->room, trf__cpu_bytes(cpu, cpu->scratch_each, cpu->room_bytes));
    trf__free(&run->hooks, cpu, sizeof *cpu);
    run->state = NULL;
}

TRF__FN trf_status trf__cpu_reserve(trf__run *run, int64_t longest, int64_t d_head, int64_t weight, trf_error *err)
{
    trf__cpu *cpu = trf__cpu_of(run);
    size_t each = trf__scratch_bytes(longest, d_head), room = trf__room_bytes(weight);
    void *memory;
    if (each < cpu->scratch_each) each = cpu->scratch_each;
    if (room < cpu->room_bytes) room = cpu->room_bytes;
    if (each == cpu->scratch_each && room == cpu->room_bytes) return TRF_OK;
    memory = trf__alloc(&run->hooks, trf__cpu_bytes(cpu, each, room));
    if (!memory)
        return trf__fail(err, TRF_E_NOMEM, -1, "scratch", "no memory for %llu bytes of scratch",
                         (unsigned long long)trf__cpu_bytes(cpu, each, room));
    trf__free(&run->hooks, cpu->room, trf__cpu_bytes(cpu, cpu->scratch_each, cpu->room_bytes));
    cpu->room = (trf_real *)memory;
    cpu->scratch = (char *)memory + room;
    cpu->scratch_each = each;
    cpu->room_bytes = room;
    return TRF_OK;
}

TRF__FN trf_status trf__cpu_open(trf__run *run, trf_error *err)
{
    trf__cpu *cpu = (trf__cpu *)trf__alloc_zeroed(&run->hooks, sizeof *cpu);
    trf_status status;
    if (!cpu) return trf__fail(err, TRF_E_NOMEM, -1, "backend", "no memory for the state of the CPU");
    run->state = cpu;
    cpu->threads = run->device.threads;
    cpu->blas = !trf__cpu_prefers_own(&run->device);
    status = run->process->open(cpu, &run->hooks, err);
    if (status != TRF_OK) trf__cpu_close(run);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>cuda           the backend for NVIDIA's GPUs: launches, products by cuBLASLt, the ops in the CPU's order
//
// Compiled by nvcc alone: as a column of its own (`#define TRF_COLUMN cuda`, the program then has -DTRF_WITH_CUDA) or
// with everything in one file (-DTRF_CUDA). The mathematics stands above the op's twin in >>cpu; here stands who
// computes what. Block b of threads takes tile b, then every gridDim-th one.
// Sums have a fixed order and nothing is added by atomics, so the same card and libraries give the same bits.
//
// All that is asked of a device, by whichever run, goes into its default stream: it happens in the order of asking.
// Only while a list of ops is recorded they go elsewhere; the graph made of them is then asked for as one.
// -----------------------------------------------------------------------------------------------
#if TRF__CUDA
#if defined(TRF_DOUBLE)
#error "the CUDA backend computes in float: build it without TRF_DOUBLE"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "the CUDA backend needs a GPU of sm_80 or later: nvcc -arch=sm_80"
#endif

#if defined(TRF__GPU_ON_CPU)            /* tests run the kernels on the CPU */
#include TRF__GPU_ON_CPU
#else
#include <cublasLt.h>
#include <cuda_runtime.h>
#define TRF__SHARED(type, name, n) __shared__ __align__(16) type name[n]
#endif
#define TRF__DEVICE static __device__ __forceinline__
#define TRF__KERNEL static __global__

// >>launches       the device's state, its first error, and the one place that starts kernels

/* An algorithm that cuBLASLt chose, and for which products: of this shape, whose pointers and distances are all
   multiples of `aligned` bytes. m 0: none. */
typedef struct trf__lt_key {
    int64_t m, n, k, lda, ldb, ldd, turn_a, turn_b, narrow, narrow_d, bias, aligned;
} trf__lt_key;
typedef struct trf__plan { trf__lt_key key; cublasLtMatmulAlgo_t algo; } trf__plan;

/* Uploads wait here until the device has read them. */
typedef struct trf__staging { void *memory; size_t bytes; cudaEvent_t read; } trf__staging;

/* A list of ops that has been asked for: once, or so often that it is recorded. */
typedef struct trf__recorded {
    trf__shape shape;
    int64_t used;               /* when it was asked for last; 0: never */
    cudaGraphExec_t graph;      /* NULL: not recorded */
} trf__recorded;

enum { TRF__CUDA_LISTS = 16, TRF__CUDA_SHORT = 8192, TRF__CUDA_PLANS = 1024, TRF__CUDA_STAGES = 4,
       TRF__CUDA_WORKSPACE = 32 << 20, TRF__CUDA_SUMS = 1 << 20, TRF__CUDA_BLOCKS = 1 << 20 };

typedef struct trf__cuda {
    cublasLtHandle_t lt;
    cublasLtMatmulPreference_t preference;
    void *workspace;            /* of products */
    float *sums;                /* TRF__CUDA_SUMS partial sums of columns */
    trf__staging stages[TRF__CUDA_STAGES];
    int stage;                  /* the next one */
    cudaStream_t recorder;      /* where ops go while they are recorded */
    trf__recorded lists[TRF__CUDA_LISTS], *recording;   /* recording: one of the lists, or NULL */
    int64_t lists_asked;
    int cannot_record;
    int failed;                 /* 1: nothing is asked for any more, */
    char said[160];             /* because of this */
    trf__plan plans[TRF__CUDA_PLANS];
} trf__cuda;

TRF__INLINE trf__cuda *trf__cuda_of(const trf__run *run) { return (trf__cuda *)run->state; }

/* The first error of runs without a state, which a thread asks for, and forgets, by `sync`. */
static thread_local char trf__cuda_said[160];

/* Remembers the first thing that went wrong. */
TRF__FN void trf__cuda_fails(const trf__run *run, const char *what, const char *why)
{
    trf__cuda *cuda = trf__cuda_of(run);
    char *said = cuda ? cuda->said : trf__cuda_said;
    if (!said[0]) snprintf(said, sizeof trf__cuda_said, "%s: %s", what, why);
    if (cuda) cuda->failed = 1;
}

TRF__FN int trf__cuda_did(const trf__run *run, const char *what, cudaError_t e)
{
    if (e != cudaSuccess) trf__cuda_fails(run, what, cudaGetErrorString(e));
    return e == cudaSuccess;
}

/* Where things are asked for. */
TRF__FN cudaStream_t trf__cuda_stream(const trf__run *run)
{
    return run->state && trf__cuda_of(run)->recording ? trf__cuda_of(run)->recorder : cudaStreamLegacy;
}

TRF__FN int trf__cuda_works(const trf__run *run) { return !run->state || !trf__cuda_of(run)->failed; }

/* While one of these lives the run's device is the calling thread's; then the one it had before is again. */
struct trf__on_device {
    int before, now;
    explicit trf__on_device(int index) : before(index), now(index)
    {
        if (cudaGetDevice(&before) != cudaSuccess) before = index;
        if (before != now && cudaSetDevice(now) != cudaSuccess) now = before;
    }
    ~trf__on_device() { if (before != now) (void)cudaSetDevice(before); }
};

/* A parameter of this type says nothing about T: the kernel alone does, and arguments are converted to that. */
template <class T> struct trf__exactly { typedef T type; };

enum { TRF__CUDA_THREADS = 256, TRF__CUDA_WARPS = TRF__CUDA_THREADS / 32,
       TRF__MMA_ROWS = 64, TRF__MMA_THREADS = 2 * TRF__MMA_ROWS };

/* Starts kernel(arguments...) for so many tiles, with one block for each as far as a grid goes. */
template <int THREADS = TRF__CUDA_THREADS, class... P>
TRF__FN void trf__launch(const trf__run *run, const char *what, int64_t tiles, void (*kernel)(P...),
                         typename trf__exactly<P>::type... arguments)
{
    void *list[] = { (void *)&arguments... };
    trf__on_device here(run->device.index);
    dim3 grid((unsigned)trf__min64(tiles, TRF__CUDA_BLOCKS)), block(THREADS);
    if (tiles < 1 || !trf__cuda_works(run)) return;
    trf__cuda_did(run, what, cudaLaunchKernel(kernel, grid, block, list, 0, trf__cuda_stream(run)));
}

/* How many tiles n things are, a thread each. */
TRF__FN int64_t trf__tiles_of(int64_t n) { return trf__ceil_div(n, TRF__CUDA_THREADS); }

/* Every lane gets what `both` makes of all lanes of its warp, or of 2 LAST neighbours. */
template <int LAST = 16, class T, class Both> TRF__DEVICE T trf__of_warp(T x, Both both)
{
    for (int distance = LAST; distance > 0; distance /= 2) x = both(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
    return x;
}

/* The same of a block of TRF__CUDA_THREADS. room: of that many warps. */
template <class T, class Both> TRF__DEVICE T trf__of_block(T x, T *room, Both both)
{
    x = trf__of_warp(x, both);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[0];
    for (int w = 1; w < TRF__CUDA_WARPS; w++) x = both(x, room[w]);
    __syncthreads();                    /* the room may be used again */
    return x;
}

struct trf__plus { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct trf__larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
    __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};
template <class T> TRF__DEVICE T trf__warp_sum(T x) { return trf__of_warp(x, trf__plus()); }
template <class T> TRF__DEVICE T trf__block_sum(T x, T *room) { return trf__of_block(x, room, trf__plus()); }
TRF__DEVICE float trf__warp_max(float x) { return trf__of_warp(x, trf__larger()); }
template <class T> TRF__DEVICE T trf__block_max(T x, T *room) { return trf__of_block(x, room, trf__larger()); }

/* thing(i) for i < n: a thread an i, then every one a grid further. */
template <class Do> TRF__DEVICE void trf__each(int64_t n, Do thing)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += (int64_t)gridDim.x * blockDim.x) thing(i);
}

/* The upper half of a float, rounded to nearest, ties to even. */
typedef struct trf__bf16 { uint16_t bits; } trf__bf16;

TRF__DEVICE uint32_t trf__float_bits(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
TRF__DEVICE float trf__wide(float x) { return x; }
TRF__DEVICE float trf__float_of(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }
TRF__DEVICE float trf__wide(trf__bf16 b) { return trf__float_of((uint32_t)b.bits << 16); }
TRF__DEVICE void trf__narrow(float *to, float x) { *to = x; }
TRF__DEVICE void trf__narrow(trf__bf16 *to, float x)
{
    uint32_t u = trf__float_bits(x);
    to->bits = (uint16_t)(x != x ? 0x7FC0 : (u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

/* An activation's numbers. Kernels are templates of A, their type, which TRF__OF_ACT chooses. */
template <class A> TRF__DEVICE float trf__get(const trf__act *a, int64_t i)
{
    return trf__wide(((const A *)(const void *)a)[i]);
}
template <class A> TRF__DEVICE void trf__put(trf__act *a, int64_t i, float x)
{
    trf__narrow((A *)(void *)a + i, x);
}
#define TRF__OF_ACT(run, kernel) ((run)->element == sizeof(float) ? kernel<float> : kernel<trf__bf16>)

// >>products       cuBLASLt, which counts columns first: our row-major (rows, columns) is its (columns, rows)
//
// Float products are pedantic, not TF32; all sums are in float, and split ones are added in one order.

/* D (m, n) = A B [+ bias of m] [+ D], where A is (m, k), or lies as (k, m) if turned, and B (k, n), or as (n, k).
   narrow: A and B are bf16; narrow_d: D and the bias are. */
typedef struct trf__lt {
    void *d;
    const void *a, *b, *bias;
    int64_t m, n, k, lda, ldb, ldd;
    int turn_a, turn_b, narrow, narrow_d, add;
} trf__lt;

/* No k: only what is added. */
template <class D> TRF__KERNEL void trf__gpu_no_product(trf__lt p)
{
    trf__each(p.m * p.n, [&](int64_t i) {
        D *d = (D *)p.d + i / p.m * p.ldd + i % p.m;
        trf__narrow(d, (p.add ? trf__wide(*d) : 0) + (p.bias ? trf__wide(((const D *)p.bias)[i % p.m]) : 0));
    });
}

/* aligned: the largest power of two up to 16 that divides all. */
TRF__FN trf__lt_key trf__lt_key_of(const trf__lt *p)
{
    uint64_t bits = (uint64_t)(uintptr_t)p->a | (uint64_t)(uintptr_t)p->b | (uint64_t)(uintptr_t)p->d
                  | (uint64_t)(uintptr_t)p->bias | (uint64_t)(p->lda | p->ldb) * (p->narrow ? 2 : 4)
                  | (uint64_t)p->ldd * (p->narrow_d ? 2 : 4) | 16;
    trf__lt_key key = { p->m, p->n, p->k, p->lda, p->ldb, p->ldd, p->turn_a, p->turn_b, p->narrow, p->narrow_d,
                        p->bias != NULL, (int64_t)(bits & (~bits + 1)) };
    return key;
}

/* The plan's place: where it is, or the empty one where it belongs. With 64 taken ones in a row all are emptied. */
TRF__FN trf__plan *trf__plan_of(trf__cuda *cuda, const trf__lt_key *key)
{
    const int64_t *numbers = &key->m;
    uint64_t hash = 0xCBF29CE484222325u;
    size_t i;
    for (i = 0; i < sizeof *key / sizeof *numbers; i++) hash = (hash ^ (uint64_t)numbers[i]) * 0x100000001B3u;
    for (i = 0; i < 64; i++) {
        trf__plan *plan = &cuda->plans[((hash ^ hash >> 32) + i) & (TRF__CUDA_PLANS - 1)];
        if (plan->key.m == 0 || memcmp(&plan->key, key, sizeof *key) == 0) return plan;
    }
    memset(cuda->plans, 0, sizeof cuda->plans);
    return &cuda->plans[(hash ^ hash >> 32) & (TRF__CUDA_PLANS - 1)];
}

/* What cuBLASLt wants to know of a product. On the stack: making it costs nothing. */
typedef struct trf__lt_words {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, d;
} trf__lt_words;

TRF__FN cublasStatus_t trf__lt_describe(const trf__lt *p, trf__lt_words *w)
{
    cublasOperation_t a = p->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, b = p->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t end = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t in = p->narrow ? CUDA_R_16BF : CUDA_R_32F, out = p->narrow_d ? CUDA_R_16BF : CUDA_R_32F;
    cublasStatus_t s = cublasLtMatmulDescInit(&w->product, p->narrow ? CUBLAS_COMPUTE_32F
                                                                     : CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F);
#define TRF__LT_SET(name, value) \
    if (!s) s = cublasLtMatmulDescSetAttribute(&w->product, CUBLASLT_MATMUL_DESC_##name, &(value), sizeof(value))
    TRF__LT_SET(TRANSA, a);
    TRF__LT_SET(TRANSB, b);
    TRF__LT_SET(EPILOGUE, end);
    if (p->bias) TRF__LT_SET(BIAS_POINTER, p->bias);
#undef TRF__LT_SET
    if (!s) s = cublasLtMatrixLayoutInit(&w->a, in, (uint64_t)(p->turn_a ? p->k : p->m),
                                         (uint64_t)(p->turn_a ? p->m : p->k), p->lda);
    if (!s) s = cublasLtMatrixLayoutInit(&w->b, in, (uint64_t)(p->turn_b ? p->n : p->k),
                                         (uint64_t)(p->turn_b ? p->k : p->n), p->ldb);
    if (!s) s = cublasLtMatrixLayoutInit(&w->d, out, (uint64_t)p->m, (uint64_t)p->n, p->ldd);
    return s;
}

/* Fills an empty plan. */
TRF__FN cublasStatus_t trf__lt_choose(trf__cuda *cuda, trf__plan *plan, const trf__lt_key *key, trf__lt_words *w)
{
    cublasLtMatmulHeuristicResult_t found;
    uint32_t bytes = (uint32_t)key->aligned;
    static const cublasLtMatmulPreferenceAttributes_t aligned[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
    int n = 0, i;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    for (i = 0; i < 4 && !s; i++)
        s = cublasLtMatmulPreferenceSetAttribute(cuda->preference, aligned[i], &bytes, sizeof bytes);
    if (!s) s = cublasLtMatmulAlgoGetHeuristic(cuda->lt, &w->product, &w->a, &w->b, &w->d, &w->d, cuda->preference, 1,
                                               &found, &n);
    if (!s) s = n > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
    if (!s) { plan->algo = found.algo; plan->key = *key; }
    return s;
}

TRF__FN void trf__cuda_product(const trf__run *run, const char *what, const trf__lt *p)
{
    trf__cuda *cuda = trf__cuda_of(run);
    float one = 1, more = p->add ? 1.0f : 0.0f;
    trf__lt_key key = trf__lt_key_of(p);
    trf__on_device here(run->device.index);
    trf__plan *plan;
    trf__lt_words w;
    cublasStatus_t s;
    if (p->m == 0 || p->n == 0 || cuda->failed) return;
    if (p->k == 0) {
        trf__launch(run, what, trf__tiles_of(p->m * p->n),
                    p->narrow_d ? trf__gpu_no_product<trf__bf16> : trf__gpu_no_product<float>, *p);
        return;
    }
    plan = trf__plan_of(cuda, &key);
    s = trf__lt_describe(p, &w);
    if (!s && plan->key.m == 0) s = trf__lt_choose(cuda, plan, &key, &w);
    if (!s) s = cublasLtMatmul(cuda->lt, &w.product, &one, p->a, &w.a, p->b, &w.b, &more, p->d, &w.d, p->d, &w.d,
                               &plan->algo, cuda->workspace, TRF__CUDA_WORKSPACE, trf__cuda_stream(run));
    if (s) trf__cuda_fails(run, what, cublasLtGetStatusString(s));
}

// >>cuda-verbs     memory

TRF__FN void *trf__cuda_alloc(const trf__run *run, size_t bytes)
{
    trf__on_device here(run->device.index);
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes ? bytes : 1) == cudaSuccess) return memory;
    (void)cudaGetLastError();           /* not being able to is no fault of the device */
    return NULL;
}

TRF__FN void trf__cuda_free(const trf__run *run, void *memory, size_t bytes)
{
    trf__on_device here(run->device.index);
    cudaError_t e = memory ? cudaFree(memory) : cudaSuccess;
    (void)bytes;
    if (run->state) trf__cuda_did(run, "free", e);
    else if (e != cudaSuccess) (void)cudaGetLastError();        /* of an object that is gone: nobody asks for it */
}

TRF__FN void trf__cuda_zero(const trf__run *run, void *memory, size_t bytes)
{
    trf__on_device here(run->device.index);
    if (bytes > 0 && trf__cuda_works(run))
        trf__cuda_did(run, "zero", cudaMemsetAsync(memory, 0, bytes, trf__cuda_stream(run)));
}

TRF__FN void trf__cuda_move(const trf__run *run, const char *what, void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind)
{
    trf__on_device here(run->device.index);
    if (bytes > 0 && trf__cuda_works(run))
        trf__cuda_did(run, what, cudaMemcpyAsync(to, from, bytes, kind, trf__cuda_stream(run)));
}

TRF__FN void trf__cuda_copy(const trf__run *run, void *to, const void *from, size_t bytes)
{
    trf__cuda_move(run, "copy", to, from, bytes, cudaMemcpyDeviceToDevice);
}

TRF__FN void trf__cuda_download(const trf__run *run, void *to, const void *from, size_t bytes)
{
    trf__cuda_move(run, "download", to, from, bytes, cudaMemcpyDeviceToHost);
}

template <class To, class From> TRF__KERNEL void trf__gpu_convert(To *to, const From *from, int64_t n)
{
    trf__each(n, [&](int64_t i) { trf__narrow(&to[i], trf__wide(from[i])); });
}

/* 16 bits become floats in the workspace, piece by piece. */
TRF__FN void trf__cuda_fetch(const trf__run *run, trf_real *to, const trf__act *from, int64_t n)
{
    enum { PIECE = TRF__CUDA_WORKSPACE / sizeof(float) };
    float *wide = (float *)trf__cuda_of(run)->workspace;
    int64_t at;
    if (run->element == sizeof *to) { trf__cuda_download(run, to, from, (size_t)n * sizeof *to); return; }
    for (at = 0; at < n; at += PIECE) {
        int64_t m = trf__min64(PIECE, n - at);
        trf__launch(run, "fetch", trf__tiles_of(m), trf__gpu_convert<float, trf__bf16>, wide,
                    (const trf__bf16 *)(const void *)from + at, m);
        trf__cuda_download(run, to + at, wide, (size_t)m * sizeof *to);
    }
}

/* The next stage, with so much room and read by the device, or NULL. */
TRF__FN trf__staging *trf__cuda_stage(const trf__run *run, size_t bytes)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__staging *stage = &cuda->stages[cuda->stage];
    if (cudaEventSynchronize(stage->read) != cudaSuccess) return NULL;
    if (bytes > stage->bytes) {
        (void)cudaFreeHost(stage->memory);
        stage->memory = NULL;
        stage->bytes = 0;
        if (cudaMallocHost(&stage->memory, bytes) != cudaSuccess) { (void)cudaGetLastError(); return NULL; }
        stage->bytes = bytes;
    }
    cuda->stage = (cuda->stage + 1) % TRF__CUDA_STAGES;
    return stage;
}

/* Through memory that the device reads by itself, so that nobody waits before the fifth; without it the call does. */
TRF__FN void trf__cuda_upload(const trf__run *run, void *to, const void *from, size_t bytes)
{
    trf__on_device here(run->device.index);
    trf__staging *stage = NULL;
    if (bytes == 0 || !trf__cuda_works(run)) return;
    if (run->state && bytes <= TRF__CUDA_WORKSPACE) stage = trf__cuda_stage(run, bytes);
    if (stage) from = memcpy(stage->memory, from, bytes);
    trf__cuda_move(run, "upload", to, from, bytes, cudaMemcpyHostToDevice);
    if (stage) trf__cuda_did(run, "upload", cudaEventRecord(stage->read, cudaStreamLegacy));
    else trf__cuda_did(run, "upload", cudaStreamSynchronize(cudaStreamLegacy));
}

TRF__FN trf_status trf__cuda_sync(const trf__run *run, trf_error *err)
{
    trf__on_device here(run->device.index);
    trf__cuda *cuda = trf__cuda_of(run);
    char said[sizeof trf__cuda_said];
    if (trf__cuda_works(run)) trf__cuda_did(run, "sync", cudaStreamSynchronize(cudaStreamLegacy));
    memcpy(said, cuda ? cuda->said : trf__cuda_said, sizeof said);
    if (!cuda) trf__cuda_said[0] = 0;
    return said[0] ? trf__fail(err, TRF_E_BACKEND, -1, "CUDA", "CUDA, %s", said) : TRF_OK;
}

TRF__FN void *trf__cuda_stream_of(const trf__run *run) { (void)run; return (void *)cudaStreamLegacy; }

/* A multiple of an eighth of the power of two above, so that few shapes are left. Long lists are not worth it: their
   asking hides behind the work. */
TRF__FN int64_t trf__cuda_fill(const trf__run *, int64_t n)
{
    int64_t power = 8;
    while (power < n) power *= 2;
    return n > TRF__CUDA_SHORT ? n : trf__round_up(n, power / 8);
}

/* The list of this shape, or the one that has waited longest, emptied. */
TRF__FN trf__recorded *trf__cuda_list(trf__cuda *cuda, const trf__shape *shape)
{
    trf__recorded *list = cuda->lists;
    int i;
    for (i = 0; i < TRF__CUDA_LISTS; i++) {
        trf__recorded *other = &cuda->lists[i];
        if (other->used && memcmp(&other->shape, shape, sizeof *shape) == 0) return other;
        if (other->used < list->used) list = other;
    }
    if (list->graph) (void)cudaGraphExecDestroy(list->graph);
    TRF__ZERO(*list);
    list->shape = *shape;
    return list;
}

/* No more is tried: op by op it works too. */
TRF__FN void trf__cuda_cannot_record(trf__cuda *cuda)
{
    (void)cudaGetLastError();
    cuda->cannot_record = 1;
}

/* A list is asked for plainly once, which chooses algorithms and loads kernels; the second time it is recorded. */
TRF__FN int trf__cuda_replay(const trf__run *run, const trf__shape *shape)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__on_device here(run->device.index);
    trf__recorded *list;
    int before;
    if (cuda->failed || cuda->cannot_record) return 0;
    list = trf__cuda_list(cuda, shape);
    before = list->used > 0;
    list->used = ++cuda->lists_asked;
    if (list->graph) { trf__cuda_did(run, "replay", cudaGraphLaunch(list->graph, cudaStreamLegacy)); return 1; }
    if (!before) return 0;
    if (cudaStreamBeginCapture(cuda->recorder, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        trf__cuda_cannot_record(cuda);
    else cuda->recording = list;
    return 0;
}

/* What has been recorded has not happened yet: it is played for the first time. */
TRF__FN int trf__cuda_asked(const trf__run *run, int whole)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__on_device here(run->device.index);
    trf__recorded *list = cuda->recording;
    cudaGraph_t graph = NULL;
    cudaError_t e;
    if (!list) return 1;
    cuda->recording = NULL;
    e = cudaStreamEndCapture(cuda->recorder, &graph);
    if (whole && e == cudaSuccess && !cuda->failed) e = cudaGraphInstantiateWithFlags(&list->graph, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    if (!whole || cuda->failed) return 1;
    if (e == cudaSuccess) { trf__cuda_did(run, "replay", cudaGraphLaunch(list->graph, cudaStreamLegacy)); return 1; }
    list->graph = NULL;
    trf__cuda_cannot_record(cuda);
    return 0;
}

TRF__FN size_t trf__cuda_element(const trf_device *device)
{
    return device->precision == TRF_PRECISION_BF16 ? sizeof(trf__bf16) : sizeof(float);
}

/* Copies are the weights in 16 bits. */
TRF__FN size_t trf__cuda_copy_bytes(const trf_device *device, int64_t n_weights, int)
{
    return device->precision == TRF_PRECISION_BF16 ? trf__bytes(n_weights, sizeof(trf__bf16)) : 0;
}

TRF__FN void trf__cuda_pack(const trf__run *run, const trf__pack *j)
{
    int64_t n = j->out * j->in;
    trf__launch(run, "pack", trf__tiles_of(n), trf__gpu_convert<trf__bf16, float>,
                (trf__bf16 *)j->copies + j->offset, j->weights + j->offset, n);
}

// >>cuda-dropout
//
// One Philox block is eight features of a row: lane, lane + 16 .. lane + 112 of a group of 128. So everything that
// may drop is cut into such units, and one thread does one: neighbours do neighbouring features.

enum { TRF__UNIT = 8 };

TRF__BOTH int64_t trf__units(int64_t width) { return (width + 127) / 128 * 16; }
TRF__DEVICE int64_t trf__feature(int64_t unit, int k) { return unit / 16 * 128 + k * 16 + unit % 16; }

/* What dropout makes of what it keeps; all is kept where `now` is NULL. */
TRF__DEVICE float trf__gpu_scale(const trf__now *now, const trf__drop *drop)
{
    return now && drop->threshold ? drop->scale : 1;
}

/* Which of the eight things of a Philox block are kept: a bit each. */
TRF__DEVICE uint32_t trf__gpu_kept_of(const trf__now *now, const trf__drop *drop, uint32_t c0, uint32_t c1,
                                      uint32_t c2)
{
    uint32_t counter[4] = { c0, c1, c2, now ? now->step : 0 }, words[4], kept = 0;
    if (!now || !drop->threshold) return 0xFF;
    trf__philox(counter, now->key0, now->key1 ^ drop->site * 0x9E3779B9u, words);
    for (int k = 0; k < 8; k++) kept |= (uint32_t)((words[k / 2] >> k % 2 * 16 & 0xFFFF) >= drop->threshold) << k;
    return kept;
}

/* The factors of a unit's eight features. */
TRF__DEVICE void trf__gpu_mask(float factor[TRF__UNIT], const trf__now *now, const trf__drop *drop,
                               const trf__rows *at, int64_t row, int64_t unit)
{
    uint32_t kept = trf__gpu_kept_of(now, drop, (uint32_t)unit, (uint32_t)(at->position ? at->position[row] : row),
                                     at->sentence ? (uint32_t)at->sentence[row] : 0);
    for (int k = 0; k < TRF__UNIT; k++) factor[k] = kept >> k & 1 ? trf__gpu_scale(now, drop) : 0;
}

/* feature(row, column, factor) for all of (rows, width): a thread a unit. */
template <class Do>
TRF__DEVICE void trf__each_feature(const trf__now *now, const trf__drop *drop, const trf__rows *at, int64_t rows,
                                   int64_t width, Do feature)
{
    int64_t units = trf__units(width);
    trf__each(rows * units, [&](int64_t u) {
        float factor[TRF__UNIT];
        trf__gpu_mask(factor, now, drop, at, u / units, u % units);
        for (int k = 0; k < TRF__UNIT && trf__feature(u % units, k) < width; k++)
            feature(u / units, trf__feature(u % units, k), factor[k]);
    });
}

TRF__FN int64_t trf__unit_tiles(int64_t rows, int64_t width) { return trf__tiles_of(rows * trf__units(width)); }

// >>cuda-embed

template <class A> TRF__KERNEL void trf__gpu_embed(trf__embed j, const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.d, [&](int64_t row, int64_t c, float factor) {
        float value = j.table ? j.table[(j.at.position ? j.at.position[row] : row) * j.d + c] : 0;
        if (j.ids[row] >= 0) value = fmaf(j.weight[j.ids[row] * j.d + c], j.scale, value);
        trf__put<A>(j.y, row * j.d + c, value * factor);
    });
}

TRF__FN void trf__cuda_embed(const trf__run *run, const trf__embed *j)
{
    trf__launch(run, "embed", trf__unit_tiles(j->rows, j->d), TRF__OF_ACT(run, trf__gpu_embed), *j, run->now);
}

#if !defined(TRF_NO_TRAIN)

/* dy = drop(dy), in place. */
template <class A> TRF__KERNEL void trf__gpu_embed_drop(trf__embed_gradient j, const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.d, [&](int64_t row, int64_t c, float factor) {
        trf__put<A>(j.dy, row * j.d + c, trf__get<A>(j.dy, row * j.d + c) * factor);
    });
}

/* A block a list of equal ids, a thread a column: its rows in order. */
template <class A> TRF__KERNEL void trf__gpu_embed_gradient(trf__embed_gradient j)
{
    for (int64_t k = blockIdx.x; k < j.groups.n; k += gridDim.x) {
        const int32_t *rows = j.groups.rows;
        float *dw;
        if (j.groups.first[k] == j.groups.first[k + 1]) break;
        dw = j.dweight + j.ids[rows[j.groups.first[k]]] * j.d;
        for (int64_t c = threadIdx.x; c < j.d; c += blockDim.x) {
            float sum = dw[c];
            for (int32_t i = j.groups.first[k]; i < j.groups.first[k + 1]; i++)
                sum = fmaf(trf__get<A>(j.dy, rows[i] * j.d + c), j.scale, sum);
            dw[c] = sum;
        }
    }
}

/* A block a position, a thread a column: the rows that stand there, in order. */
template <class A> TRF__KERNEL void trf__gpu_position_gradient(trf__embed_gradient j)
{
    for (int64_t p = blockIdx.x; p < j.positions; p += gridDim.x)
        for (int64_t c = threadIdx.x; c < j.d; c += blockDim.x) {
            float sum = j.first_table ? 0 : j.dtable[p * j.d + c];
            for (int64_t row = 0; row < j.rows; row++)
                if ((j.at.position ? j.at.position[row] : row) == p) sum += trf__get<A>(j.dy, row * j.d + c);
            j.dtable[p * j.d + c] = sum;
        }
}

TRF__FN void trf__cuda_embed_gradient(const trf__run *run, const trf__embed_gradient *j)
{
    if (j->first) trf__cuda_zero(run, j->dweight, trf__bytes(j->vocab, trf__bytes(j->d, sizeof(float))));
    if (run->now && j->drop.threshold)
        trf__launch(run, "embed_gradient", trf__unit_tiles(j->rows, j->d), TRF__OF_ACT(run, trf__gpu_embed_drop), *j,
                    run->now);
    trf__launch<128>(run, "embed_gradient", j->groups.n, TRF__OF_ACT(run, trf__gpu_embed_gradient), *j);
    if (j->dtable)
        trf__launch<128>(run, "embed_gradient", j->positions, TRF__OF_ACT(run, trf__gpu_position_gradient), *j);
}

#endif

// >>cuda-linear

/* Weights as products read them: the matrix from its row on, and what lies `further` numbers behind its beginning. */
TRF__FN const void *trf__weights_at(const trf__run *run, const trf__mat *w, int64_t further)
{
    if (run->element == sizeof(float)) return w->plain + further;
    return (const trf__bf16 *)w->copy + further;
}

/* y = x w^T + b, in floats where `wide`, else as activations are; a bias in 16 bits is among the copies. */
TRF__FN void trf__cuda_project(const trf__run *run, const char *what, const trf__linear *j, int wide)
{
    int narrow = run->element != sizeof(float);
    trf__lt p;
    TRF__ZERO(p);
    p.d = j->y; p.a = trf__weights_at(run, &j->w, j->w.row * j->in); p.b = j->x; p.bias = j->b;
    if (j->b && !wide) p.bias = trf__weights_at(run, &j->w, j->b - j->w.plain);
    p.m = j->out; p.n = j->rows; p.k = j->in; p.lda = p.ldb = j->in; p.ldd = j->out; p.turn_a = 1;
    p.narrow = narrow; p.narrow_d = narrow && !wide;
    trf__cuda_product(run, what, &p);
}

TRF__FN void trf__cuda_linear(const trf__run *run, const trf__linear *j) { trf__cuda_project(run, "linear", j, 0); }

#if !defined(TRF_NO_TRAIN)

TRF__FN void trf__cuda_linear_dx(const trf__run *run, const trf__linear_dx *j)
{
    trf__lt p;
    TRF__ZERO(p);
    p.d = j->dx; p.a = trf__weights_at(run, &j->w, j->w.row * j->in); p.b = j->dy;
    p.m = j->in; p.n = j->rows; p.k = j->out; p.lda = p.ldd = j->in; p.ldb = j->out; p.add = j->add;
    p.narrow = p.narrow_d = run->element != sizeof(float);
    trf__cuda_product(run, "linear_dx", &p);
}

/* Sums of columns in two stages: slices of rows, then the slices in order. */
typedef struct trf__column_sums_job {
    float *sums[2], *partial;           /* (columns) each; (slices, outputs, columns) */
    const trf__act *x;
    int64_t rows, columns, ld, slices;
    int outputs, first;
} trf__column_sums_job;

enum { TRF__SUM_COLUMNS = 32, TRF__SUM_ROWS = TRF__CUDA_THREADS / TRF__SUM_COLUMNS };

TRF__FN int64_t trf__sum_tiles(const trf__column_sums_job *j)
{
    return j->slices * trf__ceil_div(j->columns, TRF__SUM_COLUMNS);
}

/* As many slices as the room has for, of 64 rows at least. */
TRF__FN trf__column_sums_job trf__sums_job(const trf__run *run, int outputs, int64_t rows, int64_t columns, int first)
{
    trf__column_sums_job j;
    TRF__ZERO(j);
    j.partial = trf__cuda_of(run)->sums;
    j.rows = rows; j.columns = columns; j.ld = columns;
    j.slices = trf__min64(trf__min64(64, trf__ceil_div(rows, 64)), TRF__CUDA_SUMS / trf__max64(1, columns * outputs));
    j.outputs = outputs; j.first = first;
    return j;
}

/* each(row, column, sums) adds to the N sums of its column. A block has 32 columns of one slice, a warp every eighth
   row of it; what the warps have is added in their order. */
template <int N, class Each>
TRF__DEVICE void trf__sum_slices(const trf__column_sums_job *j, float *room, Each each)
{
    int64_t across = (j->columns + TRF__SUM_COLUMNS - 1) / TRF__SUM_COLUMNS;
    int64_t rows = (j->rows + j->slices - 1) / j->slices;
    for (int64_t tile = blockIdx.x; tile < across * j->slices; tile += gridDim.x) {
        int64_t slice = tile / across, c = tile % across * TRF__SUM_COLUMNS + threadIdx.x % TRF__SUM_COLUMNS;
        int64_t end = (slice + 1) * rows < j->rows ? (slice + 1) * rows : j->rows;
        float sums[N] = {};
        for (int64_t r = slice * rows + threadIdx.x / TRF__SUM_COLUMNS; c < j->columns && r < end; r += TRF__SUM_ROWS)
            each(r, c, sums);
        for (int n = 0; n < N; n++) {
            float sum = 0;
            room[threadIdx.x] = sums[n];
            __syncthreads();
            for (unsigned w = threadIdx.x % TRF__SUM_COLUMNS; w < TRF__CUDA_THREADS; w += TRF__SUM_COLUMNS)
                sum += room[w];
            if (threadIdx.x < TRF__SUM_COLUMNS && c < j->columns) j->partial[(slice * N + n) * j->columns + c] = sum;
            __syncthreads();
        }
    }
}

template <class A> TRF__KERNEL void trf__gpu_column_sums(trf__column_sums_job j)
{
    TRF__SHARED(float, room, TRF__CUDA_THREADS);
    trf__sum_slices<1>(&j, room, [&](int64_t r, int64_t c, float *sum) { *sum += trf__get<A>(j.x, r * j.ld + c); });
}

TRF__KERNEL void trf__gpu_add_slices(trf__column_sums_job j)
{
    trf__each(j.columns * j.outputs, [&](int64_t i) {
        int64_t output = i / j.columns, c = i % j.columns;
        float sum = j.first ? 0 : j.sums[output][c];
        for (int64_t s = 0; s < j.slices; s++) sum += j.partial[(s * j.outputs + output) * j.columns + c];
        j.sums[output][c] = sum;
    });
}

/* sum (=, +=) the columns of x: (rows, columns). Columns that are more than the room has are done in pieces. */
TRF__FN void trf__cuda_column_sums(const trf__run *run, const char *what, float *sum, const trf__act *x,
                                   int64_t rows, int64_t columns, int first)
{
    int64_t c;
    for (c = 0; c < columns; c += TRF__CUDA_SUMS) {
        trf__column_sums_job j = trf__sums_job(run, 1, rows, trf__min64(TRF__CUDA_SUMS, columns - c), first);
        j.sums[0] = sum + c;
        j.x = trf__act_at(run, (trf__act *)(uintptr_t)x, c); j.ld = columns;
        trf__launch(run, what, trf__sum_tiles(&j), TRF__OF_ACT(run, trf__gpu_column_sums), j);
        trf__launch(run, what, trf__tiles_of(j.columns * j.outputs), trf__gpu_add_slices, j);
    }
}

TRF__FN void trf__cuda_linear_dw(const trf__run *run, const trf__linear_dw *products, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        const trf__linear_dw *j = &products[i];
        trf__lt p;
        TRF__ZERO(p);
        p.d = j->dw; p.a = j->x; p.b = j->dy;
        p.m = j->in; p.n = j->out; p.k = j->rows; p.lda = p.ldd = j->in; p.ldb = j->out;
        p.turn_b = 1; p.narrow = run->element != sizeof(float); p.add = !j->first;
        trf__cuda_product(run, "linear_dw", &p);
        if (j->db) trf__cuda_column_sums(run, "linear_dw", j->db, j->dy, j->rows, j->out, j->first);
    }
}

#endif

// >>cuda-activate

TRF__DEVICE float trf__gpu_sigmoid(float h) { return 1 / (1 + expf(-h)); }
TRF__DEVICE float trf__gpu_normal(float h) { return fmaf(erff(h * 0.70710678118654752f), 0.5f, 0.5f); }

TRF__DEVICE float trf__gpu_act(int kind, float h)
{
    if (kind == TRF_RELU) return h < 0 ? 0 : h;         /* NaN stays one */
    return h * (kind == TRF_GELU ? trf__gpu_normal(h) : trf__gpu_sigmoid(h));
}

TRF__DEVICE float trf__gpu_slope(int kind, float h)
{
    float s;
    if (kind == TRF_RELU) return h > 0 ? 1.0f : 0.0f;
    if (kind == TRF_GELU) return fmaf(h, 0.39894228040143268f * expf(h * h * -0.5f), trf__gpu_normal(h));
    s = trf__gpu_sigmoid(h);
    return s * fmaf(h, 1 - s, 1.0f);
}

template <class A> TRF__KERNEL void trf__gpu_activate(trf__activate j, const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.width, [&](int64_t row, int64_t c, float factor) {
        int64_t at = row * j.width + c;
        trf__put<A>(j.a, at, trf__gpu_act(j.kind, trf__get<A>(j.h, at)) * factor);
    });
}

TRF__FN void trf__cuda_activate(const trf__run *run, const trf__activate *j)
{
    trf__launch(run, "activate", trf__unit_tiles(j->rows, j->width), TRF__OF_ACT(run, trf__gpu_activate), *j,
                run->now);
}

#if !defined(TRF_NO_TRAIN)

template <class A> TRF__KERNEL void trf__gpu_activate_gradient(trf__activate_gradient j, const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.width, [&](int64_t row, int64_t c, float factor) {
        int64_t at = row * j.width + c;
        trf__put<A>(j.dh, at, trf__get<A>(j.da, at) * trf__gpu_slope(j.kind, trf__get<A>(j.h, at)) * factor);
    });
}

TRF__FN void trf__cuda_activate_gradient(const trf__run *run, const trf__activate_gradient *j)
{
    trf__launch(run, "activate_gradient", trf__unit_tiles(j->rows, j->width),
                TRF__OF_ACT(run, trf__gpu_activate_gradient), *j, run->now);
}

#endif

// >>cuda-attention
//
// A tile is eight neighbouring rows of one head of one span, a warp each: queries, or in dk and dv keys. The block
// walks the other side 32 rows at a time, a lane each, which lie in shared memory 64 columns at a time; the largest
// thing that ever exists is (8, 32). Then a warp's lanes own columns of its result, 128 of them at a time: only
// heads that are wider make the products again.

enum { TRF__OTHERS = 32, TRF__COLUMNS = 64, TRF__PITCH = TRF__COLUMNS + 1, TRF__OWN = 4 };

/* One head of one span, and the rows of a tile: begin .. end - 1 of its `n` queries or keys. */
struct trf__gpu_head : trf__head { int begin, end, n; };

TRF__DEVICE trf__gpu_head trf__gpu_head_of(const trf__attention_in *in, int64_t tile, int64_t groups, int rows,
                                           int of_keys)
{
    trf__gpu_head h;
    (trf__head &)h = trf__head_of(in, tile / groups);
    h.n = of_keys ? h.span->n_key : h.span->n_query;
    h.begin = (int)(tile % groups) * rows;
    h.end = h.begin + rows < h.n ? h.begin + rows : h.n;
    return h;
}

/* How many keys query i sees, and how many the last one of the tile: 0 beyond the end. */
TRF__DEVICE int trf__gpu_seen(const trf__gpu_head *h, int64_t i) { return i < h->n ? (int)trf__keys_seen(h, i) : 0; }
TRF__DEVICE int trf__gpu_most(const trf__gpu_head *h)
{
    return h->begin < h->n ? (int)trf__keys_seen(h, h->end - 1) : 0;
}

/* Rows i .. i + 31, columns c .. c + 63 of this head of x, keys or queries, for the block; 0 beyond the ends. */
template <class A>
TRF__DEVICE void trf__gpu_tile(float *to, const trf__act *x, const trf__gpu_head *h, int64_t ld, int of_keys,
                               int64_t i, int64_t c)
{
    int64_t n = of_keys ? h->span->n_key : h->span->n_query;
    for (int e = (int)threadIdx.x; e < TRF__OTHERS * TRF__COLUMNS; e += TRF__CUDA_THREADS) {
        int64_t row = i + e / TRF__COLUMNS, column = c + e % TRF__COLUMNS;
        int there = row < n && column < h->in->d_head;
        if (there) row = of_keys ? trf__key_row(h, row) : h->span->query + row;
        to[e / TRF__COLUMNS * TRF__PITCH + e % TRF__COLUMNS] =
            there ? trf__get<A>(x, row * ld + h->first + column) : 0;
    }
}

/* sum += the dot product of a row of x, which begins at `at`, with this lane's row of the tile. */
template <class A>
TRF__DEVICE float trf__gpu_dot(float sum, const trf__act *x, int64_t at, const float *tile, int64_t columns)
{
    tile += threadIdx.x % 32 * TRF__PITCH;
    for (int c = 0; c < TRF__COLUMNS && c < columns; c++) sum = fmaf(trf__get<A>(x, at + c), tile[c], sum);
    return sum;
}

/* Which of eight keys, from 8 * eight on, one query keeps: a bit each. */
TRF__DEVICE uint32_t trf__gpu_kept(const trf__gpu_head *h, const trf__now *now, int64_t query, int64_t eight)
{
    uint32_t head = (uint32_t)h->head;
    return trf__gpu_kept_of(now, &h->in->drop, (uint32_t)eight | head >> 12 << 17,
                            (uint32_t)query | (head & 0xFFF) << 20, (uint32_t)h->span->sentence);
}

/* What dropout makes of the weight of one key for one query: scale or 0. */
TRF__DEVICE float trf__gpu_weight_factor(const trf__gpu_head *h, const trf__now *now, int64_t query, int64_t key)
{
    return trf__gpu_kept(h, now, query, key / 8) >> key % 8 & 1 ? trf__gpu_scale(now, &h->in->drop) : 0;
}

/* own[i] += the sum over the others, from `other` on, of their weights times their columns `column` + 32 i. */
template <class A>
TRF__DEVICE void trf__gpu_gather(float own[TRF__OWN], const float *weights, const trf__act *x, const trf__gpu_head *h,
                                 int64_t ld, int of_keys, int64_t other, int64_t end, int64_t column)
{
    for (int k = 0; k < TRF__OTHERS && other + k < end; k++) {
        int64_t row = of_keys ? trf__key_row(h, other + k) : h->span->query + other + k;
        for (int i = 0; i < TRF__OWN; i++)
            if (column + 32 * i < h->in->d_head)
                own[i] = fmaf(weights[k], trf__get<A>(x, row * ld + h->first + column + 32 * i), own[i]);
    }
}

template <class A> TRF__KERNEL void trf__gpu_attention(trf__attention a, const trf__now *now, int64_t groups)
{
    TRF__SHARED(float, keys, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, weights, TRF__CUDA_WARPS * TRF__OTHERS);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__CUDA_WARPS, 0);
        int64_t i = h.begin + warp, query = h.span->query + i, d = a.in.d_head, ldo = a.in.heads * d;
        int64_t most = trf__gpu_most(&h), seen = trf__gpu_seen(&h, i);
        for (int64_t c0 = 0; h.begin < h.n && c0 < d; c0 += 32 * TRF__OWN) {
            float maximum = -FLT_MAX, sum = 0, out[TRF__OWN] = {0, 0, 0, 0};
            for (int64_t key = 0; key < most; key += TRF__OTHERS) {
                float s = 0, higher, shrink, e;
                for (int64_t c = 0; c < d; c += TRF__COLUMNS) {
                    __syncthreads();
                    trf__gpu_tile<A>(keys, a.in.k, &h, a.in.ldk, 1, key, c);
                    __syncthreads();
                    if (key + lane < seen)
                        s = trf__gpu_dot<A>(s, a.in.q, query * a.in.ldq + h.first + c, keys, d - c);
                }
                higher = fmaxf(maximum, trf__warp_max(key + lane < seen ? s : -FLT_MAX));
                shrink = expf((maximum - higher) * h.scale);
                e = key + lane < seen ? expf((s - higher) * h.scale) : 0;
                maximum = higher;
                sum = sum * shrink + trf__warp_sum(e);
                if (key + lane < seen) e *= trf__gpu_weight_factor(&h, now, i, key + lane);
                weights[warp * TRF__OTHERS + lane] = e;
                __syncwarp();
                for (int o = 0; o < TRF__OWN; o++) out[o] *= shrink;
                trf__gpu_gather<A>(out, weights + warp * TRF__OTHERS, a.in.v, &h, a.in.ldk, 1, key, seen, c0 + lane);
                __syncwarp();
            }
            if (i >= h.n) continue;
            for (int o = 0; o < TRF__OWN; o++)
                if (c0 + lane + 32 * o < d)
                    trf__put<A>(a.out, query * ldo + h.first + c0 + lane + 32 * o, seen > 0 ? out[o] / sum : 0);
            if (a.stats && lane == 0) {
                a.stats[(query * a.in.heads + h.head) * 2] = maximum;
                a.stats[(query * a.in.heads + h.head) * 2 + 1] = 1 / sum;
            }
        }
    }
}

/* In 16 bits tensor cores make the products, 16 rows at a time, of heads up to 64 wide (wider ones leave too few
   registers). A tile is 64 rows of one head, 16 for each of four warps; the other side's pass through shared memory,
   64 or 32 at a time. Of every result (16, 8) lane 4 g + t holds rows g and g + 8, columns 2 t and 2 t + 1; two of
   them side by side are already the left factor (16, 16) of the next product. D: d_head, rounded up with zeros. */

#if !defined(TRF__GPU_ON_CPU)           /* which has its own of these three */
/* d (16, 8) += a (16, 16) b (16, 8) */
TRF__DEVICE void trf__mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four matrices (8, 8) turned: lanes 8 i .. 8 i + 7 point at the rows of matrix i. */
TRF__DEVICE void trf__load_turned(uint32_t r[4], const trf__bf16 *row)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

TRF__DEVICE float trf__quick_exp(float x) { return __expf(x); }
#endif

TRF__DEVICE uint32_t trf__bf16_pair(float low, float high)
{
    trf__bf16 l, h;
    trf__narrow(&l, low);
    trf__narrow(&h, high);
    return (uint32_t)l.bits | (uint32_t)h.bits << 16;
}

/* Rows `first` .. of this head of x into shared memory, eight columns at a time; 0 beyond the ends. The rows there
   are eight numbers longer, so that neighbouring ones lie in other banks. */
template <int D, int ROWS>
TRF__DEVICE void trf__mma_tile(trf__bf16 *to, const trf__act *x, const trf__gpu_head *h, int64_t ld, int of_keys,
                               int first)
{
    int n = of_keys ? h->span->n_key : h->span->n_query, d = (int)h->in->d_head;
    const trf__bf16 *from = (const trf__bf16 *)(const void *)x + h->first;
    int whole = d % 8 == 0 && ld % 8 == 0 && (uintptr_t)x % 16 == 0;
    from += (of_keys ? h->span->key : h->span->query) * ld;
    for (int e = (int)threadIdx.x; e < ROWS * D / 8; e += TRF__MMA_THREADS) {
        int row = first + e / (D / 8), c = e % (D / 8) * 8;
        uint4 eight = {0, 0, 0, 0};
        if (whole && row < n && c < d) eight = *(const uint4 *)(const void *)(from + row * ld + c);
        else for (int k = 0; k < 8; k++)
            if (row < n && c + k < d) ((trf__bf16 *)&eight)[k] = from[row * ld + c + k];
        *(uint4 *)(void *)(to + e / (D / 8) * (D + 8) + c) = eight;
    }
}

/* Which weights of a tile are kept: (QUERIES, KEYS / 8), a bit a key. */
template <int QUERIES, int KEYS>
TRF__DEVICE void trf__mma_kept(uint8_t *kept, const trf__gpu_head *h, const trf__now *now, int query, int key)
{
    for (int e = (int)threadIdx.x; e < QUERIES * KEYS / 8; e += TRF__MMA_THREADS)
        kept[e] = (uint8_t)trf__gpu_kept(h, now, query + e / (KEYS / 8), key / 8 + e % (KEYS / 8));
}

/* The tile's own 64 rows of x, 16 a warp, as the left factor of products; they go through `room`. */
template <int D>
TRF__DEVICE void trf__mma_own(uint32_t a[D / 16][4], trf__bf16 *room, const trf__act *x, const trf__gpu_head *h,
                              int64_t ld, int of_keys)
{
    int lane = (int)threadIdx.x % 32;
    const trf__bf16 *from = room + ((int)threadIdx.x / 32 * 16 + lane / 4) * (D + 8) + lane % 4 * 2;
    __syncthreads();
    trf__mma_tile<D, TRF__MMA_ROWS>(room, x, h, ld, of_keys, h->begin);
    __syncthreads();
    for (int c = 0; c < D / 16; c++)
        for (int i = 0; i < 4; i++)
            a[c][i] = *(const uint32_t *)(const void *)(from + i % 2 * 8 * (D + 8) + c * 16 + i / 2 * 8);
}

/* s (16, 8 N) = a (16, D) tile^T; of the tile's rows `n` matter. */
template <int D, int N>
TRF__DEVICE void trf__mma_rows(float s[N][4], const uint32_t a[D / 16][4], const trf__bf16 *tile, int n)
{
    int lane = (int)threadIdx.x % 32;
    tile += lane / 4 * (D + 8) + lane % 4 * 2;
    for (int j = 0; j < N; j++) {
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
        for (int c = 0; c < D / 16 && j * 8 < n; c++) {
            const trf__bf16 *from = tile + j * 8 * (D + 8) + c * 16;
            uint32_t b[2] = { *(const uint32_t *)(const void *)from, *(const uint32_t *)(const void *)(from + 8) };
            trf__mma(s[j], a[c], b);
        }
    }
}

/* out (16, D) += s (16, 8 N) tile */
template <int D, int N>
TRF__DEVICE void trf__mma_columns(float out[D / 8][4], const float s[N][4], const trf__bf16 *tile, int n)
{
    int lane = (int)threadIdx.x % 32;
    tile += lane % 16 * (D + 8) + lane / 16 * 8;
    for (int j = 0; j < N / 2; j++) {
        const float *left = s[2 * j], *right = s[2 * j + 1];
        uint32_t a[4] = { trf__bf16_pair(left[0], left[1]), trf__bf16_pair(left[2], left[3]),
                          trf__bf16_pair(right[0], right[1]), trf__bf16_pair(right[2], right[3]) };
        for (int c = 0; c < D / 16 && j * 16 < n; c++) {
            uint32_t b[4];
            trf__load_turned(b, tile + j * 16 * (D + 8) + c * 16);
            trf__mma(out[2 * c], a, b);
            trf__mma(out[2 * c + 1], a, b + 2);
        }
    }
}

/* This lane's part of a result, times `factor` of each of its two rows, to the tile's rows of x. */
template <int D>
TRF__DEVICE void trf__mma_store(trf__act *x, const float out[D / 8][4], const float factor[2], const trf__gpu_head *h,
                                int64_t ld, int of_keys)
{
    for (int e = 0; e < D / 2; e++) {
        int row = h->begin + (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4 + e / 2 % 2 * 8;
        int column = e / 4 * 8 + (int)threadIdx.x % 4 * 2 + e % 2;
        int64_t at = ((of_keys ? h->span->key : h->span->query) + row) * ld + h->first + column;
        if (row < h->n && column < h->in->d_head) trf__put<trf__bf16>(x, at, out[e / 4][e % 4] * factor[e / 2 % 2]);
    }
}

/* Over the four lanes that share a row. */
TRF__DEVICE float trf__quad_sum(float x) { return trf__of_warp<2>(x, trf__plus()); }
TRF__DEVICE float trf__quad_max(float x) { return trf__of_warp<2>(x, trf__larger()); }

template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, 3) trf__gpu_mma_attention(trf__attention a, const trf__now *now,
                                                                            int64_t groups)
{
    enum { KEYS = 64 };
    TRF__SHARED(trf__bf16, keys, KEYS * (D + 8));
    TRF__SHARED(trf__bf16, values, KEYS * (D + 8));
    TRF__SHARED(uint8_t, kept, TRF__MMA_ROWS * KEYS / 8);
    int row = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__MMA_ROWS, 0);
        int most = trf__gpu_most(&h);
        int seen[2] = { trf__gpu_seen(&h, h.begin + row), trf__gpu_seen(&h, h.begin + row + 8) };
        float out[D / 8][4] = {}, maximum[2] = { -FLT_MAX, -FLT_MAX }, sum[2] = { 0, 0 };
        uint32_t q[D / 16][4];
        if (h.begin >= h.n) continue;
        trf__mma_own<D>(q, keys, a.in.q, &h, a.in.ldq, 0);
        for (int key = 0; key < most; key += KEYS) {
            float s[KEYS / 8][4];
            __syncthreads();
            trf__mma_tile<D, KEYS>(keys, a.in.k, &h, a.in.ldk, 1, key);
            trf__mma_tile<D, KEYS>(values, a.in.v, &h, a.in.ldk, 1, key);
            trf__mma_kept<TRF__MMA_ROWS, KEYS>(kept, &h, now, h.begin, key);
            __syncthreads();
            if (h.begin + row / 16 * 16 >= h.n) continue;       /* nothing for this warp */
            trf__mma_rows<D, KEYS / 8>(s, q, keys, most - key);
            for (int i = 0; i < 2; i++) {
                float higher = maximum[i], shrink;
                for (int j = 0; j < KEYS / 4; j++)
                    if (key + j / 2 * 8 + t * 2 + j % 2 < seen[i]) higher = fmaxf(higher, s[j / 2][i * 2 + j % 2]);
                higher = trf__quad_max(higher);
                shrink = trf__quick_exp((maximum[i] - higher) * h.scale);
                maximum[i] = higher;
                sum[i] *= shrink;
                for (int c = 0; c < D / 4; c++) out[c / 2][i * 2 + c % 2] *= shrink;
                for (int j = 0; j < KEYS / 4; j++) {
                    float *e = &s[j / 2][i * 2 + j % 2];
                    int column = t * 2 + j % 2, bit = kept[(row + i * 8) * (KEYS / 8) + j / 2] >> column & 1;
                    *e = key + j / 2 * 8 + column < seen[i] ? trf__quick_exp((*e - higher) * h.scale) : 0;
                    sum[i] += *e;
                    *e *= bit ? trf__gpu_scale(now, &a.in.drop) : 0;
                }
            }
            trf__mma_columns<D, KEYS / 8>(out, s, values, most - key);
        }
        for (int i = 0; i < 2; i++) {
            int64_t query = h.span->query + h.begin + row + i * 8;
            float all = trf__quad_sum(sum[i]);
            sum[i] = all > 0 ? 1 / all : 0;
            if (h.begin + row + i * 8 >= h.n || !a.stats || t > 0) continue;
            a.stats[(query * a.in.heads + h.head) * 2] = maximum[i];
            a.stats[(query * a.in.heads + h.head) * 2 + 1] = 1 / all;
        }
        trf__mma_store<D>(a.out, out, sum, &h, a.in.heads * a.in.d_head, 0);
    }
}

/* Whether those kernels can: keys that are not scattered over a cache, heads that fit. */
TRF__FN int trf__mma_can(const trf__run *run, const trf__attention_in *in)
{
    return run->element != sizeof(float) && !in->key_rows && in->d_head <= 64;
}
#define TRF__OF_WIDTH(j, kernel) ((j)->in.d_head <= 16 ? kernel<16> : (j)->in.d_head <= 32 ? kernel<32> : kernel<64>)

/* Starts one of two kernels for groups of the rows of all heads; a span has `most` of them, or fewer. */
template <class J>
TRF__FN void trf__launch_heads(const trf__run *run, const char *what, const J *j, int64_t most,
                               void (*mma)(J, const trf__now *, int64_t), void (*plain)(J, const trf__now *, int64_t))
{
    int can = trf__mma_can(run, &j->in);
    int64_t groups = trf__ceil_div(most, can ? TRF__MMA_ROWS : TRF__CUDA_WARPS), heads = j->in.n_spans * j->in.heads;
    if (can) trf__launch<TRF__MMA_THREADS>(run, what, heads * groups, mma, *j, run->now, groups);
    else trf__launch(run, what, heads * groups, plain, *j, run->now, groups);
}

TRF__FN void trf__cuda_attention(const trf__run *run, const trf__attention *a)
{
    trf__launch_heads(run, "attention", a, a->in.most_queries, TRF__OF_WIDTH(a, trf__gpu_mma_attention),
                      TRF__OF_ACT(run, trf__gpu_attention));
}

/* A block a query, a thread every 256th key. */
template <class A> TRF__KERNEL void trf__gpu_attention_weights(trf__attention_weights a)
{
    TRF__SHARED(float, room, TRF__CUDA_WARPS);
    trf__gpu_head h = trf__gpu_head_of(&a.in, a.head, 1, 1, 0);
    for (int64_t i = blockIdx.x; i < h.n; i += gridDim.x) {
        float *w = a.weights + i * h.span->n_key, maximum = -FLT_MAX, sum = 0;
        int64_t seen = trf__keys_seen(&h, i), q = (h.span->query + i) * a.in.ldq + h.first, k;
        for (k = threadIdx.x; k < seen; k += TRF__CUDA_THREADS) {
            float s = 0;
            int64_t key = trf__key_row(&h, k) * a.in.ldk + h.first;
            for (int64_t c = 0; c < a.in.d_head; c++)
                s = fmaf(trf__get<A>(a.in.q, q + c), trf__get<A>(a.in.k, key + c), s);
            w[k] = s;
            maximum = fmaxf(maximum, s);
        }
        maximum = trf__block_max(maximum, room);
        for (k = threadIdx.x; k < seen; k += TRF__CUDA_THREADS) sum += w[k] = expf((w[k] - maximum) * h.scale);
        sum = trf__block_sum(sum, room);
        for (k = threadIdx.x; k < h.span->n_key; k += TRF__CUDA_THREADS) w[k] = k < seen ? w[k] / sum : 0;
    }
}

TRF__FN void trf__cuda_attention_weights(const trf__run *run, const trf__attention_weights *a)
{
    trf__launch(run, "attention_weights", a->in.most_queries, TRF__OF_ACT(run, trf__gpu_attention_weights), *a);
}

#if !defined(TRF_NO_TRAIN)

/* The weight P of a key for a query, from their q k^T and the query's statistics. */
TRF__DEVICE float trf__gpu_weight(const trf__gpu_head *h, const float *stats, int64_t query, float s)
{
    const float *known = stats + (query * h->in->heads + h->head) * 2;
    return expf((s - known[0]) * h->scale) * known[1];
}

/* dq: queries own, keys are the others. */
template <class A>
TRF__KERNEL void trf__gpu_attention_dq(trf__attention_gradient a, const trf__now *now, int64_t groups)
{
    TRF__SHARED(float, keys, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, values, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, weights, TRF__CUDA_WARPS * TRF__OTHERS);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__CUDA_WARPS, 0);
        int64_t i = h.begin + warp, query = h.span->query + i, d = a.in.d_head, ldo = a.in.heads * d;
        int64_t most = trf__gpu_most(&h), seen = trf__gpu_seen(&h, i);
        int64_t at = query * ldo + h.first;
        float delta = 0;
        for (int64_t c = lane; i < h.n && c < d; c += 32)
            delta = fmaf(trf__get<A>(a.dout, at + c), trf__get<A>(a.out, at + c), delta);
        delta = trf__warp_sum(delta);
        for (int64_t c0 = 0; h.begin < h.n && c0 < d; c0 += 32 * TRF__OWN) {
            float dq[TRF__OWN] = {0, 0, 0, 0};
            for (int64_t key = 0; key < most; key += TRF__OTHERS) {
                float s = 0, dp = 0;
                for (int64_t c = 0; c < d; c += TRF__COLUMNS) {
                    __syncthreads();
                    trf__gpu_tile<A>(keys, a.in.k, &h, a.in.ldk, 1, key, c);
                    trf__gpu_tile<A>(values, a.in.v, &h, a.in.ldk, 1, key, c);
                    __syncthreads();
                    if (key + lane >= seen) continue;
                    s = trf__gpu_dot<A>(s, a.in.q, query * a.in.ldq + h.first + c, keys, d - c);
                    dp = trf__gpu_dot<A>(dp, a.dout, at + c, values, d - c);
                }
                if (key + lane < seen) {
                    dp *= trf__gpu_weight_factor(&h, now, i, key + lane);
                    s = trf__gpu_weight(&h, a.stats, query, s) * (dp - delta) * h.scale;
                }
                weights[warp * TRF__OTHERS + lane] = s;
                __syncwarp();
                trf__gpu_gather<A>(dq, weights + warp * TRF__OTHERS, a.in.k, &h, a.in.ldk, 1, key, seen, c0 + lane);
                __syncwarp();
            }
            for (int o = 0; o < TRF__OWN; o++)
                if (i < h.n && c0 + lane + 32 * o < d)
                    trf__put<A>(a.dq, query * a.in.ldq + h.first + c0 + lane + 32 * o, dq[o]);
        }
    }
}

/* dk and dv: keys own, queries are the others. */
template <class A>
TRF__KERNEL void trf__gpu_attention_dkv(trf__attention_gradient a, const trf__now *now, int64_t groups)
{
    TRF__SHARED(float, queries, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, douts, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, weights, 2 * TRF__CUDA_WARPS * TRF__OTHERS);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *to_k = weights + warp * TRF__OTHERS, *to_v = to_k + TRF__CUDA_WARPS * TRF__OTHERS;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__CUDA_WARPS, 1);
        int64_t key = h.begin + warp, row = h.span->key + key, d = a.in.d_head, ldo = a.in.heads * d;
        int64_t n = h.span->n_query, at = row * a.in.ldk + h.first;
        for (int64_t c0 = 0; h.begin < h.n && c0 < d; c0 += 32 * TRF__OWN) {
            float dk[TRF__OWN] = {0, 0, 0, 0}, dv[TRF__OWN] = {0, 0, 0, 0};
            for (int64_t first = 0; first < n; first += TRF__OTHERS) {
                int64_t i = first + lane, query = h.span->query + i;
                float s = 0, dp = 0, delta = 0, p = 0, factor = 0;
                for (int64_t c = 0; c < d; c += TRF__COLUMNS) {
                    __syncthreads();
                    trf__gpu_tile<A>(queries, a.in.q, &h, a.in.ldq, 0, first, c);
                    trf__gpu_tile<A>(douts, a.dout, &h, ldo, 0, first, c);
                    __syncthreads();
                    if (i >= n || key >= h.n || key >= trf__keys_seen(&h, i)) continue;
                    delta = trf__gpu_dot<A>(delta, a.out, query * ldo + h.first + c, douts, d - c);
                    s = trf__gpu_dot<A>(s, a.in.k, at + c, queries, d - c);
                    dp = trf__gpu_dot<A>(dp, a.in.v, at + c, douts, d - c);
                }
                if (i < n && key < h.n && key < trf__keys_seen(&h, i)) {
                    factor = trf__gpu_weight_factor(&h, now, i, key);
                    p = trf__gpu_weight(&h, a.stats, query, s);
                }
                to_k[lane] = p * (dp * factor - delta) * h.scale;
                to_v[lane] = p * factor;
                __syncwarp();
                trf__gpu_gather<A>(dk, to_k, a.in.q, &h, a.in.ldq, 0, first, n, c0 + lane);
                trf__gpu_gather<A>(dv, to_v, a.dout, &h, ldo, 0, first, n, c0 + lane);
                __syncwarp();
            }
            for (int o = 0; o < TRF__OWN; o++) {
                int64_t c = c0 + lane + 32 * o;
                if (key >= h.n || c >= d) continue;
                trf__put<A>(a.dk, at + c, dk[o]);
                trf__put<A>(a.dv, at + c, dv[o]);
            }
        }
    }
}

template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, 3) trf__gpu_mma_dq(trf__attention_gradient a,
                                                                        const trf__now *now, int64_t groups)
{
    enum { KEYS = 32 };
    TRF__SHARED(trf__bf16, tiles, 2 * KEYS * (D + 8));
    TRF__SHARED(uint8_t, kept, TRF__MMA_ROWS * KEYS / 8);
    trf__bf16 *keys = tiles, *values = tiles + KEYS * (D + 8);
    int row = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__MMA_ROWS, 0);
        int most = trf__gpu_most(&h), ldo = a.in.heads * (int)a.in.d_head;
        int seen[2] = { trf__gpu_seen(&h, h.begin + row), trf__gpu_seen(&h, h.begin + row + 8) };
        float dq[D / 8][4] = {}, delta[2] = { 0, 0 }, ones[2] = { 1, 1 };
        uint32_t q[D / 16][4], dout[D / 16][4];
        if (h.begin >= h.n) continue;
        trf__mma_own<D>(dout, tiles, a.dout, &h, ldo, 0);
        trf__mma_own<D>(q, tiles, a.out, &h, ldo, 0);       /* for delta = dout . out */
        for (int c = 0; c < D / 16; c++)
            for (int i = 0; i < 4; i++) {
                uint32_t x = q[c][i], y = dout[c][i], high = 0xFFFF0000u;
                delta[i % 2] = fmaf(trf__float_of(x << 16), trf__float_of(y << 16), delta[i % 2]);
                delta[i % 2] = fmaf(trf__float_of(x & high), trf__float_of(y & high), delta[i % 2]);
            }
        delta[0] = trf__quad_sum(delta[0]);
        delta[1] = trf__quad_sum(delta[1]);
        trf__mma_own<D>(q, tiles, a.in.q, &h, a.in.ldq, 0);
        for (int key = 0; key < most; key += KEYS) {
            float s[KEYS / 8][4], dp[KEYS / 8][4];
            __syncthreads();
            trf__mma_tile<D, KEYS>(keys, a.in.k, &h, a.in.ldk, 1, key);
            trf__mma_tile<D, KEYS>(values, a.in.v, &h, a.in.ldk, 1, key);
            trf__mma_kept<TRF__MMA_ROWS, KEYS>(kept, &h, now, h.begin, key);
            __syncthreads();
            if (h.begin + row / 16 * 16 >= h.n) continue;
            trf__mma_rows<D, KEYS / 8>(s, q, keys, most - key);
            trf__mma_rows<D, KEYS / 8>(dp, dout, values, most - key);
            for (int j = 0; j < KEYS / 8; j++)
                for (int e = 0; e < 4; e++) {
                    int column = t * 2 + e % 2, r = row + e / 2 * 8;
                    float p = 0, factor = 0;
                    if (key + j * 8 + column < seen[e / 2])
                        p = trf__gpu_weight(&h, a.stats, h.span->query + h.begin + r, s[j][e]);
                    if (kept[r * (KEYS / 8) + j] >> column & 1) factor = trf__gpu_scale(now, &a.in.drop);
                    s[j][e] = p * (dp[j][e] * factor - delta[e / 2]) * h.scale;
                }
            trf__mma_columns<D, KEYS / 8>(dq, s, keys, most - key);
        }
        trf__mma_store<D>(a.dq, dq, ones, &h, a.in.ldq, 0);
    }
}

/* What dk and dv need of a query: what its weights are made with, delta = dout . out, and how many keys it sees. */
typedef struct trf__known { float maximum, factor, delta; int seen; } trf__known;

/* Of 32 queries, by four threads each. */
TRF__DEVICE void trf__mma_known(trf__known *known, const trf__attention_gradient *a, const trf__gpu_head *h,
                                int first)
{
    int64_t i = first + (int)threadIdx.x / 4, at = (h->span->query + i) * a->in.heads + h->head, c;
    int here = i < h->span->n_query;
    trf__known q = { 0, 0, 0, 0 };
    for (c = threadIdx.x % 4; here && c < a->in.d_head; c += 4)
        q.delta = fmaf(trf__get<trf__bf16>(a->dout, at * a->in.d_head + c),
                       trf__get<trf__bf16>(a->out, at * a->in.d_head + c), q.delta);
    q.delta = trf__quad_sum(q.delta);
    if (here) {
        q.maximum = a->stats[at * 2];
        q.factor = a->stats[at * 2 + 1];
        q.seen = (int)trf__keys_seen(h, i);
    }
    if (threadIdx.x % 4 == 0) known[threadIdx.x / 4] = q;
}

/* Here rows are keys and columns are queries. */
template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, 2) trf__gpu_mma_dkv(trf__attention_gradient a,
                                                                         const trf__now *now, int64_t groups)
{
    enum { QUERIES = 32, KEYS = TRF__MMA_ROWS };
    TRF__SHARED(trf__bf16, tiles, 2 * QUERIES * (D + 8));
    TRF__SHARED(uint8_t, kept, QUERIES * KEYS / 8);
    TRF__SHARED(trf__known, known, QUERIES);
    trf__bf16 *queries = tiles, *douts = tiles + QUERIES * (D + 8);
    int row = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, KEYS, 1);
        int n = h.span->n_query, first = 0;
        float dk[D / 8][4] = {}, dv[D / 8][4] = {}, ones[2] = { 1, 1 };
        uint32_t k[D / 16][4], v[D / 16][4];
        if (h.begin >= h.n) continue;
        if (a.in.causal && h.begin > h.n - n) first = h.begin - (h.n - n);      /* the first that sees one of these */
        trf__mma_own<D>(k, tiles, a.in.k, &h, a.in.ldk, 1);
        trf__mma_own<D>(v, tiles, a.in.v, &h, a.in.ldk, 1);
        for (; first < n; first += QUERIES) {
            float s[QUERIES / 8][4], ds[QUERIES / 8][4];
            __syncthreads();
            trf__mma_tile<D, QUERIES>(queries, a.in.q, &h, a.in.ldq, 0, first);
            trf__mma_tile<D, QUERIES>(douts, a.dout, &h, a.in.heads * (int)a.in.d_head, 0, first);
            trf__mma_kept<QUERIES, KEYS>(kept, &h, now, first, h.begin);
            trf__mma_known(known, &a, &h, first);
            __syncthreads();
            if (h.begin + row / 16 * 16 >= h.n) continue;
            trf__mma_rows<D, QUERIES / 8>(s, k, queries, n - first);
            trf__mma_rows<D, QUERIES / 8>(ds, v, douts, n - first);
            for (int j = 0; j < QUERIES / 8; j++)
                for (int e = 0; e < 4; e++) {
                    int column = j * 8 + t * 2 + e % 2, r = row + e / 2 * 8;
                    const trf__known *q = &known[column];
                    float p = 0, factor = 0;
                    if (h.begin + r < q->seen) p = trf__quick_exp((s[j][e] - q->maximum) * h.scale) * q->factor;
                    if (kept[column * (KEYS / 8) + r / 8] >> r % 8 & 1) factor = trf__gpu_scale(now, &a.in.drop);
                    s[j][e] = p * factor;
                    ds[j][e] = p * (ds[j][e] * factor - q->delta) * h.scale;
                }
            trf__mma_columns<D, QUERIES / 8>(dv, s, douts, n - first);
            trf__mma_columns<D, QUERIES / 8>(dk, ds, queries, n - first);
        }
        trf__mma_store<D>(a.dk, dk, ones, &h, a.in.ldk, 1);
        trf__mma_store<D>(a.dv, dv, ones, &h, a.in.ldk, 1);
    }
}

TRF__FN void trf__cuda_attention_gradient(const trf__run *run, const trf__attention_gradient *a)
{
    trf__launch_heads(run, "attention_gradient", a, a->in.most_queries, TRF__OF_WIDTH(a, trf__gpu_mma_dq),
                      TRF__OF_ACT(run, trf__gpu_attention_dq));
    trf__launch_heads(run, "attention_gradient", a, a->in.most_keys, TRF__OF_WIDTH(a, trf__gpu_mma_dkv),
                      TRF__OF_ACT(run, trf__gpu_attention_dkv));
}

#endif

// >>cuda-norm

/* feature(column) for a lane's part of a row: every 32nd unit, in all passes: it reads what it wrote itself. */
template <class Do> TRF__DEVICE void trf__lane_features(int64_t d, Do feature)
{
    for (int64_t unit = threadIdx.x % 32; unit < trf__units(d); unit += 32)
        for (int k = 0; k < TRF__UNIT && trf__feature(unit, k) < d; k++) feature(trf__feature(unit, k));
}

/* A warp a row. */
template <class A> TRF__KERNEL void trf__gpu_add_norm(trf__norm j, const trf__now *now)
{
    int lane = (int)threadIdx.x % 32;
    int64_t d = j.d, warps = (int64_t)gridDim.x * TRF__CUDA_WARPS;
    for (int64_t row = (int64_t)blockIdx.x * TRF__CUDA_WARPS + threadIdx.x / 32; row < j.rows; row += warps) {
        const trf__act *s = j.sub ? j.s : j.x;
        float begin, mean, r, sum = 0, squares = 0;
        for (int64_t unit = lane; j.sub && unit < trf__units(d); unit += 32) {
            float factor[TRF__UNIT];
            trf__gpu_mask(factor, now, &j.drop, &j.at, row, unit);
            for (int k = 0; k < TRF__UNIT && trf__feature(unit, k) < d; k++) {
                int64_t at = row * d + trf__feature(unit, k);
                trf__put<A>(j.s, at, fmaf(trf__get<A>(j.sub, at), factor[k], trf__get<A>(j.x, at)));
            }
        }
        if (!j.y) continue;
        begin = __shfl_sync(0xFFFFFFFFu, lane == 0 ? trf__get<A>(s, row * d) : 0.0f, 0);   /* see trf__norm_row */
        trf__lane_features(d, [&](int64_t c) { sum += trf__get<A>(s, row * d + c) - begin; });
        mean = begin + trf__warp_sum(sum) / (float)d;
        trf__lane_features(d, [&](int64_t c) {
            float centered = trf__get<A>(s, row * d + c) - mean;
            squares = fmaf(centered, centered, squares);
        });
        squares = trf__warp_sum(squares);
        if (j.rule == TRF_NORM_ANNOTATED)
            r = (float)(1 / (sqrt((double)squares / (double)(d > 1 ? d - 1 : 1)) + j.epsilon));
        else r = (float)(1 / sqrt((double)squares / (double)d + j.epsilon));
        trf__lane_features(d, [&](int64_t c) {
            trf__put<A>(j.y, row * d + c, fmaf((trf__get<A>(s, row * d + c) - mean) * r, j.gain[c], j.bias[c]));
        });
        if (j.stats && lane == 0) { j.stats[2 * row] = mean; j.stats[2 * row + 1] = r; }
    }
}

TRF__FN void trf__cuda_add_norm(const trf__run *run, const trf__norm *j)
{
    trf__launch(run, "add_norm", trf__ceil_div(j->rows, TRF__CUDA_WARPS), TRF__OF_ACT(run, trf__gpu_add_norm), *j,
                run->now);
}

#if !defined(TRF_NO_TRAIN)

template <class A> TRF__DEVICE float trf__gpu_norm_dy(const trf__norm_gradient *j, int64_t at)
{
    return trf__get<A>(j->dy, at) + (j->dy2 ? trf__get<A>(j->dy2, at) : 0);
}

/* A warp a row, as in the forward. A lane has read its own dy, dy2 and ds_in when it writes there. */
template <class A> TRF__KERNEL void trf__gpu_norm_gradient(trf__norm_gradient j, const trf__now *now)
{
    int lane = (int)threadIdx.x % 32;
    int64_t d = j.d, warps = (int64_t)gridDim.x * TRF__CUDA_WARPS;
    for (int64_t row = (int64_t)blockIdx.x * TRF__CUDA_WARPS + threadIdx.x / 32; row < j.rows; row += warps) {
        float mean = 0, r = 1, average = 0, pull = 0, sum = 0, dot = 0;
        if (j.gain) {
            double slope;
            mean = j.stats[2 * row];
            r = j.stats[2 * row + 1];
            trf__lane_features(d, [&](int64_t c) {
                float g = trf__gpu_norm_dy<A>(&j, row * d + c);
                sum = fmaf(g, j.gain[c], sum);
                dot = fmaf(g * (trf__get<A>(j.s, row * d + c) - mean), j.gain[c], dot);
            });
            sum = trf__warp_sum(sum);
            dot = trf__warp_sum(dot);
            slope = (double)r * (double)r / (double)d;
            if (j.rule == TRF_NORM_ANNOTATED) {
                double deviation = 1 / (double)r - j.epsilon;
                slope = deviation > 0 && d > 1 ? (double)r / ((double)(d - 1) * deviation) : 0;
            }
            average = (float)(-(double)sum / (double)d);
            pull = (float)(-slope * (double)dot);
        }
        for (int64_t unit = lane; unit < trf__units(d); unit += 32) {
            float factor[TRF__UNIT];
            if (j.dsub) trf__gpu_mask(factor, now, &j.drop, &j.at, row, unit);
            for (int k = 0; k < TRF__UNIT && trf__feature(unit, k) < d; k++) {
                int64_t c = trf__feature(unit, k), at = row * d + c;
                float ds = trf__gpu_norm_dy<A>(&j, at);
                if (j.gain) {
                    ds = fmaf(trf__get<A>(j.s, at) - mean, pull, fmaf(ds, j.gain[c], average));
                    ds = fmaf(ds, r, j.ds_in ? trf__get<A>(j.ds_in, at) : 0);
                }
                trf__put<A>(j.ds, at, ds);
                if (j.dsub) trf__put<A>(j.dsub, at, ds * factor[k]);
            }
        }
    }
}

/* Of dgain and dbias. */
template <class A> TRF__KERNEL void trf__gpu_norm_sums(trf__norm_gradient n, trf__column_sums_job j)
{
    TRF__SHARED(float, room, TRF__CUDA_THREADS);
    trf__sum_slices<2>(&j, room, [&](int64_t r, int64_t c, float *sums) {
        float g = trf__gpu_norm_dy<A>(&n, r * j.ld + c);
        sums[0] = fmaf(g, (trf__get<A>(n.s, r * j.ld + c) - n.stats[2 * r]) * n.stats[2 * r + 1], sums[0]);
        sums[1] += g;
    });
}

/* Columns that are more than the room has are summed in pieces. */
TRF__FN void trf__cuda_norm_gradient(const trf__run *run, const trf__norm_gradient *n)
{
    int64_t c, most = TRF__CUDA_SUMS / 2;
    for (c = 0; n->gain && c < n->d; c += most) {
        trf__column_sums_job j = trf__sums_job(run, 2, n->rows, trf__min64(most, n->d - c), n->first);
        trf__norm_gradient piece = *n;
        piece.dy = trf__act_at(run, (trf__act *)(uintptr_t)n->dy, c);
        piece.dy2 = trf__act_at(run, (trf__act *)(uintptr_t)n->dy2, c);
        piece.s = trf__act_at(run, (trf__act *)(uintptr_t)n->s, c);
        j.ld = n->d;
        j.sums[0] = n->dgain + c; j.sums[1] = n->dbias + c;
        trf__launch(run, "norm_gradient", trf__sum_tiles(&j), TRF__OF_ACT(run, trf__gpu_norm_sums), piece, j);
        trf__launch(run, "norm_gradient", trf__tiles_of(j.columns * j.outputs), trf__gpu_add_slices, j);
    }
    trf__launch(run, "norm_gradient", trf__ceil_div(n->rows, TRF__CUDA_WARPS),
                TRF__OF_ACT(run, trf__gpu_norm_gradient), *n, run->now);
}

#endif

// >>cuda-pool      a block a sequence, a thread a column

template <class A> TRF__KERNEL void trf__gpu_pool(trf__pool j)
{
    for (int64_t s = blockIdx.x; s < j.n_spans; s += gridDim.x) {
        const trf__span *span = &j.spans[s];
        int64_t n = trf__pooled(span, j.most);
        for (int64_t c = threadIdx.x; c < j.d; c += blockDim.x) {
            float sum = 0;
            for (int64_t r = 0; r < n; r++) sum += trf__get<A>(j.from, (span->query + r) * j.d + c);
            trf__put<A>(j.to, s * j.d + c, n > 0 ? sum * (1 / (float)n) : 0);
        }
    }
}

TRF__FN void trf__cuda_pool(const trf__run *run, const trf__pool *j)
{
    trf__launch<128>(run, "pool", j->n_spans, TRF__OF_ACT(run, trf__gpu_pool), *j);
}

#if !defined(TRF_NO_TRAIN)

template <class A> TRF__KERNEL void trf__gpu_pool_gradient(trf__pool j)
{
    for (int64_t s = blockIdx.x; s < j.n_spans; s += gridDim.x) {
        const trf__span *span = &j.spans[s];
        int64_t n = trf__pooled(span, j.most);
        for (int64_t c = threadIdx.x; c < j.d; c += blockDim.x) {
            float share = n > 0 ? trf__get<A>(j.from, s * j.d + c) * (1 / (float)n) : 0;
            for (int64_t r = 0; r < span->n_query; r++)
                trf__put<A>(j.to, (span->query + r) * j.d + c, r < n ? share : 0);
        }
    }
}

TRF__FN void trf__cuda_pool_gradient(const trf__run *run, const trf__pool *j)
{
    trf__launch<128>(run, "pool_gradient", j->n_spans, TRF__OF_ACT(run, trf__gpu_pool_gradient), *j);
}

#endif

// >>cuda-loss      the vocabulary, in chunks of rows whose logits fit into the room

/* Every chunk reads and writes the whole (vocab, d) gradient, which is less than a tenth of what its logits move if
   it has 8 d rows; but no more than 2^28 logits, and 256 rows at least. */
TRF__FN int64_t trf__cuda_chunk(int64_t rows, int64_t vocab, int64_t d)
{
    int64_t most = trf__times(8, d);
    most = trf__max64(256, trf__min64(most, ((int64_t)1 << 28) / trf__max64(1, vocab)));
    return trf__max64(1, trf__min64(rows, most));
}

TRF__FN size_t trf__cuda_loss_cut(void *room, const trf_device *device, int64_t rows, int64_t vocab, int64_t d,
                                  trf__act **logits, int32_t **hit)
{
    trf__cursor cursor = trf__cursor_at(room);
    *logits = (trf__act *)trf__take(&cursor, trf__cuda_chunk(rows, vocab, d),
                                    trf__bytes(vocab, trf__cuda_element(device)));
    *hit = (int32_t *)trf__take(&cursor, rows, sizeof(int32_t));
    return cursor.used;
}

TRF__FN size_t trf__cuda_loss_room(const trf_device *device, int64_t rows, int64_t vocab, int64_t d, int)
{
    trf__act *logits;
    int32_t *hit;
    return trf__cuda_loss_cut(NULL, device, rows, vocab, d, &logits, &hit);
}

/* A block a row; a thread every 256th logit. */
template <class A>
TRF__KERNEL void trf__gpu_loss_rows(trf__loss l, trf__act *logits, int32_t *hit, int64_t row0, int64_t rows)
{
    TRF__SHARED(float, room, TRF__CUDA_WARPS);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        A *z = (A *)(void *)logits + r * l.vocab;
        float maximum = -FLT_MAX, sum = 0, total = 0, at_target, at_zero;
        int64_t row = row0 + r, c;
        int32_t target = l.targets[row];
        for (c = threadIdx.x; target >= 0 && c < l.vocab; c += TRF__CUDA_THREADS)
            maximum = fmaxf(maximum, trf__wide(z[c]));
        maximum = trf__block_max(maximum, room);
        for (c = threadIdx.x; target >= 0 && c < l.vocab; c += TRF__CUDA_THREADS) {
            sum += expf(trf__wide(z[c]) - maximum);
            total += fmaf(trf__wide(z[c]), (float)TRF__SMALL, -maximum * (float)TRF__SMALL);
        }
        sum = trf__block_sum(sum, room);
        total = trf__block_sum(total, room);
        at_target = target >= 0 ? trf__wide(z[target]) : 0;
        at_zero = target >= 0 && l.zero_column >= 0 ? trf__wide(z[l.zero_column]) : 0;
        __syncthreads();                /* everybody has read them: z becomes dz */
        if (threadIdx.x == 0) {
            double log_sum = log((double)sum), all = (double)total / TRF__SMALL - (double)l.vocab * log_sum;
            double zero = l.zero_column >= 0 ? (double)at_zero - (double)maximum - log_sum : 0;
            double nll = (double)maximum - (double)at_target + log_sum, loss = (l.on - l.off) * nll;
            if (l.off != 0) loss -= l.off * (all - zero);
            l.row_nll[row] = target < 0 ? 0 : nll;
            l.row_loss[row] = target < 0 ? 0 : loss - l.entropy;
            hit[row] = target >= 0 && at_target >= maximum;
        }
        for (c = threadIdx.x; l.dx && c < l.vocab; c += TRF__CUDA_THREADS) {
            float dz = target < 0 ? 0 : fmaf(expf(trf__wide(z[c]) - maximum), 1 / sum, (float)-l.off);
            if (c == target) dz -= (float)(l.on - l.off);
            if (target >= 0 && c == l.zero_column) dz += (float)l.off;
            trf__narrow(&z[c], dz);
        }
    }
}

/* One block. */
TRF__KERNEL void trf__gpu_loss_sums(trf__loss l, const trf__now *now, const int32_t *hit)
{
    TRF__SHARED(double, room, TRF__CUDA_WARPS);
    trf__sums sums = {0, 0, 0, 0};
    for (int64_t i = threadIdx.x; i < l.rows; i += TRF__CUDA_THREADS) {
        sums.loss += l.row_loss[i];
        sums.nll += l.row_nll[i];
        sums.correct += hit[i];
        sums.tokens += l.targets[i] >= 0;
    }
    sums.loss = trf__block_sum(sums.loss, room);
    sums.nll = trf__block_sum(sums.nll, room);
    sums.correct = trf__block_sum(sums.correct, room);
    sums.tokens = trf__block_sum(sums.tokens, room);
    if (threadIdx.x == 0) trf__loss_told(&l, now, &sums);
}

TRF__FN void trf__cuda_cross_entropy(const trf__run *run, const trf__loss *l)
{
    int64_t chunk = trf__cuda_chunk(l->rows, l->vocab, l->d), row0, rows;
    trf__linear z;
    int32_t *hit;
    z.w = l->w; z.b = l->bias; z.out = l->vocab; z.in = l->d;
    trf__cuda_loss_cut(l->room, &run->device, l->rows, l->vocab, l->d, &z.y, &hit);
    /* once without rows too: `first` sets the gradients of the weight */
    for (row0 = 0; row0 < l->rows || row0 == 0; row0 += chunk) {
        z.x = trf__act_at(run, (trf__act *)(uintptr_t)l->x, row0 * l->d);
        z.rows = rows = trf__min64(chunk, l->rows - row0);
        trf__cuda_project(run, "cross_entropy", &z, 0);
        trf__launch(run, "cross_entropy", rows, TRF__OF_ACT(run, trf__gpu_loss_rows), *l, z.y, hit, row0, rows);
#if !defined(TRF_NO_TRAIN)
        if (l->dx) {
            trf__linear_dx dx;
            trf__linear_dw dw;
            TRF__ZERO(dx);
            dx.dx = trf__act_at(run, l->dx, row0 * l->d); dx.dy = z.y; dx.w = l->w;
            dx.rows = rows; dx.out = l->vocab; dx.in = l->d;
            trf__cuda_linear_dx(run, &dx);
            TRF__ZERO(dw);
            dw.dw = l->dw; dw.dy = z.y; dw.x = z.x;
            dw.rows = rows; dw.out = l->vocab; dw.in = l->d;
            dw.first = l->first && row0 == 0;
            if (l->dw) trf__cuda_linear_dw(run, &dw, 1);
            if (l->db) trf__cuda_column_sums(run, "cross_entropy", l->db, z.y, rows, l->vocab, dw.first);
        }
#endif
    }
    trf__launch(run, "cross_entropy", 1, trf__gpu_loss_sums, *l, run->now, hit);
}

#if !defined(TRF_NO_TRAIN)

// >>cuda-adam      clip and adam

/* A block a tile: its sum of squares. */
TRF__KERNEL void trf__gpu_squares(trf__clip j)
{
    TRF__SHARED(double, room, TRF__CUDA_WARPS);
    for (int64_t t = blockIdx.x; t < j.n_tiles; t += gridDim.x) {
        const float *x = j.gradients + j.tiles[t].begin;
        double sum = 0;
        for (int64_t i = threadIdx.x; i < j.tiles[t].n; i += TRF__CUDA_THREADS) sum += (double)x[i] * (double)x[i];
        sum = trf__block_sum(sum, room);
        if (threadIdx.x == 0) j.partial[t] = sum;
    }
}

/* The first tile with a number that is not finite, or -1, for the whole block. */
TRF__DEVICE int64_t trf__gpu_bad_tile(const trf__clip *j, double *room)
{
    for (int64_t t = 0; t < j->n_tiles; t++) {
        double bad = 0;
        if (trf__is_finite(j->partial[t])) continue;
        for (int64_t i = threadIdx.x; i < j->tiles[t].n; i += TRF__CUDA_THREADS)
            bad += !trf__is_finite((double)j->gradients[j->tiles[t].begin + i]);
        if (trf__block_sum(bad, room) > 0) return t;
    }
    return -1;
}

/* One block: the verdict. */
TRF__KERNEL void trf__gpu_verdict(trf__clip j)
{
    TRF__SHARED(double, room, TRF__CUDA_WARPS);
    double sum = 0;
    int64_t bad = -1;
    for (int64_t t = threadIdx.x; t < j.n_tiles; t += TRF__CUDA_THREADS) sum += j.partial[t];
    sum = trf__block_sum(sum, room);
    if (!trf__is_finite(sum)) bad = trf__gpu_bad_tile(&j, room);
    if (threadIdx.x == 0) trf__judge(&j, sum, bad);
}

TRF__FN void trf__cuda_clip(const trf__run *run, const trf__clip *j)
{
    trf__launch(run, "clip", j->n_tiles, trf__gpu_squares, *j);
    trf__launch(run, "clip", 1, trf__gpu_verdict, *j);
}

/* beta old + (1 - beta) x */
TRF__DEVICE float trf__gpu_mean(float old, float x, double beta)
{
    return beta < 0.5 ? fmaf((float)beta, old - x, x) : fmaf((float)(1 - beta), x - old, old);
}

/* A block a tile. */
TRF__KERNEL void trf__gpu_adam(trf__adam a, const trf__now *now)
{
    TRF__SHARED(trf__adam_job, job, 1);
    const float most = (float)TRF__MOST_GRADIENT;
    float rate, v_scale, inside, outside, least_root, scale1, scale2;
    if (a.verdict->skipped) return;
    for (int64_t t = blockIdx.x; t < a.n_tiles; t += gridDim.x) {
        int decay = a.tiles[t].decay;
        float l2, shrink;
        if (threadIdx.x == 0) job[0] = trf__adam_job_of(&a, a.tiles[t].missed, now->learning_rate);
        __syncthreads();
        rate = (float)-job->rate; v_scale = (float)job->v_scale;
        inside = (float)job->epsilon_in; outside = (float)job->epsilon_out;
        scale1 = (float)job->scale1; scale2 = (float)job->scale2; least_root = (float)job->least_root;
        l2 = (float)(decay ? job->l2 : 0); shrink = (float)(decay ? -job->shrink : 0);
        for (int64_t k = threadIdx.x; k < a.tiles[t].n; k += TRF__CUDA_THREADS) {
            int64_t i = a.tiles[t].begin + k;
            float p = a.p[i], g = fmaf(a.g[i] * scale1, scale2, fminf(fmaxf(l2 * p, -most), most)), moved;
            float m = trf__gpu_mean(a.m[i], g, a.beta1);
            float v = trf__gpu_mean(a.v[i], fminf(g * g, most * most), a.beta2);
            moved = fmaxf(sqrtf(fmaf(v, v_scale, inside)), least_root) + outside;
            moved = fmaf(rate, m / moved, fmaf(shrink, p, p));
            if (!(moved - moved < 1)) moved = p;            /* infinity - infinity is not less */
            a.p[i] = moved;
            if (a.copy) trf__narrow((trf__bf16 *)a.copy + i, moved);
            a.m[i] = m; a.v[i] = v;
        }
        __syncthreads();                /* before the next tile's job */
    }
}

TRF__FN void trf__cuda_adam(const trf__run *run, const trf__adam *a)
{
    trf__launch(run, "adam", a->n_tiles, trf__gpu_adam, *a, run->now);
}

#endif

// >>cuda-top       what search asks of a row of logits, and which rows its rows continue

enum { TRF__TOP_EACH = 8, TRF__TOP_SLICE = TRF__TOP_EACH * TRF__CUDA_THREADS };   /* logits: a thread's, a block's */

/* Rows are cut into slices, so that few rows of a large vocabulary are work for many blocks. */
typedef struct trf__top_parts {
    int64_t slices;
    float *sums;                /* (rows, slices, 2) maximum, and sum of exponentials above it */
    uint64_t *keys;             /* (rows, slices, n) the best of a slice, best first; 0: no more */
    float *logits;              /* (rows, vocab) */
} trf__top_parts;

TRF__FN size_t trf__cuda_top_cut(void *room, int64_t rows, int64_t vocab, int64_t n, trf__top_parts *p)
{
    trf__cursor cursor = trf__cursor_at(room);
    p->slices = trf__ceil_div(vocab, TRF__TOP_SLICE);
    p->sums = (float *)trf__take(&cursor, rows, trf__bytes(p->slices, 2 * sizeof(float)));
    p->keys = (uint64_t *)trf__take(&cursor, rows, trf__bytes(p->slices, trf__bytes(n, sizeof(uint64_t))));
    p->logits = (float *)trf__take(&cursor, rows, trf__bytes(vocab, sizeof(float)));
    return cursor.used;
}

TRF__FN size_t trf__cuda_top_room(const trf_device *, int64_t rows, int64_t vocab, int64_t n)
{
    trf__top_parts parts;
    return trf__cuda_top_cut(NULL, rows, vocab, n, &parts);
}

/* A logit and its id as a number that is the larger the better it is: the logit first, of equal ones the lower id.
   A float's bits are in order once those of negative ones are turned over; -0 becomes 0. */
TRF__DEVICE uint64_t trf__top_key(float z, int64_t id)
{
    uint32_t u = trf__float_bits(z + 0.0f);
    return (uint64_t)(u >> 31 ? ~u : u | 0x80000000u) << 32 | (uint32_t)~id;
}

/* A block a slice, a thread every 256th logit of it: the best one, then, without it, the next, and so on. */
TRF__KERNEL void trf__gpu_top_slices(trf__top t, trf__top_parts p)
{
    TRF__SHARED(float, room, TRF__CUDA_WARPS);
    TRF__SHARED(uint64_t, best, TRF__CUDA_WARPS);
    for (int64_t tile = blockIdx.x; tile < t.rows * p.slices; tile += gridDim.x) {
        int64_t row = tile / p.slices, begin = tile % p.slices * TRF__TOP_SLICE + threadIdx.x;
        int32_t only = t.only ? t.only[row] : TRF__ANY, without = only == TRF__NOT_EOS ? t.eos : -1;
        float z[TRF__TOP_EACH], maximum = -FLT_MAX, sum = 0;
        uint64_t keys[TRF__TOP_EACH];
        for (int i = 0; i < TRF__TOP_EACH; i++) {
            int64_t c = begin + i * TRF__CUDA_THREADS;
            z[i] = c < t.vocab && c != without ? p.logits[row * t.vocab + c] : -INFINITY;
            bool banned = c == t.banned[0] || c == t.banned[1] || c == t.banned[2];
            keys[i] = z[i] > -INFINITY && !banned ? trf__top_key(z[i], c) : 0;
            maximum = fmaxf(maximum, z[i]);
        }
        maximum = trf__block_max(maximum, room);
        for (int i = 0; i < TRF__TOP_EACH; i++) sum += expf(z[i] - maximum);
        sum = trf__block_sum(sum, room);
        if (threadIdx.x == 0) { p.sums[2 * tile] = maximum; p.sums[2 * tile + 1] = sum; }
        for (int64_t k = 0; only < 0 && k < t.n; k++) {
            uint64_t next = 0;
            for (int i = 0; i < TRF__TOP_EACH; i++) if (keys[i] > next) next = keys[i];
            next = trf__block_max(next, best);
            for (int i = 0; i < TRF__TOP_EACH; i++) if (keys[i] == next) keys[i] = 0;
            if (threadIdx.x == 0) p.keys[tile * t.n + k] = next;
        }
    }
}

/* A block a row: what its slices have found. */
TRF__KERNEL void trf__gpu_top(trf__top t, trf__top_parts p)
{
    TRF__SHARED(float, room, TRF__CUDA_WARPS);
    TRF__SHARED(uint64_t, best, TRF__CUDA_WARPS);
    for (int64_t row = blockIdx.x; row < t.rows; row += gridDim.x) {
        const float *sums = p.sums + 2 * row * p.slices;
        const uint64_t *keys = p.keys + row * p.slices * t.n;
        int32_t only = t.only ? t.only[row] : TRF__ANY;
        float maximum = -FLT_MAX, sum = 0;
        uint64_t last = UINT64_MAX;
        for (int64_t s = threadIdx.x; s < p.slices; s += TRF__CUDA_THREADS) maximum = fmaxf(maximum, sums[2 * s]);
        maximum = trf__block_max(maximum, room);
        for (int64_t s = threadIdx.x; s < p.slices; s += TRF__CUDA_THREADS)
            sum += sums[2 * s + 1] * expf(sums[2 * s] - maximum);
        double lse = (double)maximum + log((double)trf__block_sum(sum, room));
        for (int64_t i = 0; i < t.n; i++) {
            uint64_t next = 0;
            for (int64_t k = threadIdx.x; only < 0 && k < p.slices * t.n; k += TRF__CUDA_THREADS)
                if (keys[k] > next && keys[k] < last) next = keys[k];
            last = trf__block_max(next, best);
            int32_t id = only >= 0 && i == 0 ? only : last ? (int32_t)~(uint32_t)last : -1;
            if (threadIdx.x != 0) continue;
            t.ids[row * t.n + i] = id;
            t.log_probabilities[row * t.n + i] = id < 0 ? -HUGE_VAL : (double)p.logits[row * t.vocab + id] - lse;
        }
    }
}

TRF__FN void trf__cuda_top(const trf__run *run, const trf__top *t)
{
    trf__top_parts parts;
    trf__linear z;
    trf__cuda_top_cut(t->room, t->rows, t->vocab, t->n, &parts);
    z.y = (trf__act *)(void *)parts.logits; z.x = t->x; z.w = t->w; z.b = t->bias;
    z.rows = t->rows; z.out = t->vocab; z.in = t->d;
    trf__cuda_project(run, "top", &z, 1);
    trf__launch(run, "top", t->rows * parts.slices, trf__gpu_top_slices, *t, parts);
    trf__launch(run, "top", t->rows, trf__gpu_top, *t, parts);
}

/* A block a row, a thread a token of its past. */
TRF__KERNEL void trf__gpu_ancestors(trf__ancestors j)
{
    for (int64_t r = blockIdx.x; r < j.rows; r += gridDim.x)
        for (int32_t i = (int32_t)threadIdx.x; i <= j.position[r]; i += (int32_t)blockDim.x)
            j.to[r * j.stride + i] = i < j.position[r] ? j.from[j.parents[r] * j.stride + i] : j.slots[r];
}

TRF__FN void trf__cuda_ancestors(const trf__run *run, const trf__ancestors *j)
{
    trf__launch<128>(run, "ancestors", j->rows, trf__gpu_ancestors, *j);
}

/* A block a row. */
template <class A> TRF__KERNEL void trf__gpu_remember(trf__remember j)
{
    for (int64_t r = blockIdx.x; r < j.rows; r += gridDim.x)
        for (int64_t c = threadIdx.x; c < j.width && j.slots[r] >= 0; c += blockDim.x)
            ((A *)(void *)j.cache)[j.slots[r] * j.width + c] = ((const A *)(const void *)j.fresh)[r * j.width + c];
}

TRF__FN void trf__cuda_remember(const trf__run *run, const trf__remember *j)
{
    trf__launch<128>(run, "remember", j->rows, TRF__OF_ACT(run, trf__gpu_remember), *j);
}

// >>cuda-advance

/* One block, a thread a sentence: each runs its search; its rows are behind those of lower threads. */
TRF__KERNEL void trf__gpu_advance(trf__advance a)
{
    TRF__SHARED(int32_t, rows, TRF__CUDA_THREADS);
    trf__progress now = trf__advance_from(&a);
    int32_t end = a.progress->n_live + a.begin;
    for (int32_t k0 = now.n_live; k0 < end; k0 += TRF__CUDA_THREADS) {
        int32_t k = k0 + (int32_t)threadIdx.x, live = 0, place = 0, before = 0, number = now.n_live, row = now.rows;
        if (k < end) {
            before = a.begin ? 0 : a.starts[k];
            place = trf__advance_sentence(&a, k);
            live = a.beams[place].live;
        }
        rows[threadIdx.x] = live;
        __syncthreads();
        for (int32_t t = 0; t < TRF__CUDA_THREADS; t++) {
            if (t == (int32_t)threadIdx.x) { number = now.n_live; row = now.rows; }
            now.n_live += rows[t] > 0;
            now.rows += rows[t];
        }
        __syncthreads();                /* all have read their place before anybody takes another's */
        if (live > 0) trf__advance_rows(&a, place, number, row, before, now.at);
    }
    for (int64_t r = now.rows + threadIdx.x; r < a.rows; r += TRF__CUDA_THREADS) trf__advance_nobody(&a, r);
    for (int64_t k = now.n_live + threadIdx.x; k < a.n_cross; k += TRF__CUDA_THREADS) a.cross[k].n_query = 0;
    __syncthreads();                    /* all have read how far it was */
    if (threadIdx.x == 0) *a.progress = now;
}

TRF__FN void trf__cuda_advance(const trf__run *run, const trf__advance *a)
{
    trf__launch(run, "advance", 1, trf__gpu_advance, *a);
}

// >>cuda-state

/* Whether this program has kernels for the device, or why not. */
TRF__FN trf_status trf__cuda_probe(const trf_device *device, trf_error *err)
{
    trf__on_device here(device->index);
    cudaFuncAttributes attributes;
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && n > 0 && device->index >= n)
        return trf__fail(err, TRF_E_BACKEND, -1, "device.index",
                         "this machine has %d CUDA devices, got number %d", n, device->index);
    if (e == cudaSuccess && n > 0) e = cudaFuncGetAttributes(&attributes, trf__gpu_ancestors);
    (void)cudaGetLastError();
    if (e != cudaSuccess || n == 0)
        return trf__fail(err, TRF_E_BACKEND, -1, "CUDA", "CUDA device %d cannot be used: %s",
                         device->index, e == cudaSuccess ? "there is none" : cudaGetErrorString(e));
    return TRF_OK;
}

TRF__FN size_t trf__cuda_state_bytes(const trf__run *, int64_t, int64_t, int64_t)
{
    return sizeof(trf__cuda) + TRF__CUDA_WORKSPACE + TRF__CUDA_SUMS * sizeof(float);
}

/* Nothing depends on the length of sequences. */
TRF__FN trf_status trf__cuda_reserve(trf__run *, int64_t, int64_t, int64_t, trf_error *) { return TRF_OK; }

TRF__FN void trf__cuda_close(trf__run *run)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__on_device here(run->device.index);
    int i;
    if (!cuda) return;
    (void)cudaStreamSynchronize(cudaStreamLegacy);
    for (i = 0; i < TRF__CUDA_STAGES; i++) {
        if (cuda->stages[i].read) (void)cudaEventDestroy(cuda->stages[i].read);
        if (cuda->stages[i].memory) (void)cudaFreeHost(cuda->stages[i].memory);
    }
    for (i = 0; i < TRF__CUDA_LISTS; i++)
        if (cuda->lists[i].graph) (void)cudaGraphExecDestroy(cuda->lists[i].graph);
    if (cuda->recorder) (void)cudaStreamDestroy(cuda->recorder);
    if (cuda->preference) (void)cublasLtMatmulPreferenceDestroy(cuda->preference);
    if (cuda->lt) (void)cublasLtDestroy(cuda->lt);
    if (cuda->workspace) (void)cudaFree(cuda->workspace);
    if (cuda->sums) (void)cudaFree(cuda->sums);
    trf__free(&run->hooks, cuda, sizeof *cuda);
    run->state = NULL;
}

/* Events, a stream and cuBLASLt's handle, or which of them could not be had. */
TRF__FN const char *trf__cuda_make(trf__cuda *cuda)
{
    uint64_t workspace = TRF__CUDA_WORKSPACE;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int i;
    for (i = 0; i < TRF__CUDA_STAGES; i++)
        if (cudaEventCreateWithFlags(&cuda->stages[i].read, cudaEventDisableTiming) != cudaSuccess) return "an event";
    if (cudaStreamCreateWithFlags(&cuda->recorder, cudaStreamNonBlocking) != cudaSuccess) return "a stream";
    if (cublasLtCreate(&cuda->lt)) return "cuBLASLt";
    if (cublasLtMatmulPreferenceCreate(&cuda->preference) ||
        cublasLtMatmulPreferenceSetAttribute(cuda->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace) ||
        cublasLtMatmulPreferenceSetAttribute(cuda->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
                                             sizeof sums)) return "cuBLASLt's preference";
    return NULL;
}

TRF__FN trf_status trf__cuda_open(trf__run *run, trf_error *err)
{
    trf__cuda *cuda = (trf__cuda *)trf__alloc_zeroed(&run->hooks, sizeof *cuda);
    trf__on_device here(run->device.index);
    trf_status status = TRF_OK;
    const char *missing;
    if (!cuda) return trf__fail(err, TRF_E_NOMEM, -1, "backend", "no memory for the state of the device");
    run->state = cuda;
    missing = trf__cuda_make(cuda);
    if (missing) status = trf__fail(err, TRF_E_BACKEND, -1, "CUDA", "CUDA, open: %s cannot be made", missing);
    else if (cudaMalloc(&cuda->workspace, TRF__CUDA_WORKSPACE) != cudaSuccess ||
             cudaMalloc((void **)&cuda->sums, TRF__CUDA_SUMS * sizeof(float)) != cudaSuccess)
        status = trf__fail(err, TRF_E_NOMEM, -1, "backend", "no memory of the device for the scratch of products");
    if (status != TRF_OK) { (void)cudaGetLastError(); trf__cuda_close(run); }
    return status;
}

#endif /* TRF__CUDA */

// -----------------------------------------------------------------------------------------------
// >>column         this file's ops as a table
//
// All chapters above, compiled for one instruction set, end in one constant table. The implementation has its own,
// trf__cpu_backend, for the flags it was built with; other files can add wider ones, among which >>backend chooses at
// run time.
// -----------------------------------------------------------------------------------------------

#define TRF__TEXT_OF(x) #x
#define TRF__TEXT(x) TRF__TEXT_OF(x)

/* Builds that do not fit together have tables of different names, so they do not link: trf_column_v8_avx2. The
   version is raised when the list of ops, what an op means, or a struct of >>ops changes. */
#define TRF__COLUMN_VERSION 9
#if defined(TRF_DOUBLE) && defined(TRF_NO_TRAIN)
#define TRF__COLUMN_KIND _double_translate_
#elif defined(TRF_DOUBLE)
#define TRF__COLUMN_KIND _double_
#elif defined(TRF_NO_TRAIN)
#define TRF__COLUMN_KIND _translate_
#else
#define TRF__COLUMN_KIND _
#endif
#define TRF__COLUMN_SYMBOL(name) TRF__PASTE(TRF__PASTE(trf_column_v, TRF__COLUMN_VERSION), \
                                            TRF__PASTE(TRF__COLUMN_KIND, name))

/* The fields of trf__backend in their order, but for the name. */
#if defined(TRF_NO_TRAIN)
#define TRF__AND_DW(dw)
#else
#define TRF__AND_DW(dw) , dw
#endif
#define TRF__CPU_OP(name, type) , trf__cpu_##name
#define TRF__CPU_TABLE \
    1, 1, trf__cpu_probe, trf__cpu_open, trf__cpu_reserve, trf__cpu_close, trf__cpu_state_bytes, trf__cpu_alloc, \
    trf__cpu_free, trf__cpu_zero, trf__cpu_copy, trf__cpu_copy, trf__cpu_copy, trf__cpu_fetch, trf__cpu_sync, \
    trf__cpu_stream, trf__cpu_fill, trf__cpu_replay, trf__cpu_asked, trf__cpu_element, trf__cpu_loss_room, \
    trf__cpu_top_room, trf__cpu_copy_bytes TRF__OPS(TRF__CPU_OP) TRF__AND_DW(trf__cpu_linear_dw)
#define TRF__CUDA_OP(name, type) , trf__cuda_##name
#define TRF__CUDA_TABLE \
    0, 8, trf__cuda_probe, trf__cuda_open, trf__cuda_reserve, trf__cuda_close, trf__cuda_state_bytes, \
    trf__cuda_alloc, trf__cuda_free, trf__cuda_zero, trf__cuda_copy, trf__cuda_upload, trf__cuda_download, \
    trf__cuda_fetch, \
    trf__cuda_sync, trf__cuda_stream_of, trf__cuda_fill, trf__cuda_replay, trf__cuda_asked, trf__cuda_element, \
    trf__cuda_loss_room, trf__cuda_top_room, trf__cuda_copy_bytes TRF__OPS(TRF__CUDA_OP) \
    TRF__AND_DW(trf__cuda_linear_dw)

#if defined(TRF_COLUMN)
#if defined(__cplusplus)
extern "C" {
#endif
extern const trf__backend TRF__COLUMN_SYMBOL(TRF_COLUMN);
#if TRF__CUDA
const trf__backend TRF__COLUMN_SYMBOL(TRF_COLUMN) = { TRF__TEXT(TRF_COLUMN), TRF__CUDA_TABLE };
#else
const trf__backend TRF__COLUMN_SYMBOL(TRF_COLUMN) = { TRF__TEXT(TRF_COLUMN), TRF__CPU_TABLE };
#endif
#if defined(__cplusplus)
}
#endif
#else
static const trf__backend trf__cpu_backend = {
#if TRF__VECTOR_BYTES == TRF__REAL_BYTES
    "scalar",
#elif TRF__VECTOR_BYTES == 64
    "avx512",
#elif TRF__VECTOR_BYTES == 32
    "avx2",
#else
    "128-bit",
#endif
    TRF__CPU_TABLE
};
#if TRF__CUDA
static const trf__backend trf__cuda_backend = { "cuda", TRF__CUDA_TABLE };
#endif
#endif

#if defined(TRF_IMPLEMENTATION)     /* a column ends here */

// -----------------------------------------------------------------------------------------------
// >>basics         names and tensors
//
// The small functions of >>api-basics; only copying a tensor's numbers can fail.
// -----------------------------------------------------------------------------------------------

TRF_API const char *trf_status_name(trf_status status)
{
    switch (status) {
#define TRF__X(name, value, text) case name: return #name;
    TRF_STATUS_LIST(TRF__X)
#undef TRF__X
    default: return "TRF_E_UNKNOWN";
    }
}

TRF_API trf_tensor trf_tensor_of(trf_real *data, int32_t rank, int64_t n0, int64_t n1, int64_t n2)
{
    trf_tensor tensor;
    TRF__ZERO(tensor);
    tensor.data = data;
    tensor.rank = rank;
    tensor.shape[0] = n0;
    tensor.shape[1] = rank > 1 ? n1 : 1;
    tensor.shape[2] = rank > 2 ? n2 : 1;
    tensor.shape[3] = 1;
    return tensor;
}

TRF_API int64_t trf_tensor_count(const trf_tensor *tensor)
{
    int64_t n = 1;
    int32_t i;
    if (!tensor || tensor->rank < 0 || tensor->rank > TRF_MAX_RANK) return 0;
    for (i = 0; i < tensor->rank; i++) n = trf__times(n, tensor->shape[i]);
    return n;
}

/* Numbers of a tensor to the caller's memory, or with `write` from there. */
TRF__FN trf_status trf__tensor_move(const trf_tensor *tensor, trf_real *numbers, int64_t count, int write,
                                    trf_error *err)
{
    const trf__run *run;
    size_t bytes = trf__bytes(count, sizeof *numbers);
    TRF__TRY(trf__begin(tensor, "tensor", err));
    if (!numbers && count > 0) return trf__fail_null(err, "numbers");
    if (!tensor->data && !tensor->home)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "tensor", "tensor must be a tensor with numbers");
    if (count != trf_tensor_count(tensor))
        return trf__fail(err, TRF_E_SHAPE, -1, "count", "the tensor has %lld numbers, got room for %lld",
                         (long long)trf_tensor_count(tensor), (long long)count);
    if (tensor->data) {
        if (count > 0) memcpy(write ? tensor->data : numbers, write ? numbers : tensor->data, bytes);
        return TRF_OK;
    }
    run = (const trf__run *)tensor->home;
    if (write) run->backend->upload(run, tensor->there, numbers, bytes);
    else run->backend->download(run, numbers, tensor->there, bytes);
    return run->backend->sync(run, err);
}

TRF_API trf_status trf_tensor_read(const trf_tensor *tensor, trf_real *numbers, int64_t count, trf_error *err)
{
    return trf__tensor_move(tensor, numbers, count, 0, err);
}

TRF_API trf_status trf_tensor_write(const trf_tensor *tensor, const trf_real *numbers, int64_t count, trf_error *err)
{
    return trf__tensor_move(tensor, (trf_real *)(uintptr_t)numbers, count, 1, err);
}

// -----------------------------------------------------------------------------------------------
// >>threads        the threads of an object that computes
//
// A team belongs to one object. It computes the tiles of an op together with the thread that calls,
// which is worker 0. Workers 1 and up start when the object is created and have ended when it is
// destroyed, so nothing of them is left in a program that then unloads this code.
//
//   caller   (share) publishes the work, opens `entry` for some workers, raises `round`, wakes who
//            sleeps; takes tiles until none is left, closes `entry`, waits until nobody is inside
//   worker   waits for another round, enters if a place is free, takes tiles until none is left,
//            leaves
//
// The caller never waits for a worker that has not entered: beside busy programs it computes itself
// what its workers do not get to. Who waits looks again and again for some microseconds, because the
// next op of a step comes soon, and then sleeps. Workers block all signals: these are for the threads
// of the program. They take over the floating-point environment of the caller, so that rounding and
// denormal numbers do not depend on who computes a tile. A forked child has no workers: an object of
// its parent computes on the calling thread alone there.
// -----------------------------------------------------------------------------------------------

#if TRF__GNU && (defined(__unix__) || defined(__APPLE__) || defined(__HAIKU__))
#define TRF__PTHREADS 1
#include <pthread.h>
#else
#define TRF__PTHREADS 0
#endif
#if defined(TRF_NO_THREADS) || (defined(__wasm__) && !defined(_REENTRANT))
#define TRF__THREADS 0
#elif TRF__GNU && defined(_WIN32)
#define TRF__THREADS 1
#else
#define TRF__THREADS TRF__PTHREADS
#endif

enum { TRF__MAX_THREADS = 4096 };

/* How many threads an object has that shall have n. */
TRF__FN int trf__threads(int n) { return TRF__THREADS ? n : 1; }

#if !TRF__THREADS

TRF__FN int trf__processors(void) { return 1; }
TRF__FN size_t trf__team_bytes(int threads) { (void)threads; return 0; }

TRF__FN trf_status trf__team_open(int threads, const trf_hooks *hooks, trf__team **team, trf_error *err)
{
    (void)threads; (void)hooks; (void)err;
    *team = NULL;
    return TRF_OK;
}

TRF__FN void trf__team_close(trf__team *team, const trf_hooks *hooks) { (void)team; (void)hooks; }

TRF__FN int trf__team_share(trf__team *team, int workers, const trf__tiling *work)
{
    (void)team; (void)workers; (void)work;
    return 0;
}

#else
#include <fenv.h>

enum {
    TRF__STACK = 256 << 10,     /* bytes of a worker's stack; a tile needs less than a tenth of it */
    TRF__SPINS = 1000,          /* 10 to 60 microseconds: processors differ in how long a pause is */
    TRF__PLACE = 1 << 16        /* see trf__team */
};

typedef struct trf__worker trf__worker;
TRF__FN void trf__worker_run(trf__worker *worker);

/* Locks, conditions and threads of the two kinds of systems. */
#if defined(_WIN32)
#include <process.h>
#if defined(__cplusplus)
extern "C" {
#endif
struct _RTL_SRWLOCK;
struct _RTL_CONDITION_VARIABLE;
__declspec(dllimport) void __stdcall AcquireSRWLockExclusive(struct _RTL_SRWLOCK *);
__declspec(dllimport) void __stdcall ReleaseSRWLockExclusive(struct _RTL_SRWLOCK *);
__declspec(dllimport) int __stdcall SleepConditionVariableSRW(
    struct _RTL_CONDITION_VARIABLE *, struct _RTL_SRWLOCK *, unsigned long, unsigned long);
__declspec(dllimport) void __stdcall WakeConditionVariable(struct _RTL_CONDITION_VARIABLE *);
__declspec(dllimport) void __stdcall WakeAllConditionVariable(struct _RTL_CONDITION_VARIABLE *);
__declspec(dllimport) unsigned long __stdcall WaitForSingleObject(void *, unsigned long);
__declspec(dllimport) int __stdcall CloseHandle(void *);
__declspec(dllimport) unsigned long __stdcall GetActiveProcessorCount(unsigned short);
#if defined(__cplusplus)
}
#endif

typedef uintptr_t trf__thread;
typedef void *trf__lock;            /* SRWLOCK and CONDITION_VARIABLE: a pointer each, NULL at first */
typedef void *trf__condition;
#define TRF__SRW(lock) ((struct _RTL_SRWLOCK *)(void *)(lock))
#define TRF__CONDITION(condition) ((struct _RTL_CONDITION_VARIABLE *)(void *)(condition))

TRF__FN int trf__lock_make(trf__lock *lock) { *lock = NULL; return 1; }
TRF__FN void trf__lock_end(trf__lock *lock) { (void)lock; }
TRF__FN void trf__lock_take(trf__lock *lock) { AcquireSRWLockExclusive(TRF__SRW(lock)); }
TRF__FN void trf__lock_give(trf__lock *lock) { ReleaseSRWLockExclusive(TRF__SRW(lock)); }
TRF__FN int trf__condition_make(trf__condition *c) { *c = NULL; return 1; }
TRF__FN void trf__condition_end(trf__condition *c) { (void)c; }
TRF__FN void trf__condition_wait(trf__condition *c, trf__lock *lock)
{
    SleepConditionVariableSRW(TRF__CONDITION(c), TRF__SRW(lock), 0xFFFFFFFFu /* INFINITE */, 0);
}
TRF__FN void trf__condition_wake(trf__condition *c) { WakeConditionVariable(TRF__CONDITION(c)); }
TRF__FN void trf__condition_wake_all(trf__condition *c) { WakeAllConditionVariable(TRF__CONDITION(c)); }

static unsigned __stdcall trf__thread_main(void *worker)
{
    trf__worker_run((trf__worker *)worker);
    return 0;
}

TRF__FN int trf__thread_start(trf__thread *thread, trf__worker *worker)
{
    *thread = _beginthreadex(NULL, TRF__STACK, trf__thread_main, worker, 0x10000 /* reserve */, NULL);
    return *thread != 0;
}

TRF__FN void trf__thread_end(trf__thread thread)
{
    WaitForSingleObject((void *)thread, 0xFFFFFFFFu /* INFINITE */);
    CloseHandle((void *)thread);
}

TRF__FN long trf__process_id(void) { return 0; }        /* nothing forks */

TRF__FN int trf__processors(void)
{
    unsigned long n = GetActiveProcessorCount(0);       /* the process's group, of up to 64 */
    return n < 1 ? 1 : n < TRF__MAX_THREADS ? (int)n : TRF__MAX_THREADS;
}
#else
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* Strict C hides these from who includes their headers; the layouts are those of Linux. */
#if defined(__cplusplus)
extern "C" {
#endif
#if defined(SIG_SETMASK)
typedef sigset_t trf__signals;
#define TRF__SETMASK SIG_SETMASK
#else
typedef struct trf__signals { unsigned long bits[128 / sizeof(long)]; } trf__signals;
int sigfillset(trf__signals *);
#if defined(__mips__) || defined(__alpha__)
#define TRF__SETMASK 3
#elif defined(__sparc__)
#define TRF__SETMASK 4
#else
#define TRF__SETMASK 2
#endif
#endif
#if !defined(SIG_SETMASK) || (defined(__GLIBC__) && !defined(__USE_POSIX199506))
int pthread_sigmask(int, const trf__signals *, trf__signals *);
#endif
#if defined(CPU_SETSIZE)
typedef cpu_set_t trf__processor_set;
#elif defined(__linux__)
typedef unsigned long trf__processor_set;
int sched_getaffinity(int, size_t, trf__processor_set *);
#endif
#if defined(__cplusplus)
}
#endif

typedef pthread_t trf__thread;
typedef pthread_mutex_t trf__lock;
typedef pthread_cond_t trf__condition;

TRF__FN int trf__lock_make(trf__lock *lock) { return !pthread_mutex_init(lock, NULL); }
TRF__FN void trf__lock_end(trf__lock *lock) { pthread_mutex_destroy(lock); }
TRF__FN void trf__lock_take(trf__lock *lock) { pthread_mutex_lock(lock); }
TRF__FN void trf__lock_give(trf__lock *lock) { pthread_mutex_unlock(lock); }
TRF__FN int trf__condition_make(trf__condition *c) { return !pthread_cond_init(c, NULL); }
TRF__FN void trf__condition_end(trf__condition *c) { pthread_cond_destroy(c); }
TRF__FN void trf__condition_wait(trf__condition *c, trf__lock *lock) { pthread_cond_wait(c, lock); }
TRF__FN void trf__condition_wake(trf__condition *c) { pthread_cond_signal(c); }
TRF__FN void trf__condition_wake_all(trf__condition *c) { pthread_cond_broadcast(c); }

TRF__FN void *trf__thread_main(void *worker)
{
    trf__worker_run((trf__worker *)worker);
    return NULL;
}

/* Signals are blocked from its first instruction on, as a thread begins with the mask of who starts
   it. A stack of the usual size is the second choice: thread-local data of the program lie on it. */
TRF__FN int trf__thread_start(trf__thread *thread, trf__worker *worker)
{
    pthread_attr_t attributes;
    trf__signals all, before;
    int started = 0;
    sigfillset(&all);
    pthread_sigmask(TRF__SETMASK, &all, &before);
    if (!pthread_attr_init(&attributes)) {
        pthread_attr_setstacksize(&attributes, TRF__STACK);
        started = !pthread_create(thread, &attributes, trf__thread_main, worker) ||
                  !pthread_create(thread, NULL, trf__thread_main, worker);
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(TRF__SETMASK, &before, NULL);
    return started;
}

TRF__FN void trf__thread_end(trf__thread thread) { pthread_join(thread, NULL); }

TRF__FN long trf__process_id(void) { return (long)getpid(); }

/* Those that this process may run on. */
TRF__FN int trf__processors(void)
{
    long n = 0;
#if defined(CPU_SETSIZE) || defined(__linux__)
    unsigned long set[TRF__MAX_THREADS / (8 * sizeof(long))];
    size_t i;
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, (trf__processor_set *)(void *)set) >= 0)
        for (i = 0; i < sizeof set / sizeof *set; i++)
            for (; set[i]; set[i] &= set[i] - 1) n++;      /* each turn clears the lowest bit */
#endif
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n < TRF__MAX_THREADS ? (int)n : TRF__MAX_THREADS;
}
#endif

struct trf__worker { trf__team *team; int number; trf__thread thread; };

/* What is written while others look at it has a line of the cache of its own. */
struct trf__team {
    intptr_t next;                      /* the next tile */
    char apart1[TRF__ALIGN - sizeof(intptr_t)];
    uint32_t entry;                     /* workers inside + TRF__PLACE * workers that may enter */
    char apart2[TRF__ALIGN - sizeof(uint32_t)];
    uint32_t round;                     /* counts works; the caller alone writes what follows */
    int spins, threads, caller_sleeps, ending;
    long process;
    const trf__tiling *work;
    fenv_t environment;
    trf__lock lock;                     /* for going to sleep, and what is written by who does: */
    trf__condition wake, left;          /* there is another round; nobody is inside any more */
    int sleeping;                       /* workers */
    trf__worker workers[1];             /* threads - 1 */
};

TRF__FN size_t trf__team_bytes(int threads)
{
    size_t first = offsetof(trf__team, workers);
    return threads < 2 ? 0 : trf__add_size(first, trf__bytes(threads - 1, sizeof(trf__worker)));
}

TRF__INLINE void trf__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");            /* "yield" takes no time on most */
#endif
}

TRF__FN void trf__take_tiles(trf__team *team, const trf__tiling *work, int worker)
{
    int64_t tile;
    while ((tile = __atomic_fetch_add(&team->next, 1, __ATOMIC_RELAXED)) < work->n_tiles) {
        TRF__TILE_HOOK(work, worker);
        work->function(work->run, work->job, tile, worker);
    }
}

/* The number of a round that is not `seen`. */
TRF__FN uint32_t trf__await_round(trf__team *team, uint32_t seen)
{
    uint32_t round;
    int i;
    for (i = 0; i < team->spins; i++) {
        if ((round = __atomic_load_n(&team->round, __ATOMIC_ACQUIRE)) != seen) return round;
        trf__pause();
    }
    trf__lock_take(&team->lock);
    __atomic_add_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    while ((round = __atomic_load_n(&team->round, __ATOMIC_SEQ_CST)) == seen)
        trf__condition_wait(&team->wake, &team->lock);
    __atomic_sub_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    trf__lock_give(&team->lock);
    return round;
}

TRF__FN int trf__enter(trf__team *team)
{
    uint32_t entry = __atomic_load_n(&team->entry, __ATOMIC_RELAXED);
    while (entry >= TRF__PLACE)
        if (__atomic_compare_exchange_n(&team->entry, &entry, entry - TRF__PLACE + 1, 0,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return 1;
    return 0;
}

TRF__FN void trf__leave(trf__team *team)
{
    if (__atomic_sub_fetch(&team->entry, 1, __ATOMIC_SEQ_CST) > 0) return;
    if (!__atomic_load_n(&team->caller_sleeps, __ATOMIC_SEQ_CST)) return;
    trf__lock_take(&team->lock);
    trf__lock_give(&team->lock);
    trf__condition_wake(&team->left);
}

TRF__FN void trf__worker_run(trf__worker *worker)
{
    trf__team *team = worker->team;
    uint32_t seen = 0;
    for (;;) {
        seen = trf__await_round(team, seen);
        if (__atomic_load_n(&team->ending, __ATOMIC_RELAXED)) return;
        if (!trf__enter(team)) continue;
        fesetenv(&team->environment);
        trf__take_tiles(team, team->work, worker->number);
        trf__leave(team);
    }
}

/* There is another round, for so many workers. */
TRF__FN void trf__wake_workers(trf__team *team, int wanted)
{
    int sleeping;
    __atomic_add_fetch(&team->round, 1, __ATOMIC_SEQ_CST);
    sleeping = __atomic_load_n(&team->sleeping, __ATOMIC_SEQ_CST);
    if (sleeping == 0) return;
    trf__lock_take(&team->lock);        /* who is about to sleep either sleeps now or has seen the round */
    trf__lock_give(&team->lock);
    if (wanted >= sleeping) trf__condition_wake_all(&team->wake);
    else while (wanted-- > 0) trf__condition_wake(&team->wake);
}

TRF__FN void trf__await_workers(trf__team *team)
{
    int i;
    for (i = 0; i < team->spins; i++) {
        if (__atomic_load_n(&team->entry, __ATOMIC_ACQUIRE) == 0) return;
        trf__pause();
    }
    trf__lock_take(&team->lock);
    __atomic_store_n(&team->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&team->entry, __ATOMIC_SEQ_CST) > 0)
        trf__condition_wait(&team->left, &team->lock);
    __atomic_store_n(&team->caller_sleeps, 0, __ATOMIC_SEQ_CST);
    trf__lock_give(&team->lock);
}

TRF__FN int trf__team_share(trf__team *team, int workers, const trf__tiling *work)
{
    int places = (int)trf__min64(workers < team->threads ? workers : team->threads, work->n_tiles) - 1;
    if (team->process != trf__process_id()) return 0;
    fegetenv(&team->environment);
    team->work = work;
    team->next = 0;
    __atomic_store_n(&team->entry, (uint32_t)(places * TRF__PLACE), __ATOMIC_RELEASE);
    trf__wake_workers(team, places);
    trf__take_tiles(team, work, 0);
    if (__atomic_and_fetch(&team->entry, TRF__PLACE - 1, __ATOMIC_ACQ_REL)) trf__await_workers(team);
    return 1;
}

/* Ends the first n workers, and the team. A forked child has none to wait for. */
TRF__FN void trf__team_end(trf__team *team, int n, const trf_hooks *hooks)
{
    if (team->process == trf__process_id()) {
        __atomic_store_n(&team->ending, 1, __ATOMIC_RELAXED);
        trf__wake_workers(team, n);
        while (n-- > 0) trf__thread_end(team->workers[n].thread);
        trf__condition_end(&team->left);
        trf__condition_end(&team->wake);
        trf__lock_end(&team->lock);
    }
    trf__free(hooks, team, trf__team_bytes(team->threads));
}

TRF__FN void trf__team_close(trf__team *team, const trf_hooks *hooks)
{
    if (team) trf__team_end(team, team->threads - 1, hooks);
}

TRF__FN int trf__team_make(trf__team *team)
{
    if (!trf__lock_make(&team->lock)) return 0;
    if (trf__condition_make(&team->wake)) {
        if (trf__condition_make(&team->left)) return 1;
        trf__condition_end(&team->wake);
    }
    trf__lock_end(&team->lock);
    return 0;
}

/* Starts a team, or with one thread none. */
TRF__FN trf_status trf__team_open(int threads, const trf_hooks *hooks, trf__team **to, trf_error *err)
{
    trf__team *team;
    int n;
    *to = NULL;
    if (threads < 2) return TRF_OK;
    team = (trf__team *)trf__alloc_zeroed(hooks, trf__team_bytes(threads));
    if (!team) return trf__fail(err, TRF_E_NOMEM, -1, "threads", "no memory for %d threads", threads);
    team->threads = threads;
    team->process = trf__process_id();
    team->spins = threads > trf__processors() ? 0 : TRF__SPINS;     /* who looks keeps others waiting */
    if (!trf__team_make(team)) {
        trf__free(hooks, team, trf__team_bytes(threads));
        return trf__fail(err, TRF_E_NOMEM, -1, "threads", "the system has no locks left");
    }
    for (n = 0; n < threads - 1; n++) {
        trf__worker *worker = &team->workers[n];
        worker->team = team;
        worker->number = n + 1;
        if (!trf__thread_start(&worker->thread, worker)) break;
    }
    if (n < threads - 1) {
        trf__team_end(team, n, hooks);
        return trf__fail(err, TRF_E_NOMEM, -1, "threads", "the system cannot start %d of %d threads",
                         threads - 1 - n, threads);
    }
    *to = team;
    return TRF_OK;
}
#endif

TRF_API trf_device trf_device_default(void)
{
    trf_device device;
    TRF__ZERO(device);
    device.threads = trf__processors();
    return device;
}

// -----------------------------------------------------------------------------------------------
// >>backend        which table computes; OpenBLAS
//
// Whoever computes (trainer, translator, generator, context, updater) opens a trf__run and calls ops through it; a
// model has one that only knows where memory is. For the CPU the widest column is chosen that was compiled in and
// that this processor has. Opening decides whether CBLAS may be used, and makes all that workers need: threads,
// OpenBLAS's buffers. After it no op allocates.
// -----------------------------------------------------------------------------------------------

#if !defined(TRF_NO_CBLAS) && TRF__PTHREADS && !defined(__APPLE__)
#define TRF__ASK_OPENBLAS 1
#else
#define TRF__ASK_OPENBLAS 0
#endif

/* Columns compiled in other files (`#define TRF_COLUMN avx2` there, -DTRF_WITH_AVX2 here). */
#if defined(__cplusplus)
extern "C" {
#endif
#if defined(TRF_WITH_AVX2)
extern const trf__backend TRF__COLUMN_SYMBOL(avx2);
#endif
#if defined(TRF_WITH_AVX512)
extern const trf__backend TRF__COLUMN_SYMBOL(avx512);
#endif
#if defined(TRF_WITH_CUDA)
extern const trf__backend TRF__COLUMN_SYMBOL(cuda);
#endif
#if TRF__ASK_OPENBLAS               /* in other libraries these are NULL */
extern int openblas_get_parallel(void) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int) __attribute__((weak));
extern void *blas_memory_alloc(int) __attribute__((weak));
extern void blas_memory_free(void *) __attribute__((weak));
extern int exec_blas_async(long, void *) __attribute__((weak));
#endif
#if defined(__cplusplus)
}
#endif

#if defined(TRF__TEST_BACKEND)      /* tests put a device of their own in the place of the CPU */
static const trf__backend *TRF__TEST_BACKEND(const trf__backend *cpu);
#define TRF__BACKEND(cpu) TRF__TEST_BACKEND(cpu)
#else
#define TRF__BACKEND(cpu) (cpu)
#endif

/* The backend of a kind of device, or NULL if this copy was built without it. */
TRF__FN const trf__backend *trf__backend_of(trf_device_kind kind)
{
#if defined(TRF_WITH_CUDA)
    if (kind == TRF_DEVICE_CUDA) return &TRF__COLUMN_SYMBOL(cuda);
#elif TRF__CUDA
    if (kind == TRF_DEVICE_CUDA) return &trf__cuda_backend;
#endif
    if (kind != TRF_DEVICE_CPU) return NULL;
#if defined(TRF_WITH_AVX512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
        return TRF__BACKEND(&TRF__COLUMN_SYMBOL(avx512));
#endif
#if defined(TRF_WITH_AVX2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return TRF__BACKEND(&TRF__COLUMN_SYMBOL(avx2));
#endif
    return TRF__BACKEND(&trf__cpu_backend);
}

#if TRF__ASK_OPENBLAS
enum { TRF__BLAS_CALLERS = 64, TRF__BLAS_BUFFER = 128 << 20 };

/* OpenBLAS has one thread number and one set of buffers for the whole process, so this, which guards them, is the
   one state of the library that is in no object (but for the last words of a CUDA device, >>launches). While an op
   calls CBLAS the number is 1, since the threads are ours: the first caller in remembers it, the last one out gives
   it back, unless the program has changed it meanwhile. More callers at a time than there are buffers, twice
   MAX_THREADS, would crash: ours take half of them, and are let in in the order in which they came, so that no team
   starves. What a program must not do: change the number while an op runs (the bits may change), cancel a thread
   inside a call, compute in a child that was forked while an op ran, or compute with two copies of the
   implementation at once (each has a guard of its own). Who waits has a condition of its own: one for all would
   wake all. */
typedef struct trf__waiting { pthread_cond_t turn; struct trf__waiting *behind; } trf__waiting;

static struct trf__openblas {
    pthread_mutex_t lock;
    trf__waiting *first, *last; /* who waits */
    int inside, places;         /* callers now, and at most; places 0: nobody has asked yet */
    int number;                 /* OpenBLAS's thread number while no caller is inside */
    int64_t threads;            /* of all open runs */
    int buffers;                /* made for them */
} trf__openblas = { PTHREAD_MUTEX_INITIALIZER, NULL, NULL, 0, 0, 1, 0, 0 };

/* Waits behind those who came before until `wanted` places are free. */
TRF__FN void trf__products_wait(struct trf__openblas *o, int wanted)
{
    trf__waiting me;
    pthread_cond_init(&me.turn, NULL);
    me.behind = NULL;
    if (o->last) o->last->behind = &me; else o->first = &me;
    o->last = &me;
    while (o->first != &me || o->inside + wanted > o->places) pthread_cond_wait(&me.turn, &o->lock);
    o->first = me.behind;
    if (!o->first) o->last = NULL;
    pthread_cond_destroy(&me.turn);
}

TRF__FN int trf__products_enter(int wanted)
{
    struct trf__openblas *o = &trf__openblas;
    pthread_mutex_lock(&o->lock);
    if (wanted > o->places) wanted = o->places;
    if (o->first || o->inside + wanted > o->places) trf__products_wait(o, wanted);
    if (o->inside == 0) {
        o->number = openblas_get_num_threads();
        if (o->number != 1) openblas_set_num_threads(1);
    }
    o->inside += wanted;
    if (o->first) pthread_cond_signal(&o->first->turn);
    pthread_mutex_unlock(&o->lock);
    return wanted;
}

TRF__FN void trf__products_leave(int taken)
{
    struct trf__openblas *o = &trf__openblas;
    pthread_mutex_lock(&o->lock);
    o->inside -= taken;
    if (o->inside == 0 && o->number != 1 && openblas_get_num_threads() == 1) openblas_set_num_threads(o->number);
    if (o->first) pthread_cond_signal(&o->first->turn);
    pthread_mutex_unlock(&o->lock);
}

static const trf__gate trf__openblas_gate = { trf__products_enter, trf__products_leave };

/* Makes OpenBLAS hold `wanted` buffers, by asking for so many at once. Where one cannot be had its search never ends,
   so we ask for the same memory first. */
TRF__FN int trf__buffers_make(int wanted)
{
    void *held[TRF__BLAS_CALLERS];
    int taken = trf__products_enter(wanted), n, made;
    for (n = 0; n < taken; n++) {
        void *volatile probe = malloc(TRF__BLAS_BUFFER);        /* volatile: else compilers leave it out */
        int fits = probe != NULL;
        free(probe);
        held[n] = fits ? blas_memory_alloc(1) : NULL;
        if (!held[n]) break;
    }
    made = n == taken;
    while (n-- > 0) blas_memory_free(held[n]);
    trf__products_leave(taken);
    return made;
}

/* Counts `threads` more callers, or fewer; how many buffers they need. */
TRF__FN int trf__openblas_count(int threads)
{
    int64_t wanted;
    pthread_mutex_lock(&trf__openblas.lock);
    trf__openblas.threads += threads;
    wanted = trf__min64(trf__openblas.threads, trf__openblas.places);
    pthread_mutex_unlock(&trf__openblas.lock);
    return (int)wanted;
}

/* Only the pthread build fits: the serial one is wrong under several callers, and the OpenMP one's thread number is
   that of the program's own OpenMP. Where OpenBLAS is linked statically only what its products need is there. */
TRF__FN int trf__openblas_fits(void)
{
    return (!openblas_get_parallel || openblas_get_parallel() == 1) && exec_blas_async && openblas_get_num_threads &&
           openblas_set_num_threads && blas_memory_alloc && blas_memory_free;
}

/* Half of the buffers there are. Asked once, as OpenBLAS writes its answer anew at every call, in one place. */
TRF__FN int trf__openblas_places(void)
{
    const char *most = openblas_get_config ? strstr(openblas_get_config(), "MAX_THREADS=") : NULL;
    int places = most ? atoi(most + 12) : 0;
    if (places < 1) places = TRF__BLAS_CALLERS / 2;
    return places < TRF__BLAS_CALLERS ? places : TRF__BLAS_CALLERS;
}

/* Counts `threads` more callers and makes the buffers that are missing. */
TRF__FN trf_status trf__openblas_open(int threads, trf_error *err)
{
    struct trf__openblas *o = &trf__openblas;
    int wanted, made;
    pthread_mutex_lock(&o->lock);
    if (o->places == 0) o->places = trf__openblas_places();
    made = o->buffers;
    pthread_mutex_unlock(&o->lock);
    wanted = trf__openblas_count(threads);
    if (wanted <= made) return TRF_OK;
    if (!trf__buffers_make(wanted)) {
        trf__openblas_count(-threads);
        return trf__fail(err, TRF_E_NOMEM, -1, "OpenBLAS", "no address space for OpenBLAS's buffers: %d of %d bytes",
                         wanted, (int)TRF__BLAS_BUFFER);
    }
    pthread_mutex_lock(&o->lock);
    if (o->buffers < wanted) o->buffers = wanted;
    pthread_mutex_unlock(&o->lock);
    return TRF_OK;
}
#endif

/* Makes CBLAS ready if large products shall go there (blas), or says that they cannot. */
TRF__FN trf_status trf__products_open(trf__cpu *cpu, const trf_hooks *hooks, trf_error *err)
{
    (void)hooks; (void)err;
    if (!cpu->blas) return TRF_OK;
#if defined(TRF_NO_CBLAS)
    cpu->blas = 0;
#else
#if TRF__ASK_OPENBLAS
    if (!openblas_get_parallel && !blas_memory_alloc) return TRF_OK;      /* another library: used as it is */
    cpu->blas = trf__openblas_fits();
    if (cpu->blas) {
        TRF__TRY(trf__openblas_open(cpu->threads, err));
        cpu->gate = &trf__openblas_gate;
    } else trf__log(hooks, TRF_LOG_WARNING,
                    "OpenBLAS is not here as its build for pthreads: the built-in product is used");
#endif
#endif
    return TRF_OK;
}

/* Gives back what trf__products_open counted; OpenBLAS keeps its buffers. */
TRF__FN void trf__products_close(trf__cpu *cpu)
{
#if TRF__ASK_OPENBLAS
    if (cpu->gate) trf__openblas_count(-cpu->threads);
#endif
    cpu->gate = NULL;
}

TRF__FN trf_status trf__process_open(trf__cpu *cpu, const trf_hooks *hooks, trf_error *err)
{
    TRF__TRY(trf__team_open(cpu->threads, hooks, &cpu->team, err));
    return trf__products_open(cpu, hooks, err);
}

TRF__FN void trf__process_close(trf__cpu *cpu, const trf_hooks *hooks)
{
    trf__products_close(cpu);
    trf__team_close(cpu->team, hooks);
}

static const trf__process trf__this_process = {
    trf__process_open, trf__process_close, trf__team_share, trf__team_bytes
};

/* Knows where memory is; run.backend->open makes it compute. The device has been checked. */
TRF__FN trf__run trf__run_on(const trf_device *device, const trf_hooks *hooks)
{
    trf__run run;
    TRF__ZERO(run);
    run.backend = trf__backend_of(device->kind);
    run.device = *device;
    run.device.threads = trf__threads(device->threads);
    run.hooks = *hooks;
    run.element = run.backend->element(device);
    run.process = &trf__this_process;
    return run;
}

/* Room on the device that grows when more is wanted than it has; what was in it is lost. */
typedef struct trf__room { void *memory; size_t bytes; } trf__room;

TRF__FN trf_status trf__room_for(const trf__run *run, trf__room *room, size_t bytes, trf_error *err)
{
    void *bigger;
    if (bytes <= room->bytes) return TRF_OK;
    bigger = run->backend->alloc(run, bytes);
    if (!bigger)
        return trf__fail(err, TRF_E_NOMEM, -1, "room", "no memory for %llu bytes", (unsigned long long)bytes);
    run->backend->release(run, room->memory, room->bytes);
    room->memory = bigger;
    room->bytes = bytes;
    return TRF_OK;
}

/* Memory of the device, all zero; NULL if there is none. */
TRF__FN void *trf__device_zeroed(const trf__run *run, size_t bytes)
{
    void *memory = run->backend->alloc(run, bytes);
    if (memory) run->backend->zero(run, memory, bytes);
    return memory;
}

TRF_API const char *trf_build_info(void)
{
    return "transformer.h " TRF_VERSION
#if defined(TRF_DOUBLE)
        ", double"
#else
        ", float"
#endif
        ", vectors of " TRF__TEXT(TRF__VECTOR_BYTES) " bytes"
#if defined(TRF_NO_CBLAS)
        ", built-in products"
#else
        ", CBLAS"
#endif
#if TRF__THREADS
        ", threads"
#else
        ", one thread"
#endif
#if defined(TRF_WITH_AVX2)
        ", column avx2"
#endif
#if defined(TRF_WITH_AVX512)
        ", column avx512"
#endif
#if defined(TRF_WITH_CUDA) || TRF__CUDA
        ", CUDA"
#endif
#if defined(TRF_NO_TRAIN)
        ", no training"
#endif
#if TRF__SLOW
        ", not optimised"
#endif
        ;
}

// -----------------------------------------------------------------------------------------------
// >>text           numbers as text, UTF-8, sorting, CRC-32
//
// Numbers in files are ASCII whatever the locale of the program: '.' is the decimal point, 9 significant
// digits hold a float and 17 a double, exactly. The sort is a heap sort: no recursion, no memory, no
// input that makes it slow. CRC-32 is that of zip and PNG (IEEE 802.3, polynomial 0xEDB88320 reflected).
// -----------------------------------------------------------------------------------------------

/* 0.1 -> "0.1" with 9 digits, "0.10000000000000001" with 17. Needs 32 bytes. */
TRF__FN void trf__print_real(char *to, size_t size, double x, int digits)
{
    char text[64];
    size_t n = 0;
    const char *c;
    if (size == 0) return;
    if (x != x) snprintf(text, sizeof text, "nan");
    else if (!trf__is_finite(x)) snprintf(text, sizeof text, x < 0 ? "-inf" : "inf");
    else snprintf(text, sizeof text, "%.*g", digits < 1 ? 1 : digits > 17 ? 17 : digits, x);
    for (c = text; *c && n + 1 < size; c++) {
        if ((*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || (*c >= 'a' && *c <= 'z')) to[n++] = *c;
        else if (n == 0 || to[n - 1] != '.') to[n++] = '.';    /* the locale's point, of one byte or several */
    }
    to[n] = 0;
}

/* 0|-?[1-9][0-9]*, and it must fit. 1: *x is set. 0: it is not, and *x is as it was. */
TRF__FN int trf__parse_int(const char *text, int64_t *x)
{
    int negative = *text == '-';
    uint64_t value = 0, most = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    const char *c = text + negative;
    if (*c < '0' || *c > '9' || (*c == '0' && (c[1] || negative))) return 0;
    for (; *c; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (*c < '0' || *c > '9' || value > (most - digit) / 10) return 0;
        value = value * 10 + digit;
    }
    *x = negative ? -(int64_t)(value - 1) - 1 : (int64_t)value;
    return 1;
}

/* A decimal number, "inf", "-inf" or "nan"; the whole text must be one, and within the range of double.
   1: *x is set. 0: it is not. "-1.25e3" becomes "-125e1" for strtod: where no point is written, no
   locale can have another one. */
TRF__FN int trf__parse_real(const char *text, double *x)
{
    char plain[96];
    size_t n = 0, digits = 0;
    int64_t exponent = 0;
    int point = 0;
    const char *c = text;
    double value;
    if (!strcmp(text, "nan")) { *x = (double)NAN; return 1; }
    if (!strcmp(text, "inf")) { *x = (double)INFINITY; return 1; }
    if (!strcmp(text, "-inf")) { *x = -(double)INFINITY; return 1; }
    if (*c == '-') plain[n++] = *c++;
    for (; (*c >= '0' && *c <= '9') || (*c == '.' && !point && digits); c++) {
        if (*c == '.') { point = 1; continue; }
        if (++digits > 64) return 0;
        plain[n++] = *c;
        exponent -= point;
    }
    if (!digits || c[-1] == '.') return 0;
    if (*c == 'e' || *c == 'E') {
        int negative = c[1] == '-';
        int64_t written = 0;
        c += c[1] == '-' || c[1] == '+' ? 2 : 1;
        if (!*c) return 0;
        for (; *c >= '0' && *c <= '9'; c++) if (written < 100000) written = written * 10 + (*c - '0');
        exponent += negative ? -written : written;
    }
    if (*c) return 0;
    snprintf(plain + n, sizeof plain - n, "e%ld", (long)exponent);
    value = strtod(plain, NULL);
    if (!trf__is_finite(value)) return 0;
    *x = value;
    return 1;
}

/* Offset of the first byte that is not UTF-8, or -1. */
TRF__FN int64_t trf__utf8_fault(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        int bytes = trf__utf8_at(text + i, n - i);
        if (bytes == 0) return (int64_t)i;
        i += (size_t)bytes;
    }
    return -1;
}

/* Sorts pointers by compare(context, a, b) < 0. */
TRF__FN void trf__sort(const void **items, size_t n, int (*compare)(const void *, const void *, const void *),
                       const void *context)
{
    size_t first = n / 2, end = n;
    while (end > 1) {
        const void *item;
        size_t hole, child;
        if (first > 0) item = items[--first];           /* build the heap ... */
        else {                                          /* ... then take the largest off, again and again */
            item = items[--end];
            items[end] = items[0];
        }
        hole = first;
        while ((child = 2 * hole + 1) < end) {
            if (child + 1 < end && compare(context, items[child], items[child + 1]) < 0) child++;
            if (compare(context, item, items[child]) >= 0) break;
            items[hole] = items[child];
            hole = child;
        }
        items[hole] = item;
    }
}

/* Text that is counted first (to = NULL) and written the second time. */
typedef struct trf__text { char *to; size_t n; } trf__text;

TRF__FN void trf__put_bytes(trf__text *text, const char *s, size_t n)
{
    if (text->to) memcpy(text->to + text->n, s, n);
    text->n += n;
}

TRF__FN void trf__put(trf__text *text, const char *s) { trf__put_bytes(text, s, strlen(s)); }

/* Numbers and other short texts: at most 63 bytes. */
TRF__FN TRF__PRINTF(2, 3) void trf__putf(trf__text *text, const char *format, ...)
{
    char s[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s, sizeof s, format, arguments);
    va_end(arguments);
    trf__put(text, s);
}

/* A string of JSON, in its quotes; in no other way is it shorter. */
TRF__FN void trf__put_string(trf__text *text, const char *s)
{
    static const char letters[] = "btn?fr";         /* of the bytes 8 to 13; 11 has none */
    trf__put(text, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') trf__put(text, "\\");
        if (c >= 32) trf__put_bytes(text, s, 1);
        else if (c < 8 || c == 11 || c > 13) trf__putf(text, "\\u%04x", (unsigned)c);
        else trf__putf(text, "\\%c", letters[c - 8]);
    }
    trf__put(text, "\"");
}

TRF__FN uint64_t trf__from_little(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    int i;
    for (i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}

TRF__FN double trf__from_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return (double)x; }

/* Sixteen bytes at a time: table[k][b] is what byte b does k bytes further on. */
typedef struct trf__crc { uint32_t table[16][256], value; } trf__crc;

TRF__FN void trf__crc_begin(trf__crc *crc)
{
    uint32_t i, k, bits;
    for (i = 0; i < 256; i++) {
        for (bits = i, k = 0; k < 8; k++) bits = bits >> 1 ^ (bits & 1 ? 0xEDB88320u : 0);
        crc->table[0][i] = bits;
    }
    for (k = 1; k < 16; k++)
        for (i = 0; i < 256; i++)
            crc->table[k][i] = crc->table[k - 1][i] >> 8 ^ crc->table[0][crc->table[k - 1][i] & 255];
    crc->value = 0;
}

TRF__FN void trf__crc_add(trf__crc *crc, const void *data, size_t n)
{
    const unsigned char *p = (const unsigned char *)data;
    uint32_t c = ~crc->value, next;
    int k;
    for (; n >= 16; n -= 16, p += 16, c = next)
        TRF__UNROLL for (next = 0, k = 0; k < 16; k++)
            next ^= crc->table[15 - k][k < 4 ? (p[k] ^ c >> 8 * k) & 255 : p[k]];
    for (; n > 0; n--, p++) c = c >> 8 ^ crc->table[0][(c ^ *p) & 255];
    crc->value = ~c;
}

// -----------------------------------------------------------------------------------------------
// >>vocab          words and characters as numbers
//
// A vocabulary learns by counting and is finished once; from then on tokens are only added behind the others
// (trf_vocab_add). All tokens stand in one block of bytes, each with a NUL behind it; a hash table (open addressing,
// linear probing, at most half full) finds them. While learning, the table holds every token seen; finishing keeps
// the frequent ones, in the order of their ids: token i of the array has the id i + 4. Until then the size is 4.
//
// Ids 0 to 3 read "<pad>", "<s>", "</s>", "<unk>". Words and characters so spelled are never learned: "<s>" in a
// text is an unknown word like any other (id 3), so no text can smuggle in a special id. (A SentencePiece model may
// have a piece so spelled, with an id of its own.) Text is strict UTF-8: no overlong forms, no surrogates, nothing
// above U+10FFFF. Blanks separate words, and are tokens like all others among characters. A token has at most 1 MiB.
//
// Files store the bytes of a finished vocabulary as they lie in memory: the tokens from id 4 on, each with a NUL
// behind it; of SentencePiece the model's file. No token holds a NUL, so nothing needs an escape. Reading them trusts
// nothing; errors tell the offset.
// -----------------------------------------------------------------------------------------------

enum { TRF__UNK = 3, TRF__SPECIALS = 4, TRF__MAX_TOKEN_BYTES = 1 << 20 };
#define TRF__MAX_TOKENS ((int64_t)INT32_MAX - TRF__SPECIALS)        /* 2^31 - 5: ids are int32_t */

typedef struct trf__token {
    int64_t begin;          /* of its bytes */
    int64_t count;          /* how often it was seen; unused when learning has ended */
    uint64_t hash;
    int32_t length;         /* in bytes, without the NUL */
} trf__token;

typedef struct trf__pieces trf__pieces;         /* >>pieces */

struct trf_vocab {
    trf_hooks hooks;
    trf_token_kind kind;
    int32_t finished;
    trf__token *tokens;
    int64_t n_tokens, token_capacity;
    char *bytes;
    int64_t n_bytes, byte_capacity;
    int32_t *slots;         /* number of a token plus 1, or 0: empty */
    int64_t n_slots;        /* 0 or a power of two */
    trf__pieces *pieces;    /* of a SentencePiece model, or NULL */
};

TRF__FN trf_status trf__fail_learning(trf_error *err)
{
    return trf__fail(err, TRF_E_STATE, -1, "vocab", "expected a finished vocabulary, got one that still learns");
}

TRF__FN trf_status trf__fail_finished(trf_error *err)
{
    return trf__fail(err, TRF_E_STATE, -1, "vocab", "expected a vocabulary that still learns, got a finished one");
}

TRF__FN const char *trf__special_text(int32_t id)
{
    switch (id) {
    case 0: return "<pad>";
    case 1: return "<s>";
    case 2: return "</s>";
    default: return "<unk>";
    }
}

TRF__FN int trf__is_special(const char *token, size_t length)
{
    int32_t id;
    for (id = 0; id < TRF__SPECIALS; id++)
        if (strlen(trf__special_text(id)) == length && !memcmp(trf__special_text(id), token, length)) return 1;
    return 0;
}

TRF__FN int trf__is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

TRF__FN trf_status trf__check_utf8(const char *text, const char *what, trf_error *err)
{
    int64_t fault = trf__utf8_fault(text, strlen(text));
    if (fault < 0) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, fault, what, "expected UTF-8, got the byte 0x%02X at offset %lld",
                     (unsigned)(unsigned char)text[fault], (long long)fault);
}

/* Length of the next token of a text that is known to be UTF-8, 0 at its end. *at moves behind the token. */
TRF__FN size_t trf__next_token(trf_token_kind kind, const char **at, const char **token)
{
    const char *end;
    if (kind == TRF_WORDS) while (trf__is_blank(**at)) ++*at;
    *token = end = *at;
    if (!*end) return 0;
    if (kind == TRF_CHARACTERS) end += trf__utf8_at(end, 4);     /* stops at a NUL */
    else while (*end && !trf__is_blank(*end)) end++;
    *at = end;
    return (size_t)(end - *token);
}

/* FNV-1a, then a final mix so that the low bits, which choose the slot, depend on all others. */
TRF__FN uint64_t trf__hash_bytes(const char *bytes, size_t length)
{
    uint64_t h = 0xCBF29CE484222325u;
    size_t i;
    for (i = 0; i < length; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    h = (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* From a slot that is taken to the next one to try: a way of its own for every hash, so that tokens that were chosen
   to begin in the same slots do not make one long row. */
TRF__FN uint64_t trf__slot_step(uint64_t hash) { return hash >> 32 | 1; }

/* Number of a token, -1 if there is none. */
TRF__FN int32_t trf__vocab_find(const trf_vocab *v, const char *token, size_t length, uint64_t hash)
{
    uint64_t mask = (uint64_t)v->n_slots - 1, at = hash & mask;
    if (!v->n_slots) return -1;
    for (; v->slots[at]; at = (at + trf__slot_step(hash)) & mask) {
        const trf__token *t = &v->tokens[v->slots[at] - 1];
        if (t->hash == hash && (size_t)t->length == length && !memcmp(v->bytes + t->begin, token, length))
            return v->slots[at] - 1;
    }
    return -1;
}

TRF__FN void trf__vocab_fill_slot(trf_vocab *v, int64_t number)
{
    uint64_t mask = (uint64_t)v->n_slots - 1, hash = v->tokens[number].hash, at = hash & mask;
    while (v->slots[at]) at = (at + trf__slot_step(hash)) & mask;
    v->slots[at] = (int32_t)number + 1;
}

/* Room for one more token in the table. */
TRF__FN trf_status trf__vocab_grow_slots(trf_vocab *v, trf_error *err)
{
    int64_t wanted = v->n_slots ? v->n_slots * 2 : 64, i;
    int32_t *slots;
    if (v->n_tokens + 1 <= v->n_slots / 2) return TRF_OK;
    slots = (int32_t *)trf__alloc_zeroed(&v->hooks, trf__bytes(wanted, sizeof *slots));
    if (!slots)
        return trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory for a table of %lld slots", (long long)wanted);
    trf__free(&v->hooks, v->slots, trf__bytes(v->n_slots, sizeof *slots));
    v->slots = slots;
    v->n_slots = wanted;
    for (i = 0; i < v->n_tokens; i++) trf__vocab_fill_slot(v, i);
    return TRF_OK;
}

/* Adds a token that is not there yet. On failure no token has changed. */
TRF__FN trf_status trf__vocab_insert(trf_vocab *v, const char *token, size_t length, uint64_t hash, int64_t count,
                                     trf_error *err)
{
    int64_t n_bytes = v->n_bytes + (int64_t)length + 1;
    uintptr_t own = (uintptr_t)token - (uintptr_t)v->bytes;
    trf__token *t;
    if (v->n_tokens >= TRF__MAX_TOKENS)
        return trf__fail(err, TRF_E_LIMIT, -1, "vocab", "expected at most %lld different tokens, got more",
                         (long long)TRF__MAX_TOKENS);
    TRF__GROW(trf__token, v->tokens, v->token_capacity, v->n_tokens + 1, &v->hooks);
    TRF__GROW(char, v->bytes, v->byte_capacity, n_bytes, &v->hooks);
    TRF__TRY(trf__vocab_grow_slots(v, err));
    if (own < (uintptr_t)v->n_bytes) token = v->bytes + own;        /* a part of another token, which has moved */
    t = &v->tokens[v->n_tokens];
    t->begin = v->n_bytes;
    t->count = count;
    t->hash = hash;
    t->length = (int32_t)length;
    memcpy(v->bytes + t->begin, token, length);
    v->bytes[t->begin + (int64_t)length] = 0;
    v->n_bytes = n_bytes;
    trf__vocab_fill_slot(v, v->n_tokens++);
    return TRF_OK;
}

TRF__FN void trf__vocab_init(trf_vocab *v, trf_token_kind kind, const trf_hooks *hooks)
{
    memset(v, 0, sizeof *v);
    if (hooks) v->hooks = *hooks;
    v->kind = kind;
}

TRF__FN void trf__pieces_release(trf_vocab *v);

TRF__FN void trf__vocab_release(trf_vocab *v)
{
    trf__free(&v->hooks, v->tokens, trf__bytes(v->token_capacity, sizeof *v->tokens));
    trf__free(&v->hooks, v->bytes, (size_t)v->byte_capacity);
    trf__free(&v->hooks, v->slots, trf__bytes(v->n_slots, sizeof *v->slots));
    trf__pieces_release(v);
}

TRF_API void trf_vocab_destroy(trf_vocab *vocab)
{
    trf_hooks hooks;
    if (!vocab) return;
    hooks = vocab->hooks;
    trf__vocab_release(vocab);
    trf__free(&hooks, vocab, sizeof *vocab);
}

TRF_API trf_status trf_vocab_create(trf_vocab **vocab, trf_token_kind kind, const trf_hooks *hooks, trf_error *err)
{
    trf_hooks none;
    trf_vocab *v;
    TRF__ZERO(none);
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (kind != TRF_WORDS && kind != TRF_CHARACTERS)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "kind", "kind must be words or characters, got %d", (int)kind);
    if (hooks) TRF__TRY(trf__hooks_check(hooks, err));
    v = (trf_vocab *)trf__alloc(hooks ? hooks : &none, sizeof *v);
    if (!v) return trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory for a vocabulary");
    trf__vocab_init(v, kind, hooks);
    *vocab = v;
    return TRF_OK;
}

/* Two passes, so that a line counts whole or not at all: the first makes the missing tokens, with a count
   of 0, which is as good as not being there; the second counts and cannot fail. */
TRF_API trf_status trf_vocab_learn(trf_vocab *vocab, const char *line, trf_error *err)
{
    const char *at = line, *token;
    size_t length;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!line) return trf__fail_null(err, "line");
    if (vocab->finished) return trf__fail_finished(err);
    TRF__TRY(trf__check_utf8(line, "line", err));
    while ((length = trf__next_token(vocab->kind, &at, &token)) > 0) {
        uint64_t hash = trf__hash_bytes(token, length);
        if (length > TRF__MAX_TOKEN_BYTES)
            return trf__fail(err, TRF_E_LIMIT, token - line, "line", "expected a word of at most %d bytes, got %llu",
                             (int)TRF__MAX_TOKEN_BYTES, (unsigned long long)length);
        if (trf__is_special(token, length) || trf__vocab_find(vocab, token, length, hash) >= 0) continue;
        TRF__TRY(trf__vocab_insert(vocab, token, length, hash, 0, err));
    }
    at = line;
    while ((length = trf__next_token(vocab->kind, &at, &token)) > 0) {
        int32_t i = trf__vocab_find(vocab, token, length, trf__hash_bytes(token, length));
        if (i >= 0) vocab->tokens[i].count++;
    }
    return TRF_OK;
}

/* Order of ids: the higher count first, equal counts by their bytes, a beginning before its continuation. */
TRF__FN int trf__by_count(const void *vocab, const void *a, const void *b)
{
    const char *bytes = ((const trf_vocab *)vocab)->bytes;
    const trf__token *x = (const trf__token *)a, *y = (const trf__token *)b;
    int order;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    order = memcmp(bytes + x->begin, bytes + y->begin, (size_t)trf__min64(x->length, y->length));
    return order ? order : x->length - y->length;
}

TRF_API trf_status trf_vocab_finish(trf_vocab *vocab, int32_t max_size, int64_t min_count, trf_error *err)
{
    trf_vocab kept;
    const void **order;
    int64_t n = 0, i;
    size_t order_bytes;
    trf_status status = TRF_OK;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (max_size <= TRF__SPECIALS) return trf__fail_below(err, "max_size", TRF__SPECIALS + 1, max_size);
    if (min_count < 1) return trf__fail_below(err, "min_count", 1, min_count);
    if (vocab->finished) return trf__fail_finished(err);
    for (i = 0; i < vocab->n_tokens; i++) n += vocab->tokens[i].count >= min_count;
    order_bytes = trf__bytes(n, sizeof *order);
    order = (const void **)trf__alloc(&vocab->hooks, order_bytes);
    if (!order) return trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory to sort %lld tokens", (long long)n);
    for (n = i = 0; i < vocab->n_tokens; i++)
        if (vocab->tokens[i].count >= min_count) order[n++] = &vocab->tokens[i];
    trf__sort(order, (size_t)n, trf__by_count, vocab);

    trf__vocab_init(&kept, vocab->kind, &vocab->hooks);
    kept.finished = 1;
    for (i = 0; !status && i < trf__min64(n, max_size - TRF__SPECIALS); i++) {
        const trf__token *t = (const trf__token *)order[i];
        status = trf__vocab_insert(&kept, vocab->bytes + t->begin, (size_t)t->length, t->hash, t->count, err);
    }
    trf__free(&vocab->hooks, order, order_bytes);
    if (status) { trf__vocab_release(&kept); return status; }
    trf__vocab_release(vocab);
    *vocab = kept;
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>pieces         SentencePiece models: raw text to subwords and back
//
// A reader of the files that SentencePiece trains (Kudo and Richardson 2018): unigram (Kudo 2018) and BPE (Sennrich
// et al. 2016). It answers as libsentencepiece 0.2.3 does, so it takes the same steps, roundings and limits included.
//
//   text -> normalised     the longest rule of the model's map replaces what it matches; blanks become U+2581
//        -> pieces         unigram: the path of the best sum of scores; BPE: the best pair merged, again and again
//        -> ids            4 + number of the piece among those of texts; a run of unknown ones is one unk, or bytes
//
// The file is a protocol buffer. A dozen of its fields matter, so they are read by hand (trf__wire_next), not by a
// library larger than all of this. It may be hostile; errors tell the offset. Pieces stand in the vocabulary as
// tokens do, and in a double array (Aoe 1989): the child of node s for byte c is cell base(s) + c, if that cell's
// parent is s.
// -----------------------------------------------------------------------------------------------

enum { TRF__PIECE_NORMAL = 1, TRF__PIECE_UNKNOWN, TRF__PIECE_CONTROL, TRF__PIECE_USER, TRF__PIECE_UNUSED,
       TRF__PIECE_BYTE };
#define TRF__SPACE "\xE2\x96\x81"               /* U+2581 */
#define TRF__REPLACEMENT "\xEF\xBF\xBD"         /* U+FFFD */

typedef struct trf__piece { float score; int32_t type; } trf__piece;       /* TRF__PIECE_BYTE + 10: the byte 10 */
typedef struct trf__cell { int32_t base, parent, token; } trf__cell;        /* parent -1: free; token -1: none */

struct trf__pieces {
    char *model;                    /* the file, */
    int64_t model_bytes;
    const unsigned char *rules;     /* in it the map's double array, */
    uint32_t n_rules;
    const char *replaced, *unknown; /* the texts that it leads to, and the text of unk */
    size_t n_replaced, n_unknown;
    trf__piece *pieces;             /* one a token */
    int64_t capacity;
    trf__cell *cells;
    int64_t n_cells;
    float least;                    /* score of a normal piece */
    int32_t bytes[256];             /* tokens of bytes; -1: none */
    int32_t types;                  /* bit 1 << type: there are such pieces */
    int32_t unigram, byte_fallback, dummy_prefix, remove_extra, escape, suffix, nuls;
};

/* ---- the file ---- */

/* One field of a message after another: its number and wire type (8 * number + type), and its value or bytes. */
typedef struct trf__wire { const unsigned char *begin, *at, *end, *bytes; uint64_t value, key; } trf__wire;

TRF__FN int trf__wire_number(trf__wire *w, uint64_t *value)
{
    int shift;
    for (*value = 0, shift = 0; w->at < w->end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*w->at & 127) << shift;
        if (!(*w->at++ & 128)) return 1;
    }
    return 0;
}

/* Of the bytes at w->bytes. */
TRF__FN trf_status trf__wire_fail(const trf__wire *w, trf_status status, const char *fault, trf_error *err)
{
    long long at = (long long)(w->bytes - w->begin);
    return trf__fail(err, status, at, "sentencepiece", "byte %lld: %s", at, fault);
}

TRF__FN trf_status trf__wire_next(trf__wire *w, int *more, trf_error *err)
{
    int type, good;
    if (!(*more = w->at < w->end)) return TRF_OK;
    w->bytes = w->at;
    good = trf__wire_number(w, &w->key) && w->key >= 8 && w->key >> 32 == 0;
    type = (int)(w->key & 7);
    if (type == 0 || type == 2) good = good && trf__wire_number(w, &w->value);
    else { w->value = type == 5 ? 4 : 8; good = good && (type == 1 || type == 5); }
    good = good && (type == 0 || w->value <= (uint64_t)(w->end - w->at));
    if (!good)
        return trf__wire_fail(w, TRF_E_FORMAT, "expected a field of a SentencePiece model, got something else", err);
    w->bytes = w->at;
    if (type != 0) w->at += w->value;
    if (type == 5) w->value = trf__from_little(w->bytes, 4);
    return TRF_OK;
}

/* Number of the byte that "<0x0A>" names, or -1. */
TRF__FN int trf__byte_of(const char *text, size_t length)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;
    if (length != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    high = (const char *)memchr(digits, text[3], 16);
    low = (const char *)memchr(digits, text[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

TRF__FN int trf__is_line(const char *text, size_t n) { return trf__utf8_fault(text, n) < 0 && !memchr(text, 0, n); }

TRF__FN trf_status trf__read_piece(trf_vocab *v, trf__wire w, int *unknowns, trf_error *err)
{
    trf__pieces *p = v->pieces;
    const char *text = (const char *)w.at, *fault = NULL;
    size_t length = 0;
    const trf__wire whole = w;
    float score = 0;
    int type = TRF__PIECE_NORMAL, more, byte, nul;
    uint64_t hash;
    for (;;) {
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) break;
        if (w.key == 8 * 1 + 2) { text = (const char *)w.bytes; length = (size_t)w.value; }
        if (w.key == 8 * 2 + 5) score = (float)trf__from_float((uint32_t)w.value);
        if (w.key == 8 * 3 + 0 && w.value >= 1 && w.value <= TRF__PIECE_BYTE) type = (int)w.value;
    }
    /* with byte fallback there may be such a piece, which is not used then */
    if ((nul = length == 1 && !*text && type != TRF__PIECE_UNKNOWN)) { type = TRF__PIECE_UNUSED; p->nuls = 1; }
    hash = trf__hash_bytes(text, length);
    byte = type == TRF__PIECE_BYTE ? trf__byte_of(text, length) : 0;
    *unknowns += type == TRF__PIECE_UNKNOWN;
    if (length == 0) fault = "expected a piece, got an empty one";
    else if (length > 7999) fault = "expected a piece of at most 7999 bytes, got a longer one";
    else if (!nul && !trf__is_line(text, length)) fault = "expected UTF-8 without NUL";
    else if (!trf__is_finite((double)score)) fault = "expected a score, got what is infinite or not a number";
    else if (byte < 0) fault = "expected a byte as <0x0A>";
    else if (*unknowns > 1) fault = "expected one unknown piece, got another";
    else if (trf__vocab_find(v, text, length, hash) >= 0) fault = "expected every piece once, got one again";
    if (fault) return trf__wire_fail(&whole, TRF_E_FORMAT, fault, err);
    if (type == TRF__PIECE_UNKNOWN || type == TRF__PIECE_CONTROL) return TRF_OK;
    TRF__TRY(trf__vocab_insert(v, text, length, hash, 0, err));
    TRF__GROW(trf__piece, p->pieces, p->capacity, v->n_tokens, &v->hooks);
    p->pieces[v->n_tokens - 1].score = score;
    p->pieces[v->n_tokens - 1].type = type + byte;
    p->types |= 1 << type;
    if (type == TRF__PIECE_BYTE) p->bytes[byte] = (int32_t)v->n_tokens - 1;
    if (type == TRF__PIECE_NORMAL && score < p->least) p->least = score;
    return TRF_OK;
}

/* The map is a double array of another kind (darts-clone): a cell is a value, if its highest bit is set, or holds its
   label, whether a value is among its children, and the way to them: what its own place is to be xored with. */
TRF__FN uint64_t trf__rule_cell(const trf__pieces *p, uint64_t at) { return trf__from_little(p->rules + 4 * at, 4); }
TRF__FN uint64_t trf__rule_way(uint64_t cell) { return cell >> 10 << ((cell & 1u << 9) >> 6); }

/* Whether the first cell is a root, every way leads to 256 cells that are there, and every value to a text. */
TRF__FN int trf__rules_sound(const trf__pieces *p)
{
    uint64_t at, cell = trf__rule_cell(p, 0), to;
    int sound = !(cell & (1u << 31 | 511)) && cell >> 10 > 0;
    for (at = 0; sound && at < p->n_rules; at++) {
        cell = trf__rule_cell(p, at);
        to = at ^ trf__rule_way(cell);
        if (cell >> 31) sound = (cell & INT32_MAX) < p->n_replaced;
        else sound = (to | 255) < p->n_rules && (!(cell >> 8 & 1) || trf__rule_cell(p, to) >> 31);
    }
    return sound;
}

/* The map: bytes of its double array, that array, and the texts, each with a NUL behind it. */
TRF__FN trf_status trf__read_rules(trf__pieces *p, const trf__wire *w, trf_error *err)
{
    uint64_t bytes = w->value > 4 ? trf__from_little(w->bytes, 4) : 0;
    if (bytes >= 1024 && bytes % 1024 == 0 && bytes < w->value - 4 && !w->bytes[w->value - 1]) {
        p->rules = w->bytes + 4;
        p->n_rules = (uint32_t)(bytes / 4);
        p->replaced = (const char *)w->bytes + 4 + bytes;
        p->n_replaced = (size_t)(w->value - 4 - bytes);
        if (trf__rules_sound(p)) return TRF_OK;
    }
    return trf__wire_fail(w, TRF_E_FORMAT, "the map of characters is damaged", err);
}

/* What message number `of` of the file says: how it was trained (2), how text is made normal (3) and so again (5). */
TRF__FN trf_status trf__read_spec(trf__pieces *p, trf__wire w, uint64_t of, trf_error *err)
{
    int more;
    for (;;) {
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) return TRF_OK;
        if (of == 2 && w.key == 8 * 3 + 0 && w.value != 1 && w.value != 2)
            return trf__wire_fail(&w, TRF_E_UNSUPPORTED, "expected a model of type unigram or BPE", err);
        if (of == 5 && w.key == 8 * 2 + 2 && w.value > 0)
            return trf__wire_fail(&w, TRF_E_UNSUPPORTED, "models that change their answers are not known", err);
        if (of == 2 && w.key == 8 * 44 + 2 && !trf__is_line((const char *)w.bytes, (size_t)w.value))
            return trf__wire_fail(&w, TRF_E_FORMAT, "expected UTF-8 without NUL", err);
        if (of == 2 && w.key == 8 * 3 + 0) p->unigram = w.value == 1;
        if (of == 2 && w.key == 8 * 24 + 0) p->suffix = w.value != 0;
        if (of == 2 && w.key == 8 * 35 + 0) p->byte_fallback = w.value != 0;
        if (of == 2 && w.key == 8 * 44 + 2) { p->unknown = (const char *)w.bytes; p->n_unknown = (size_t)w.value; }
        if (of == 3 && w.key == 8 * 2 + 2 && w.value == 0) p->n_rules = 0;      /* none, whatever came before */
        if (of == 3 && w.key == 8 * 2 + 2 && w.value > 0) TRF__TRY(trf__read_rules(p, &w, err));
        if (of == 3 && w.key == 8 * 3 + 0) p->dummy_prefix = w.value != 0;
        if (of == 3 && w.key == 8 * 4 + 0) p->remove_extra = w.value != 0;
        if (of == 3 && w.key == 8 * 5 + 0) p->escape = w.value != 0;
    }
}

TRF__FN trf_status trf__read_pieces(trf_vocab *v, trf_error *err)
{
    trf__pieces *p = v->pieces;
    int more, unknowns = 0, i, n = 0;
    const unsigned char *begin = (const unsigned char *)p->model;
    trf__wire w = {begin, begin, begin + p->model_bytes, begin, 0, 0};
    for (;;) {
        trf__wire inner;
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) break;
        inner = w;
        inner.at = w.bytes;
        inner.end = w.at;
        if (w.key == 8 * 1 + 2) TRF__TRY(trf__read_piece(v, inner, &unknowns, err));
        if (w.key == 8 * 2 + 2 || w.key == 8 * 3 + 2 || w.key == 8 * 5 + 2)
            TRF__TRY(trf__read_spec(p, inner, w.key / 8, err));
    }
    for (i = 0; i < 256; i++) n += p->bytes[i] >= 0;
    if (p->nuls && !p->byte_fallback) return trf__wire_fail(&w, TRF_E_FORMAT, "expected no piece that is a NUL", err);
    if (v->n_tokens > 0 && (unknowns || p->byte_fallback) && n == (p->byte_fallback ? 256 : 0)) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, p->model_bytes, "sentencepiece",
                     "expected pieces, one of them unknown and %d of bytes, got %lld, %d unknown and %d of bytes",
                     p->byte_fallback ? 256 : 0, (long long)v->n_tokens, unknowns, n);
}

/* ---- pieces by their bytes ---- */

TRF__FN int32_t trf__child(const trf__pieces *p, int32_t node, char byte)
{
    int32_t cell = p->cells[node].base + (int32_t)(unsigned char)byte;
    return p->cells[cell].parent == node ? cell : -1;
}

/* Cells up to `needed`. */
TRF__FN trf_status trf__more_cells(trf_vocab *v, int64_t needed, trf_error *err)
{
    trf__pieces *p = v->pieces;
    int64_t i = p->n_cells;
    if (needed > INT32_MAX)
        return trf__fail(err, TRF_E_LIMIT, -1, "sentencepiece", "the pieces are too many bytes for their index");
    TRF__GROW(trf__cell, p->cells, p->n_cells, needed, &v->hooks);
    for (; i < p->n_cells; i++) { p->cells[i].base = 0; p->cells[i].parent = p->cells[i].token = -1; }
    return TRF_OK;
}

/* Tokens lo..hi-1 of the sorted list have the first `depth` bytes in common, which lead to `node`. */
typedef struct trf__branch { int32_t node, lo, hi, depth; } trf__branch;

/* Gives the node of a branch its cells, where all are free from `*from` on; these become branches. */
TRF__FN trf_status trf__plant(trf_vocab *v, const void **sorted, trf__branch at, trf__branch *branches, int64_t *n,
                              int64_t *from, trf_error *err)
{
    trf__pieces *p = v->pieces;
    const trf__token *t = at.lo < at.hi ? (const trf__token *)sorted[at.lo] : NULL;
    int32_t letters = 0, letter[256], begin[257], i;
    int64_t cell, busy = 0;
    if (t && t->length == at.depth) { p->cells[at.node].token = (int32_t)(t - v->tokens); at.lo++; }
    for (i = at.lo; i < at.hi; i++) {
        t = (const trf__token *)sorted[i];
        cell = (unsigned char)v->bytes[t->begin + at.depth];
        if (letters == 0 || letter[letters - 1] != cell) { letter[letters] = (int32_t)cell; begin[letters++] = i; }
    }
    if (letters == 0) return TRF_OK;
    begin[letters] = at.hi;
    for (cell = trf__max64(*from, letter[0] + 1); ; cell++) {
        TRF__TRY(trf__more_cells(v, cell + 257, err));
        if (p->cells[cell].parent >= 0) { busy++; continue; }
        for (i = 1; i < letters && p->cells[cell - letter[0] + letter[i]].parent < 0; i++) { }
        if (i == letters) break;
    }
    /* nearly full up to there, or too long a way to go for every node: not searched again */
    if (busy * 20 >= (cell - *from + 1) * 19 || cell - *from > 4096) *from = cell;
    p->cells[at.node].base = (int32_t)(cell - letter[0]);
    for (i = 0; i < letters; i++) {
        trf__branch next = {p->cells[at.node].base + letter[i], begin[i], begin[i + 1], at.depth + 1};
        branches[(*n)++] = next;
        p->cells[next.node].parent = at.node;
    }
    return TRF_OK;
}

/* The double array of all pieces but those that stand for bytes. */
TRF__FN trf_status trf__pieces_index(trf_vocab *v, trf_error *err)
{
    size_t bytes = trf__bytes(v->n_tokens, sizeof(void *)), more = trf__bytes(v->n_bytes + 1, sizeof(trf__branch));
    const void **sorted = (const void **)trf__alloc(&v->hooks, bytes);
    trf__branch *branches = (trf__branch *)trf__alloc_zeroed(&v->hooks, more);
    int64_t done, planted = 1, from = 1;
    trf_status status = TRF_E_NOMEM;
    int32_t i, n = 0;
    if (!sorted || !branches) trf__fail(err, status, -1, "sentencepiece", "no memory to sort the pieces");
    else {
        for (i = 0; i < v->n_tokens; i++)
            if (v->pieces->pieces[i].type < TRF__PIECE_BYTE) sorted[n++] = v->tokens + i;
        trf__sort(sorted, (size_t)n, trf__by_count, v);         /* counts are 0: by bytes */
        branches[0].hi = n;
        status = trf__more_cells(v, 512, err);
        if (!status) v->pieces->cells[0].parent = 0;
        for (done = 0; !status && done < planted; done++)
            status = trf__plant(v, sorted, branches[done], branches, &planted, &from, err);
    }
    trf__free(&v->hooks, branches, more);
    trf__free(&v->hooks, sorted, bytes);
    return status;
}

TRF__FN void trf__pieces_release(trf_vocab *v)
{
    trf__pieces *p = v->pieces;
    if (!p) return;
    trf__free(&v->hooks, p->model, (size_t)p->model_bytes);
    trf__free(&v->hooks, p->pieces, trf__bytes(p->capacity, sizeof *p->pieces));
    trf__free(&v->hooks, p->cells, trf__bytes(p->n_cells, sizeof *p->cells));
    trf__free(&v->hooks, p, sizeof *p);
}

/* ---- text as pieces see it ---- */

/* Length of the longest user-defined piece that the text begins with, of the 64 shortest, or 0. */
TRF__FN size_t trf__user_defined(const trf_vocab *v, const char *text, size_t n)
{
    const trf__pieces *p = v->pieces;
    int32_t node = 0, found = 0, token;
    size_t i, longest = 0;
    if (!(p->types & 1 << TRF__PIECE_USER)) return 0;
    for (i = 0; i < n && found < 64 && (node = trf__child(p, node, text[i])) >= 0; i++) {
        token = p->cells[node].token;
        if (token >= 0 && p->pieces[token].type == TRF__PIECE_USER) { longest = i + 1; found++; }
    }
    return longest;
}

/* The longest rule that the text begins with, of the 32 shortest, or 0; *to: what replaces it. A hostile map may lead
   into a circle; no real one has rules of a thousand bytes. */
TRF__FN size_t trf__rule(const trf__pieces *p, const char *text, size_t n, const char **to)
{
    uint64_t at = 0, cell = p->n_rules ? trf__rule_cell(p, 0) : 0;
    size_t i, longest = 0, found = 0;
    for (i = 0; p->n_rules && i < n && i < 1000 && found < 32; i++) {
        at ^= trf__rule_way(cell) ^ (unsigned char)text[i];
        cell = trf__rule_cell(p, at);
        if ((cell & (1u << 31 | 255)) != (unsigned char)text[i]) break;
        if (!(cell >> 8 & 1)) continue;
        *to = p->replaced + (trf__rule_cell(p, at ^ trf__rule_way(cell)) & INT32_MAX);
        longest = i + 1;
        found++;
    }
    return longest;
}

/* What the text begins with becomes *length bytes at *to; returns how many bytes that was. */
TRF__FN size_t trf__normal_prefix(const trf_vocab *v, const char *text, size_t n, const char **to, size_t *length)
{
    size_t taken;
    *to = text;
    if ((*length = trf__user_defined(v, text, n)) > 0) return *length;
    if ((taken = trf__rule(v->pieces, text, n, to)) > 0) { *length = strlen(*to); return taken; }
    if ((*length = (size_t)trf__utf8_at(text, n)) > 0) return *length;
    *to = TRF__REPLACEMENT;
    *length = 3;
    return 1;
}

typedef struct trf__growing { char *bytes; int64_t n, capacity; } trf__growing;

TRF__FN trf_status trf__normal_limit(int64_t n, size_t more, trf_error *err)
{
    if (more <= INT32_MAX / 4 && n <= INT32_MAX / 4 - (int64_t)more) return TRF_OK;
    return trf__fail(err, TRF_E_LIMIT, -1, "text", "expected a text of at most 512 MiB, got a longer one");
}

TRF__FN trf_status trf__normal_add(const trf_vocab *v, trf__growing *to, const char *text, size_t n, trf_error *err)
{
    size_t i;
    TRF__TRY(trf__normal_limit(to->n, n, err));
    TRF__GROW(char, to->bytes, to->capacity, to->n + 3 * (int64_t)n, &v->hooks);
    for (i = 0; i < n; i++)
        if (text[i] != ' ' || !v->pieces->escape) to->bytes[to->n++] = text[i];
        else { memcpy(to->bytes + to->n, TRF__SPACE, 3); to->n += 3; }
    return TRF_OK;
}

TRF__FN trf_status trf__normalise(const trf_vocab *v, const char *text, size_t n, trf__growing *to, trf_error *err)
{
    const trf__pieces *p = v->pieces;
    const char *space = p->escape ? TRF__SPACE : " ", *part;
    int64_t wide = p->escape ? 3 : 1;
    int after_space = p->remove_extra, blank = p->remove_extra;
    size_t length, taken;
    if (n == 0) return TRF_OK;
    if (p->dummy_prefix && !p->suffix) TRF__TRY(trf__normal_add(v, to, " ", 1, err));
    for (; n > 0; text += taken, n -= taken) {
        taken = trf__normal_prefix(v, text, n, &part, &length);
        blank = blank && length == 1 && *part == ' ';
        for (; after_space && length > 0 && *part == ' '; part++) length--;
        if (length == 0) continue;
        TRF__TRY(trf__normal_add(v, to, part, length, err));
        after_space = p->remove_extra && part[length - 1] == ' ';
    }
    while (p->remove_extra && to->n >= wide && !memcmp(to->bytes + to->n - wide, space, (size_t)wide)) to->n -= wide;
    if (p->dummy_prefix && p->suffix && !blank) TRF__TRY(trf__normal_add(v, to, " ", 1, err));
    return trf__normal_limit(to->n, 0, err);
}

/* Bytes of a character as its first one says. */
TRF__FN int32_t trf__char_bytes(const char *at, int64_t left)
{
    static const char bytes[] = "\1\1\1\1\1\1\1\1\1\1\1\1\2\2\3\4";
    return (int32_t)trf__min64(bytes[(unsigned char)*at >> 4], left);
}

/* ---- from pieces to ids ---- */

/* unknown: 1 behind an unknown piece; n_unknown: how many of the n are unk. */
typedef struct trf__ids { int32_t *ids; int32_t capacity, unknown; int64_t n, n_unknown; } trf__ids;

TRF__FN void trf__give_id(trf__ids *to, int32_t id)
{
    if (to->n++ < to->capacity) to->ids[to->n - 1] = id;
    to->n_unknown += id == TRF__UNK;
}

/* A piece, or, with token -1, bytes that are none. */
TRF__FN void trf__give_piece(const trf_vocab *v, trf__ids *to, int32_t token, const char *text, int32_t n)
{
    int32_t i;
    if (token >= 0) trf__give_id(to, token + TRF__SPECIALS);
    else if (v->pieces->byte_fallback)
        for (i = 0; i < n; i++) trf__give_id(to, v->pieces->bytes[(unsigned char)text[i]] + TRF__SPECIALS);
    else if (!to->unknown) trf__give_id(to, TRF__UNK);
    to->unknown = token < 0;
}

/* Unigram (Kudo 2018, 3.2): the best way from the beginning to every byte. A character that is no piece of its own
   can be unknown, ten below the least score; a user-defined piece is worth a tenth for every byte but one. */
typedef struct trf__way { float score; int32_t from, token; } trf__way;         /* from -1: none yet */

TRF__FN void trf__way_to(trf__way *to, float score, int32_t from, int32_t token)
{
    if (to->from < 0 || score > to->score) { to->score = score; to->from = from; to->token = token; }
}

TRF__FN void trf__unigram(const trf_vocab *v, const char *text, int32_t n, trf__way *ways, trf__ids *to)
{
    const trf__pieces *p = v->pieces;
    const float unknown = p->least - 10.0f;
    int32_t at, end, node, token, step, reached = 0;
    for (at = 0; at <= n; at++) { ways[at].score = 0; ways[at].from = -1; ways[at].token = -1; }
    for (at = 0; at < n; at += step) {
        float till = ways[at].score;
        int single = 0;
        if (till < -100000.0f || till > 100000.0f) {            /* sums begin anew, so that they stay exact */
            for (end = at; end <= reached; end++) ways[end].score -= till;
            till = 0;
        }
        step = trf__char_bytes(text + at, n - at);
        for (node = 0, end = at; end < n && (node = trf__child(p, node, text[end++])) >= 0; ) {
            token = p->cells[node].token;
            if (token < 0 || p->pieces[token].type == TRF__PIECE_UNUSED) continue;
            trf__way_to(&ways[end], till + (p->pieces[token].type == TRF__PIECE_USER
                ? (float)(0.1 * (end - at - 1)) : p->pieces[token].score), at, token);
            single |= end - at == step;
        }
        if (!single) trf__way_to(&ways[at + step], unknown + till, at, -1);
        reached = (int32_t)trf__max64(reached, trf__max64(end, at + step));
    }
    /* turned round: a way then tells where its piece ends, and which it is */
    for (end = n, at = ways[n].from, token = ways[n].token; end > 0; ) {
        int32_t before = ways[at].from, its = ways[at].token;
        ways[at].from = end;
        ways[at].token = token;
        end = at; at = before; token = its;
    }
    for (at = 0; at < n; at = ways[at].from)
        trf__give_piece(v, to, ways[at].token, text + at, ways[at].from - at);
}

/* BPE: symbols, at first characters and user-defined pieces, in a chain; the heap has the pairs that are a piece, the
   one of the best score first, equal ones from the left. A symbol's node is where its bytes lead to, or -1. */
typedef struct trf__symbol { int32_t begin, length, before, next, node, frozen; } trf__symbol;
typedef struct trf__merge { int32_t score, left, right, length; } trf__merge;   /* score: in the order of floats */
typedef struct trf__bpe {
    const trf_vocab *v;
    const char *text;
    trf__symbol *symbols;
    trf__merge *heap;
    int32_t *split;         /* of each token, if any is unused: where the last pair that made an unused one met */
    int32_t n_symbols, n_pairs;
} trf__bpe;

TRF__FN int trf__merge_before(const trf__merge *a, const trf__merge *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

TRF__FN int32_t trf__walk(const trf__pieces *p, int32_t node, const char *text, int32_t n)
{
    int32_t i;
    for (i = 0; node >= 0 && i < n; i++) node = trf__child(p, node, text[i]);
    return node;
}

TRF__FN int32_t trf__token_at(const trf__pieces *p, int32_t node) { return node >= 0 ? p->cells[node].token : -1; }

TRF__FN void trf__bpe_add(trf__bpe *b, int32_t left, int32_t right)
{
    const trf__pieces *p = b->v->pieces;
    const trf__symbol *l, *r;
    trf__merge pair = {0, left, right, 0};
    int32_t token, at;
    if (left < 0 || right < 0 || b->symbols[left].frozen || b->symbols[right].frozen) return;
    l = b->symbols + left;
    r = b->symbols + right;
    token = trf__token_at(p, trf__walk(p, l->node, b->text + r->begin, r->length));
    if (token < 0) return;
    if (p->pieces[token].type == TRF__PIECE_UNUSED) b->split[token] = l->length;
    memcpy(&pair.score, &p->pieces[token].score, sizeof pair.score);
    if (pair.score < 0) pair.score ^= INT32_MAX;            /* -0 is below 0 */
    pair.length = l->length + r->length;
    for (at = b->n_pairs++; at > 0 && trf__merge_before(&pair, b->heap + (at - 1) / 2); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = pair;
}

TRF__FN trf__merge trf__bpe_best(trf__bpe *b)
{
    trf__merge best = b->heap[0], last = b->heap[--b->n_pairs];
    int32_t at = 0, child;
    for (; (child = 2 * at + 1) < b->n_pairs; at = child) {
        if (child + 1 < b->n_pairs && trf__merge_before(b->heap + child + 1, b->heap + child)) child++;
        if (!trf__merge_before(b->heap + child, &last)) break;
        b->heap[at] = b->heap[child];
    }
    b->heap[at] = last;
    return best;
}

/* A symbol; an unused piece comes apart again, its parts too, 101 times in one another at most. The heap, empty now,
   is a stack of what is still to be given; a score there is how often that may still be, less one. */
TRF__FN void trf__bpe_give(const trf__bpe *b, trf__ids *to, int32_t begin, int32_t length)
{
    const trf__pieces *p = b->v->pieces;
    trf__merge whole = {100, begin, 0, length};
    int32_t n = 1;
    b->heap[0] = whole;
    while (n > 0) {
        trf__merge part = b->heap[--n];
        int32_t token = trf__token_at(p, trf__walk(p, 0, b->text + part.left, part.length));
        int unused = part.score-- >= 0 && token >= 0 && p->pieces[token].type == TRF__PIECE_UNUSED;
        if (unused && b->split[token] > 0) {
            b->heap[n] = b->heap[n + 1] = part;
            b->heap[n + 1].length = b->split[token];
            b->heap[n].left += b->split[token];
            b->heap[n].length -= b->split[token];
            n += 2;
        } else trf__give_piece(b->v, to, unused ? -1 : token, b->text + part.left, part.length);
    }
}

TRF__FN void trf__bpe_run(trf__bpe *b, int32_t n, trf__ids *to)
{
    const trf__pieces *p = b->v->pieces;
    int32_t at, i, step;
    for (at = 0; at < n; at += step) {
        int32_t frozen = (int32_t)trf__user_defined(b->v, b->text + at, (size_t)(n - at));
        trf__symbol s = {at, 0, b->n_symbols - 1, -1, 0, frozen};
        s.length = step = frozen ? frozen : trf__char_bytes(b->text + at, n - at);
        s.node = trf__walk(p, 0, b->text + at, step);
        if (at + step < n) s.next = b->n_symbols + 1;
        b->symbols[b->n_symbols++] = s;
    }
    for (i = 1; i < b->n_symbols; i++) trf__bpe_add(b, i - 1, i);
    while (b->n_pairs > 0) {
        trf__merge best = trf__bpe_best(b);
        trf__symbol *l = b->symbols + best.left, *r = b->symbols + best.right;
        if (!l->length || !r->length || l->length + r->length != best.length) continue;
        l->node = trf__walk(p, l->node, b->text + r->begin, r->length);
        l->length = best.length;
        l->next = r->next;
        if (r->next >= 0) b->symbols[r->next].before = best.left;
        r->length = 0;
        trf__bpe_add(b, l->before, best.left);
        trf__bpe_add(b, best.left, l->next);
    }
    for (i = 0; i >= 0; i = b->symbols[i].next) trf__bpe_give(b, to, b->symbols[i].begin, b->symbols[i].length);
}

/* Numbers of a normalised text, in memory of this call alone. */
TRF__FN trf_status trf__pieces_cut(const trf_vocab *v, const char *text, int32_t n, trf__ids *to, trf_error *err)
{
    const trf__pieces *p = v->pieces;
    int64_t splits = !p->unigram && p->types & 1 << TRF__PIECE_UNUSED ? v->n_tokens : 0;
    size_t each = p->unigram ? sizeof(trf__way) : sizeof(trf__symbol) + 3 * sizeof(trf__merge);
    size_t bytes = trf__add_size(trf__bytes((int64_t)n + 1, each), trf__bytes(splits, sizeof(int32_t)));
    void *room = trf__alloc(&v->hooks, bytes);
    trf__bpe b;
    if (!room) return trf__fail(err, TRF_E_NOMEM, -1, "text", "no memory to cut a text of %d bytes", (int)n);
    if (p->unigram) trf__unigram(v, text, n, (trf__way *)room, to);
    else {
        TRF__ZERO(b);
        b.v = v;
        b.text = text;
        b.symbols = (trf__symbol *)room;
        b.heap = (trf__merge *)(void *)(b.symbols + n);
        b.split = (int32_t *)(void *)(b.heap + 3 * (int64_t)n);
        memset(b.split, 0, trf__bytes(splits, sizeof *b.split));
        trf__bpe_run(&b, n, to);
    }
    trf__free(&v->hooks, room, bytes);
    return TRF_OK;
}

TRF__FN trf_status trf__pieces_encode(const trf_vocab *v, const char *text, trf__ids *to, trf_error *err)
{
    trf__growing normal;
    trf_status status;
    TRF__ZERO(normal);
    status = trf__normalise(v, text, strlen(text), &normal, err);
    if (!status && normal.n > 0) status = trf__pieces_cut(v, normal.bytes, (int32_t)normal.n, to, err);
    trf__free(&v->hooks, normal.bytes, (size_t)normal.capacity);
    return status;
}

/* ---- from ids to text ---- */

/* The text of an answer: what has a place, and how long it would be. */
typedef struct trf__answer { char *text; size_t size, whole, written; int32_t cut; } trf__answer;

/* The text of id number i, whole or not at all: behind a blank, or with `spaces` for every U+2581. */
TRF__FN void trf__answer_add(trf__answer *to, int32_t i, int blank, const char *text, size_t n, int spaces)
{
    size_t at, length = n + (size_t)blank;
    for (at = 0; spaces && at + 3 <= n; at++) if (!memcmp(text + at, TRF__SPACE, 3)) length -= 2;
    to->whole = trf__add_size(to->whole, length);
    if (to->whole >= to->size && to->cut < 0) to->cut = i;
    if (to->cut >= 0) return;
    if (blank) to->text[to->written++] = ' ';
    for (at = 0; at < n; at++) {
        int space = spaces && at + 3 <= n && !memcmp(text + at, TRF__SPACE, 3);
        to->text[to->written++] = space ? ' ' : text[at];
        if (space) at += 2;
    }
}

/* How many of the first ids are bytes, up to four, and which. */
TRF__FN int trf__piece_bytes(const trf_vocab *v, const int32_t *ids, int32_t n, char bytes[4])
{
    int m;
    for (m = 0; m < 4 && m < n && ids[m] > TRF__UNK; m++) {
        int32_t type = v->pieces->pieces[ids[m] - TRF__SPECIALS].type;
        if (type < TRF__PIECE_BYTE) break;
        bytes[m] = (char)(unsigned char)(type - TRF__PIECE_BYTE);
    }
    return m;
}

/* Pieces to text: blanks at the beginning that normalising has added go; bytes come together to characters. */
TRF__FN void trf__pieces_decode(const trf_vocab *v, const int32_t *ids, int32_t n, trf__answer *to)
{
    const trf__pieces *p = v->pieces;
    int first = 1, dropped = 0;
    int32_t i;
    for (i = 0; i < n; i++) {
        const trf__token *t;
        char bytes[4];
        size_t m, k = 0;
        if (ids[i] < TRF__UNK) continue;
        if ((m = (size_t)trf__piece_bytes(v, ids + i, n - i, bytes)) > 0) {
            k = (size_t)trf__utf8_at(bytes, m);
            trf__answer_add(to, i, 0, k ? bytes : TRF__REPLACEMENT, k ? k : 3, 0);
            if (k > 1) i += (int32_t)k - 1;
            continue;
        }
        if (dropped || to->whole > 0) first = 0;
        dropped = 0;
        if (ids[i] == TRF__UNK) { trf__answer_add(to, i, 0, p->unknown, p->n_unknown, 0); continue; }
        t = v->tokens + (ids[i] - TRF__SPECIALS);
        if (first && (p->dummy_prefix || p->remove_extra) && !strncmp(v->bytes + t->begin, TRF__SPACE, 3)) k = 3;
        dropped = k > 0 && !p->remove_extra;
        trf__answer_add(to, i, 0, v->bytes + t->begin + k, (size_t)t->length - k, 1);
    }
}

TRF__COLD
TRF_API trf_status trf_vocab_from_sentencepiece(trf_vocab **vocab, const void *model, size_t bytes,
                                                const trf_hooks *hooks, trf_error *err)
{
    trf_vocab *v;
    trf__pieces *p;
    trf_status status = TRF_OK;
    int i;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (!model) return trf__fail_null(err, "model");
    if (bytes > INT32_MAX)
        return trf__fail(err, TRF_E_LIMIT, -1, "bytes", "expected a model of less than 2 GiB, got a larger one");
    TRF__TRY(trf_vocab_create(&v, TRF_WORDS, hooks, err));
    v->kind = TRF_SENTENCEPIECE;
    v->finished = 1;
    v->pieces = p = (trf__pieces *)trf__alloc_zeroed(&v->hooks, sizeof *p);
    if (p) p->model = (char *)trf__alloc(&v->hooks, bytes);
    if (!p || !p->model) status = trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory for a SentencePiece model");
    else {
        memcpy(p->model, model, bytes);
        p->model_bytes = (int64_t)bytes;
        p->unigram = p->dummy_prefix = p->remove_extra = p->escape = 1;
        p->unknown = " \xE2\x81\x87 ";
        p->n_unknown = 5;
        p->least = FLT_MAX;
        for (i = 0; i < 256; i++) p->bytes[i] = -1;
        status = trf__read_pieces(v, err);
        if (!status) status = trf__pieces_index(v, err);
    }
    if (status) { trf_vocab_destroy(v); return status; }
    *vocab = v;
    return TRF_OK;
}

// >>vocab-use      tokens, ids, texts; the stored bytes

TRF_API int32_t trf_vocab_size(const trf_vocab *vocab)
{
    if (!vocab) return 0;
    return vocab->finished ? (int32_t)vocab->n_tokens + TRF__SPECIALS : (int32_t)TRF__SPECIALS;
}

TRF_API trf_token_kind trf_vocab_kind(const trf_vocab *vocab) { return vocab ? vocab->kind : TRF_WORDS; }

TRF_API const char *trf_vocab_token(const trf_vocab *vocab, int32_t id)
{
    if (id < 0 || id >= trf_vocab_size(vocab)) return NULL;
    return id < TRF__SPECIALS ? trf__special_text(id) : vocab->bytes + vocab->tokens[id - TRF__SPECIALS].begin;
}

TRF_API int32_t trf_vocab_id(const trf_vocab *vocab, const char *token)
{
    int32_t number = -1;
    size_t length = token ? strlen(token) : 0;
    if (vocab && vocab->finished) number = trf__vocab_find(vocab, token, length, trf__hash_bytes(token, length));
    return number < 0 ? (int32_t)TRF__UNK : number + TRF__SPECIALS;
}

/* The ids of a text, as many as there is room for. */
TRF__FN trf_status trf__encode_text(const trf_vocab *vocab, const char *text, trf__ids *to, trf_error *err)
{
    const char *at = text, *token;
    size_t length;
    if (!text) return trf__fail_null(err, "text");
    if (!vocab->finished) return trf__fail_learning(err);
    if (vocab->pieces) return trf__pieces_encode(vocab, text, to, err);
    TRF__TRY(trf__check_utf8(text, "text", err));
    while ((length = trf__next_token(vocab->kind, &at, &token)) > 0) {
        int32_t number = trf__vocab_find(vocab, token, length, trf__hash_bytes(token, length));
        trf__give_id(to, number < 0 ? (int32_t)TRF__UNK : number + TRF__SPECIALS);
    }
    return TRF_OK;
}

/* *n stops at INT32_MAX, should a text have more tokens than that. */
TRF_API trf_status trf_vocab_encode(const trf_vocab *vocab, const char *text, int32_t *ids, int32_t capacity,
                                    int32_t *n, trf_error *err)
{
    trf__ids to;
    TRF__ZERO(to);
    if (n) *n = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!text) return trf__fail_null(err, "text");
    if (capacity < 0) return trf__fail_below(err, "capacity", 0, capacity);
    if (!ids && capacity > 0) return trf__fail_null(err, "ids");
    if (!n) return trf__fail_null(err, "n");
    to.ids = ids;
    to.capacity = capacity;
    TRF__TRY(trf__encode_text(vocab, text, &to, err));
    *n = (int32_t)trf__min64(to.n, INT32_MAX);
    if (to.n > capacity)
        return trf__fail(err, TRF_E_LIMIT, capacity, "capacity", "expected room for %d ids, got room for %d", (int)*n,
                         (int)capacity);
    return TRF_OK;
}

TRF_API trf_status trf_vocab_count_unknown(const trf_vocab *vocab, const char *text, int32_t *unknown, int32_t *n,
                                           trf_error *err)
{
    trf__ids to;
    TRF__ZERO(to);
    if (n) *n = 0;
    if (unknown) *unknown = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!unknown) return trf__fail_null(err, "unknown");
    TRF__TRY(trf__encode_text(vocab, text, &to, err));
    *unknown = (int32_t)trf__min64(to.n_unknown, INT32_MAX);
    if (n) *n = (int32_t)trf__min64(to.n, INT32_MAX);
    return TRF_OK;
}

/* An array of ids that grows to what a text has. */
typedef struct trf__text_ids { int32_t *ids; int64_t capacity; int32_t n; } trf__text_ids;

TRF__FN trf_status trf__encode_all(const trf_vocab *vocab, const char *text, trf__text_ids *to,
                                   const trf_hooks *hooks, trf_error *err)
{
    trf_status status;
    TRF__GROW(int32_t, to->ids, to->capacity, 1, hooks);
    status = trf_vocab_encode(vocab, text, to->ids, (int32_t)trf__min64(to->capacity, INT32_MAX), &to->n, err);
    if (status != TRF_E_LIMIT || to->n <= to->capacity) return status;
    TRF__GROW(int32_t, to->ids, to->capacity, to->n, hooks);
    return trf_vocab_encode(vocab, text, to->ids, (int32_t)trf__min64(to->capacity, INT32_MAX), &to->n, err);
}

TRF_API trf_status trf_vocab_decode(const trf_vocab *vocab, const int32_t *ids, int32_t n, char *text, size_t size,
                                    size_t *bytes, trf_error *err)
{
    trf__answer to;
    int32_t i;
    if (text && size > 0) text[0] = 0;
    if (bytes) *bytes = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    if (!ids && n > 0) return trf__fail_null(err, "ids");
    if (!text && size > 0) return trf__fail_null(err, "text");
    if (!vocab->finished) return trf__fail_learning(err);
    for (i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= trf_vocab_size(vocab))
            return trf__fail(err, TRF_E_INVALID_ARG, i, "ids", "expected ids from 0 to %d, got %d at position %d",
                             (int)trf_vocab_size(vocab) - 1, (int)ids[i], (int)i);
    TRF__ZERO(to);
    to.text = text;
    to.size = size;
    to.cut = -1;
    if (vocab->pieces) trf__pieces_decode(vocab, ids, n, &to);
    for (i = 0; !vocab->pieces && i < n; i++) {
        const char *token = trf_vocab_token(vocab, ids[i]);
        if (ids[i] < TRF__UNK) continue;
        trf__answer_add(&to, i, vocab->kind == TRF_WORDS && to.whole > 0, token, strlen(token), 0);
    }
    if (size > 0) text[to.written] = 0;
    if (bytes) *bytes = to.whole;
    if (to.whole >= size)
        return trf__fail(err, TRF_E_LIMIT, to.cut < 0 ? 0 : to.cut, "size", "expected room for %llu bytes, got %llu",
                         (unsigned long long)trf__add_size(to.whole, 1), (unsigned long long)size);
    return TRF_OK;
}

/* What is wrong with a token from a file or a caller, or NULL. */
TRF__FN const char *trf__token_fault(const trf_vocab *v, const char *token, size_t length)
{
    size_t i;
    if (!length) return "expected a token, got an empty one";
    if (length > TRF__MAX_TOKEN_BYTES) return "expected a token of at most 1 MiB, got a longer one";
    if (trf__utf8_fault(token, length) >= 0) return "expected UTF-8, got something else";
    if (v->kind == TRF_CHARACTERS && (size_t)trf__utf8_at(token, length) != length)
        return "expected one character, got several";
    for (i = 0; v->kind == TRF_WORDS && i < length; i++)
        if (trf__is_blank(token[i])) return "expected a word, got a token with a blank";
    if (trf__is_special(token, length)) return "expected a token, got the text of a special one";
    if (trf__vocab_find(v, token, length, trf__hash_bytes(token, length)) >= 0)
        return "expected every token once, got one again";
    return NULL;
}

TRF_API trf_status trf_vocab_add(trf_vocab *vocab, const char *token, trf_error *err)
{
    const char *fault;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!token) return trf__fail_null(err, "token");
    if (!vocab->finished) return trf__fail_learning(err);
    if (vocab->pieces)
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, "vocab", "a SentencePiece model has the pieces that it has");
    fault = trf__token_fault(vocab, token, strlen(token));
    if (fault) return trf__fail(err, TRF_E_INVALID_ARG, -1, "token", "%s", fault);
    return trf__vocab_insert(vocab, token, strlen(token), trf__hash_bytes(token, strlen(token)), 0, err);
}

/* What files store of a finished vocabulary. */
TRF__FN const char *trf__vocab_bytes(const trf_vocab *v) { return v->pieces ? v->pieces->model : v->bytes; }
TRF__FN int64_t trf__vocab_n_bytes(const trf_vocab *v) { return v->pieces ? v->pieces->model_bytes : v->n_bytes; }

/* Inserts the tokens that end within n bytes, which stand at byte `at` of what is stored, and may be hostile. *used:
   their bytes. */
TRF__FN trf_status trf__vocab_insert_stored(trf_vocab *v, const char *bytes, int64_t n, int64_t at, int64_t *used,
                                            trf_error *err)
{
    const char *token, *end, *fault;
    for (*used = 0; *used < n; *used += end - token + 1) {
        token = bytes + *used;
        end = (const char *)memchr(token, 0, (size_t)(n - *used));
        if (!end && *used) return TRF_OK;
        fault = end ? trf__token_fault(v, token, (size_t)(end - token))
                    : "expected a NUL behind the token, got the end or more than 1 MiB";
        if (fault)
            return trf__fail(err, TRF_E_FORMAT, at + *used, "vocabulary", "id %lld of the vocabulary, byte %lld: %s",
                             (long long)v->n_tokens + TRF__SPECIALS, (long long)(at + *used), fault);
        TRF__TRY(trf__vocab_insert(v, token, (size_t)(end - token), trf__hash_bytes(token, (size_t)(end - token)), 0,
                                   err));
    }
    return TRF_OK;
}

/* What was made becomes *v if all went well. */
TRF__FN trf_status trf__vocab_finished(trf_vocab **v, trf_vocab *made, trf_status status)
{
    if (status) { trf_vocab_destroy(made); return status; }
    made->finished = 1;
    *v = made;
    return TRF_OK;
}

/* A finished vocabulary from its stored bytes. */
TRF__FN trf_status trf__vocab_from_bytes(trf_vocab **v, trf_token_kind kind, const char *bytes, int64_t n,
                                         const trf_hooks *hooks, trf_error *err)
{
    trf_vocab *made = NULL;
    int64_t at, used = 0;
    trf_status status;
    *v = NULL;
    if (kind == TRF_SENTENCEPIECE) return trf_vocab_from_sentencepiece(v, bytes, (size_t)n, hooks, err);
    status = trf_vocab_create(&made, kind, hooks, err);
    for (at = 0; !status && at < n; at += used)
        status = trf__vocab_insert_stored(made, bytes + at, n - at, at, &used, err);
    return trf__vocab_finished(v, made, status);
}

TRF_API trf_status trf_vocab_copy(trf_vocab **copy, const trf_vocab *vocab, const trf_hooks *hooks, trf_error *err)
{
    TRF__TRY(trf__begin(copy, "copy", err));
    *copy = NULL;
    if (!vocab) return trf__fail_null(err, "vocab");
    if (!vocab->finished) return trf__fail_learning(err);
    return trf__vocab_from_bytes(copy, vocab->kind, trf__vocab_bytes(vocab), trf__vocab_n_bytes(vocab), hooks, err);
}

// -----------------------------------------------------------------------------------------------
// >>config         presets and checks
//
// Presets fill every field; trf__config_check names the first field that makes no sense. Whoever takes a
// configuration (create, load) checks it whole, so all later chapters may trust it. Also here: the helpers with which
// checks are written.
//
// Options are checked, written to files and read from them by one table each, which has a line for every field that
// is a number (a test compares the names with the struct): type, name, least and largest value, the first format of
// files that has it (0: none).
// -----------------------------------------------------------------------------------------------

TRF_API void trf_config_set_conventions(trf_config *config, trf_conventions whose)
{
    int paper = whose == TRF_CONVENTIONS_PAPER;
    config->activation = TRF_RELU;
    config->positions = TRF_POSITIONS_INTERLEAVED;
    config->position_offset = 0;
    config->norm_place = TRF_POST_NORM;
    config->norm_rule = TRF_NORM_STANDARD;
    config->norm_epsilon = paper ? 1e-6 : 1e-5;
    config->final_norm = !paper;
    config->scale_embeddings = 1;
    config->tying = paper ? TRF_TIED_ALL : TRF_UNTIED;
    config->generator_bias = !paper;
    config->init = paper ? TRF_INIT_XAVIER : TRF_INIT_XAVIER_PACKED;
    config->embedding_init = paper ? TRF_EMBEDDING_NORMAL_D : TRF_EMBEDDING_NORMAL_1;
    config->source_eos = 1;
    config->decoder_start = TRF_START_BOS;
}

TRF__FN trf_config trf__preset(int32_t layers, int32_t d_model, int32_t d_ff, int32_t n_heads)
{
    trf_config config;
    TRF__ZERO(config);
    trf_config_set_conventions(&config, TRF_CONVENTIONS_PYTORCH);
    config.norm_place = TRF_PRE_NORM;
    config.embedding_init = TRF_EMBEDDING_NORMAL_D;     /* nn.Transformer has no embeddings of its own */
    config.encoder_layers = config.decoder_layers = layers;
    config.d_model = d_model;
    config.d_ff = d_ff;
    config.n_heads = n_heads;
    config.max_length = 512;
    config.pad = 0; config.bos = 1; config.eos = 2; config.unk = 3;
    config.target_eos = 1;
    config.seed = 1;
    config.device = trf_device_default();
    return config;
}

TRF_API trf_config trf_config_tiny(void) { return trf__preset(4, 128, 256, 4); }
TRF_API trf_config trf_config_base(void) { return trf__preset(6, 512, 2048, 8); }
TRF_API trf_config trf_config_big(void)  { return trf__preset(6, 1024, 4096, 16); }

#define TRF__BELOW_ONE (1 - DBL_EPSILON / 2)    /* the most of what may be 0, but not 1 */

/* Behind the noun of a message. */
TRF__FN const char *trf__plural(int64_t n) { return n == 1 ? "" : "s"; }

/* One range check, with the field's name in err->what. */
TRF__FN trf_status trf__check_range(const char *field, double value, double low, double high, trf_error *err)
{
    if (value >= low && value <= high) return TRF_OK;
    if (low == high)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, field, "%s must be %.10g, got %.10g", field, low, value);
    if (high < 1 && high >= 1 - 1e-12)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, field, "%s must be 0 or more and below 1, got %.10g", field,
                         value);
    return trf__fail(err, TRF_E_INVALID_ARG, -1, field, "%s must be between %.10g and %.10g, got %.10g", field, low,
                     high, value);
}


/* A field of an object. */
#define TRF__RANGE(object, field, low, high) \
    TRF__TRY(trf__check_range(#field, (double)(object)->field, low, high, err))

/* A tensor of the caller must have exactly this shape; columns -1: a vector. */
TRF__FN trf_status trf__shape_check(const trf_tensor *tensor, const char *name, int64_t rows, int64_t columns,
                                    trf_error *err)
{
    if (!tensor || !tensor->data)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, name, "%s must be a tensor with data", name);
    if (columns < 0 ? tensor->rank == 1 && tensor->shape[0] == rows
                    : tensor->rank == 2 && tensor->shape[0] == rows && tensor->shape[1] == columns) return TRF_OK;
    if (columns < 0)
        return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have shape (%lld), got rank %d with first extent %lld",
                         name, (long long)rows, tensor->rank, (long long)tensor->shape[0]);
    return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have shape (%lld, %lld), got rank %d, (%lld, %lld)", name,
                     (long long)rows, (long long)columns,
                     tensor->rank, (long long)tensor->shape[0], (long long)tensor->shape[1]);
}

TRF__FN trf_status trf__device_check(const trf_device *device, trf_error *err)
{
    const trf__backend *backend = trf__backend_of(device->kind);
    TRF__TRY(trf__check_range("device.threads", device->threads, 1, TRF__MAX_THREADS, err));
    TRF__TRY(trf__check_range("device.index", device->index, 0, INT32_MAX, err));
    TRF__TRY(trf__check_range("device.precision", (double)device->precision, 0, TRF_PRECISION_BF16, err));
    TRF__TRY(trf__check_range("device.products", (double)device->products, 0, TRF_PRODUCTS_BUILT_IN, err));
    if (backend) return backend->probe(device, err);
    if (device->kind == TRF_DEVICE_CUDA)
        return trf__fail(err, TRF_E_BACKEND, -1, "device.kind",
                         "TRF_DEVICE_CUDA: this program was built without CUDA (TRF_WITH_CUDA or TRF_CUDA)");
    return trf__fail(err, TRF_E_BACKEND, -1, "device.kind", "device.kind %d is none there is", (int)device->kind);
}

TRF__FN int trf__has_source(const trf_config *c) { return c->kind != TRF_DECODER_ONLY; }
TRF__FN int trf__has_target(const trf_config *c) { return c->kind != TRF_ENCODER_ONLY; }
/* Whether the head is a projection onto labels; and whether onto one label a sequence. */
TRF__FN int trf__has_labels(const trf_config *c) { return c->head && c->head != TRF_HEAD_MASKED; }
TRF__FN int trf__pools(const trf_config *c) { return c->head == TRF_HEAD_MEAN || c->head == TRF_HEAD_FIRST; }
/* How many logits a row has. */
TRF__FN int32_t trf__n_logits(const trf_config *c)
{
    return trf__has_target(c) ? c->target_vocab : trf__has_labels(c) ? c->n_labels : c->source_vocab;
}

TRF__FN trf_status trf__special_check(const trf_config *c, int32_t vocab, const char *field, trf_error *err)
{
    const int32_t ids[4] = {c->pad, c->bos, c->eos, c->unk};
    static const char *const names[4] = {"pad", "bos", "eos", "unk"};
    int i, j;
    for (i = 0; i < 4; i++) {
        if (ids[i] < 0 || ids[i] >= vocab)
            return trf__fail(err, TRF_E_INVALID_ARG, ids[i], names[i], "%s must be an id below %s = %d, got %d",
                             names[i], field, vocab, ids[i]);
        for (j = 0; j < i; j++)
            if (ids[i] == ids[j])
                return trf__fail(err, TRF_E_INVALID_ARG, ids[i], names[i],
                                 "special ids must differ, but %s and %s are both %d", names[j], names[i], ids[i]);
    }
    return TRF_OK;
}

/* source, target: 1 if the model has that side. */
#define TRF__CONFIG_FIELDS(X) \
    X(trf_kind,           kind,             0, 2, 2) \
    X(int32_t,            d_model,          1, 65536, 2) \
    X(int32_t,            n_heads,          1, c->d_model, 2) \
    X(int32_t,            d_ff,             1, 1 << 20, 2) \
    X(int32_t,            encoder_layers,   source, source * 256, 2) \
    X(int32_t,            decoder_layers,   target, target * 256, 2) \
    X(int32_t,            source_vocab,     source ? 5 : INT32_MIN, source ? 1 << 24 : INT32_MAX, 2) \
    X(int32_t,            target_vocab,     target ? 5 : INT32_MIN, target ? 1 << 24 : INT32_MAX, 2) \
    X(int32_t,            max_length,       2, 1 << 20, 2) \
    X(int32_t,            pad,              INT32_MIN, INT32_MAX, 2) \
    X(int32_t,            bos,              INT32_MIN, INT32_MAX, 2) \
    X(int32_t,            eos,              INT32_MIN, INT32_MAX, 2) \
    X(int32_t,            unk,              INT32_MIN, INT32_MAX, 2) \
    X(trf_activation,     activation,       0, 2, 2) \
    X(trf_positions,      positions,        0, 4, 2) \
    X(int32_t,            position_offset,  0, 1 << 20, 2) \
    X(trf_norm_place,     norm_place,       0, 1, 2) \
    X(trf_norm_rule,      norm_rule,        0, 1, 2) \
    X(double,             norm_epsilon,     1e-30, 1, 2) \
    X(int32_t,            final_norm,       0, 1, 2) \
    X(int32_t,            scale_embeddings, 0, 1, 2) \
    X(trf_tying,          tying,            0, source && target ? 2 : target, 2) \
    X(int32_t,            generator_bias,   0, 1, 2) \
    X(trf_init,           init,             0, 1, 2) \
    X(trf_embedding_init, embedding_init,   0, 3, 2) \
    X(int32_t,            source_eos,       0, 1, 2) \
    X(int32_t,            target_eos,       0, 1, 3) \
    X(trf_decoder_start,  decoder_start,    0, 3, 2) \
    X(trf_head,           head,             0, target ? 0 : 4, 3) \
    X(int32_t,            n_labels,         INT32_MIN, INT32_MAX, 3) \
    X(uint64_t,           seed,             0, 2e19, 2)

/* Where the largest value is 0 this kind of model has no such field: say so. */
TRF__FN trf_status trf__check_field(const trf_config *c, const char *field, double value, double low, double high,
                                    trf_error *err)
{
    if (high != 0 || value == 0) return trf__check_range(field, value, low, high, err);
    return trf__fail(err, TRF_E_INVALID_ARG, -1, field, "%s must be 0 in %s model, got %.9g", field,
                     c->kind == TRF_DECODER_ONLY ? "a decoder-only"
                         : c->kind == TRF_ENCODER_ONLY ? "an encoder-only" : "an encoder-decoder", value);
}

TRF__COLD
TRF__FN trf_status trf__config_check(const trf_config *c, trf_error *err)
{
    int source = trf__has_source(c), target = trf__has_target(c);
#define TRF__X(type, field, low, high, stored) \
    TRF__TRY(trf__check_field(c, #field, (double)c->field, low, high, err));
    TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    if (c->d_model % c->n_heads)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "n_heads", "n_heads must divide d_model = %d, got %d",
                         c->d_model, c->n_heads);
    if (source) TRF__TRY(trf__special_check(c, c->source_vocab, "source_vocab", err));
    if (target) TRF__TRY(trf__special_check(c, c->target_vocab, "target_vocab", err));
    if (c->tying == TRF_TIED_ALL && c->source_vocab != c->target_vocab)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "target_vocab",
                         "one embedding for all needs equal vocabularies, got source %d and target %d",
                         c->source_vocab, c->target_vocab);
    if (trf__has_labels(c)) TRF__RANGE(c, n_labels, 2, 1 << 24);
    else if (c->n_labels)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "n_labels", "n_labels must be 0 with head %d, got %d",
                         (int)c->head, c->n_labels);
    TRF__TRY(trf__hooks_check(&c->hooks, err));
    return trf__device_check(&c->device, err);
}

// -----------------------------------------------------------------------------------------------
// >>params         which weights a model has: names, shapes, first values, places
//
// All parameters lie in one arena: first those of the second table below, then the first table once per layer, each
// at a multiple of 16 numbers and padded to whole panels of sixteen rows (see >>gemm), so that gradients, Adam's
// moments and packed copies are arenas of the same layout: one offset finds a parameter in all of them. Layers and
// final norms have the names and shapes of PyTorch's nn.Transformer. d = d_model, f = d_ff. Two parameters that are
// tied are one, with the same offset.
// -----------------------------------------------------------------------------------------------

/* How a parameter starts: uniform +-sqrt(6 / (in + out)) for matrices, and so on (trf__initialise). */
enum {
    TRF__START_MATRIX, TRF__START_QKV, TRF__START_ZERO, TRF__START_ONE,
    TRF__START_EMBEDDING, TRF__START_GENERATOR, TRF__START_GENERATOR_BIAS
};

/* field, only with cross-attention, name inside the layer, rows, columns (0: a vector), first value */
#define TRF__LAYER_PARAMS(X) \
    X(self_in_w,   0, "self_attn.in_proj_weight",      3 * d, d, TRF__START_QKV) \
    X(self_in_b,   0, "self_attn.in_proj_bias",        3 * d, 0, TRF__START_ZERO) \
    X(self_out_w,  0, "self_attn.out_proj.weight",     d,     d, TRF__START_MATRIX) \
    X(self_out_b,  0, "self_attn.out_proj.bias",       d,     0, TRF__START_ZERO) \
    X(cross_in_w,  1, "multihead_attn.in_proj_weight", 3 * d, d, TRF__START_QKV) \
    X(cross_in_b,  1, "multihead_attn.in_proj_bias",   3 * d, 0, TRF__START_ZERO) \
    X(cross_out_w, 1, "multihead_attn.out_proj.weight", d,    d, TRF__START_MATRIX) \
    X(cross_out_b, 1, "multihead_attn.out_proj.bias",  d,     0, TRF__START_ZERO) \
    X(w1,          0, "linear1.weight",                f,     d, TRF__START_MATRIX) \
    X(b1,          0, "linear1.bias",                  f,     0, TRF__START_ZERO) \
    X(w2,          0, "linear2.weight",                d,     f, TRF__START_MATRIX) \
    X(b2,          0, "linear2.bias",                  d,     0, TRF__START_ZERO) \
    X(norm1_g,     0, "norm1.weight",                  d,     0, TRF__START_ONE) \
    X(norm1_b,     0, "norm1.bias",                    d,     0, TRF__START_ZERO) \
    X(norm2_g,     0, "norm2.weight",                  d,     0, TRF__START_ONE) \
    X(norm2_b,     0, "norm2.bias",                    d,     0, TRF__START_ZERO) \
    X(norm3_g,     1, "norm3.weight",                  d,     0, TRF__START_ONE) \
    X(norm3_b,     1, "norm3.bias",                    d,     0, TRF__START_ZERO)

/* field, condition, name, rows, columns, first value */
#define TRF__MODEL_PARAMS(X) \
    X(src_embed,      source, \
      "src_embed.weight",     c->source_vocab, d, TRF__START_EMBEDDING) \
    X(tgt_embed,      target && c->tying != TRF_TIED_ALL, \
      "tgt_embed.weight",     c->target_vocab, d, TRF__START_EMBEDDING) \
    X(generator_w,    target && c->tying == TRF_UNTIED, \
      "generator.weight",     c->target_vocab, d, TRF__START_GENERATOR) \
    X(generator_b,    target && c->generator_bias, \
      "generator.bias",       c->target_vocab, 0, TRF__START_GENERATOR_BIAS) \
    X(head_w,         trf__has_labels(c), \
      "head.weight",          c->n_labels, d, TRF__START_MATRIX) \
    X(head_b,         c->head, \
      "head.bias",            trf__n_logits(c), 0, TRF__START_ZERO) \
    X(src_positions,  source && learned, \
      "src_positions.weight", c->max_length + c->position_offset, d, TRF__START_EMBEDDING) \
    X(tgt_positions,  target && learned, \
      "tgt_positions.weight", c->max_length + c->position_offset, d, TRF__START_EMBEDDING) \
    X(encoder_norm_g, source && c->final_norm, "encoder.norm.weight", d, 0, TRF__START_ONE) \
    X(encoder_norm_b, source && c->final_norm, "encoder.norm.bias",   d, 0, TRF__START_ZERO) \
    X(decoder_norm_g, target && c->final_norm, "decoder.norm.weight", d, 0, TRF__START_ONE) \
    X(decoder_norm_b, target && c->final_norm, "decoder.norm.bias",   d, 0, TRF__START_ZERO)

/* Offsets of one layer's parameters in the arena; -1: the layer has none. */
typedef struct trf__layer {
#define TRF__X(field, cross, name, rows, columns, start) int64_t field;
    TRF__LAYER_PARAMS(TRF__X)
#undef TRF__X
} trf__layer;

typedef struct trf__whole {
#define TRF__X(field, condition, name, rows, columns, start) int64_t field;
    TRF__MODEL_PARAMS(TRF__X)
#undef TRF__X
} trf__whole;

typedef struct trf__param {
    char name[64];
    int32_t rank, start;
    int64_t shape[2], offset;
} trf__param;

TRF__FN int64_t trf__param_size(const trf__param *p) { return p->shape[0] * p->shape[1]; }

/* A layout in the making: lists NULL only counts. */
typedef struct trf__layout {
    trf__param *params;
    trf__layer *layers;         /* encoder layers, then decoder layers */
    trf__whole whole;
    int32_t n_params;
    int64_t n_weights;          /* length of the arena */
    int64_t n_tiles;            /* into which Adam cuts the parameters, each for itself */
} trf__layout;

enum { TRF__TILE = 16384 };

TRF__FN int64_t trf__add_param(trf__layout *layout, const char *prefix, int32_t number, const char *name,
                               int64_t rows, int64_t columns, int start)
{
    int64_t offset = layout->n_weights;
    if (layout->params) {
        trf__param *p = &layout->params[layout->n_params];
        TRF__ZERO(*p);
        if (prefix) snprintf(p->name, sizeof p->name, "%s.layers.%d.%s", prefix, number, name);
        else snprintf(p->name, sizeof p->name, "%s", name);
        p->rank = columns ? 2 : 1;
        p->shape[0] = rows;
        p->shape[1] = columns ? columns : 1;
        p->offset = offset;
        p->start = start;
    }
    layout->n_params++;
    layout->n_weights += trf__round_up(trf__round_up(rows, 16) * (columns ? columns : 1), 16);
    layout->n_tiles += trf__ceil_div(rows * (columns ? columns : 1), TRF__TILE);
    return offset;
}

TRF__COLD
TRF__FN void trf__lay_out(trf__layout *layout, const trf_config *c)
{
    int64_t d = c->d_model, f = c->d_ff;
    int source = trf__has_source(c), target = trf__has_target(c), learned = c->positions == TRF_POSITIONS_LEARNED, i;
    layout->n_params = 0;
    layout->n_weights = layout->n_tiles = 0;
#define TRF__X(field, condition, name, rows, columns, start) \
    layout->whole.field = (condition) ? trf__add_param(layout, NULL, 0, name, rows, columns, start) : -1;
    TRF__MODEL_PARAMS(TRF__X)
#undef TRF__X
    if (target && c->tying == TRF_TIED_ALL) layout->whole.tgt_embed = layout->whole.src_embed;
    if (target && c->tying != TRF_UNTIED) layout->whole.generator_w = layout->whole.tgt_embed;
    if (c->head) {          /* the generator of such a model */
        layout->whole.generator_w = trf__has_labels(c) ? layout->whole.head_w : layout->whole.src_embed;
        layout->whole.generator_b = layout->whole.head_b;
    }
    for (i = 0; i < c->encoder_layers + c->decoder_layers; i++) {
        int decoder = i >= c->encoder_layers, with_cross = decoder && source;
        trf__layer layer;
#define TRF__X(field, cross, name, rows, columns, start) \
        layer.field = !(cross) || with_cross ? trf__add_param(layout, decoder ? "decoder" : "encoder", \
                                                          decoder ? i - c->encoder_layers : i, \
                                                          name, rows, columns, start) : -1;
        TRF__LAYER_PARAMS(TRF__X)
#undef TRF__X
        if (layout->layers) layout->layers[i] = layer;
    }
}

/* A uniform number in (0, 1), 53 bits. */
TRF__FN double trf__uniform(uint64_t seed, uint32_t stream, uint64_t index)
{
    return ((double)(trf__random64(seed, stream, index) >> 11) + 0.5) / 9007199254740992.0;
}

/* The first values of parameter number `stream`, its numbers begin .. begin + n - 1: a uniform bound or a normal
   deviation (trf_init, trf_embedding_init). */
TRF__FN void trf__initialise(trf_real *w, int64_t begin, int64_t n, const trf__param *p, uint32_t stream,
                             const trf_config *c)
{
    double out = (double)p->shape[0], in = (double)p->shape[1], d = c->d_model, bound = 0, deviation = 0;
    int64_t i;
    switch (p->start) {
    case TRF__START_ONE: for (i = 0; i < n; i++) w[i] = 1; return;
    case TRF__START_MATRIX: bound = sqrt(6 / (in + out)); break;
    case TRF__START_QKV: bound = sqrt(6 / (in + (c->init == TRF_INIT_XAVIER ? in : out))); break;
    case TRF__START_GENERATOR_BIAS: if (c->embedding_init == TRF_EMBEDDING_NORMAL_1) bound = 1 / sqrt(d); break;
    case TRF__START_GENERATOR: case TRF__START_EMBEDDING:
        if (c->embedding_init == TRF_EMBEDDING_XAVIER) bound = sqrt(6 / (in + out));
        else if (c->embedding_init == TRF_EMBEDDING_FAN_OUT) bound = sqrt(3 / d);
        else if (c->embedding_init == TRF_EMBEDDING_NORMAL_D) deviation = 1 / sqrt(d);
        else if (p->start == TRF__START_GENERATOR) bound = 1 / sqrt(d);
        else deviation = 1;
        break;
    default: break;
    }
    if (bound == 0 && deviation == 0) { memset(w, 0, (size_t)n * sizeof *w); return; }     /* +0 */
    for (i = 0; i < n; i++) {
        uint64_t k = (uint64_t)(begin + i);
        if (deviation > 0)      /* Box and Muller 1958 */
            w[i] = (trf_real)(deviation * sqrt(-2 * log(trf__uniform(c->seed, stream, 2 * k)))
                              * cos(6.283185307179586 * trf__uniform(c->seed, stream, 2 * k + 1)));
        else w[i] = (trf_real)(bound * (2 * trf__uniform(c->seed, stream, k) - 1));
    }
}

// -----------------------------------------------------------------------------------------------
// >>model          configuration + weights + vocabularies
//
// The object behind trf_model: a checked configuration, the layout of its parameters, one arena of weights, copies of
// the vocabularies and of the program's own texts. It is made in two stages (frame, then weights), so that a file is
// proven to fit before any memory for weights is asked for (>>store).
// -----------------------------------------------------------------------------------------------

typedef struct trf__meta { const char *key, *value; } trf__meta;     /* a text of the metadata */

/* Limits of the program's own texts, and of those that a file brings: ours (at most 8,000) can be saved beside
   them. */
enum { TRF__META_KEY = 255, TRF__META_BYTES = 1 << 20, TRF__META_MOST = 65000,
       TRF__META_LOADED_BYTES = 8 << 20, TRF__META_LOADED = 120000 };

struct trf_model {
    trf_config config;
    trf__layout layout;
    trf__run run;               /* where the weights are */
    trf_real *weights;          /* layout.n_weights numbers on the device */
    trf_vocab *source, *target; /* copies, or NULL */
    trf__meta *metadata;        /* the program's own texts in the order of their keys, and behind them their bytes */
    size_t metadata_bytes;      /* of it all; 0: NULL */
    int32_t n_metadata;
};

TRF_API void trf_model_destroy(trf_model *model)
{
    trf_hooks hooks;
    if (!model) return;
    hooks = model->config.hooks;
    trf_vocab_destroy(model->source);
    trf_vocab_destroy(model->target);
    trf__free(&hooks, model->metadata, model->metadata_bytes);
    model->run.backend->release(&model->run, model->weights, trf__bytes(model->layout.n_weights, sizeof(trf_real)));
    trf__free(&hooks, model->layout.params, trf__bytes(model->layout.n_params, sizeof(trf__param)));
    trf__free(&hooks, model->layout.layers,
              trf__bytes(model->config.encoder_layers + model->config.decoder_layers, sizeof(trf__layer)));
    trf__free(&hooks, model, sizeof *model);
}

TRF_API size_t trf_model_memory(const trf_config *config)
{
    trf__layout layout;
    if (!config || trf__config_check(config, NULL) != TRF_OK) return 0;
    TRF__ZERO(layout);
    trf__lay_out(&layout, config);
    return trf__add_size(trf__bytes(layout.n_weights, sizeof(trf_real)),
                         sizeof(trf_model) + trf__bytes(layout.n_params, sizeof(trf__param))
                         + trf__bytes(config->encoder_layers + config->decoder_layers, sizeof(trf__layer)));
}

/* A model without weights: configuration, names and places. */
TRF__FN trf_status trf__model_frame(trf_model **out, const trf_config *config, trf_error *err)
{
    trf_model *model;
    trf__layout count;
    *out = NULL;
    if (!config) return trf__fail_null(err, "config");
    TRF__TRY(trf__config_check(config, err));
    TRF__ZERO(count);
    trf__lay_out(&count, config);
    model = (trf_model *)trf__alloc_zeroed(&config->hooks, sizeof *model);
    if (!model) return trf__fail(err, TRF_E_NOMEM, -1, "model", "no memory for a model");
    model->config = *config;
    model->run = trf__run_on(&config->device, &config->hooks);
    model->layout.n_params = count.n_params;
    model->layout.n_weights = count.n_weights;
    model->layout.params =
        (trf__param *)trf__alloc_zeroed(&config->hooks, trf__bytes(count.n_params, sizeof(trf__param)));
    model->layout.layers =
        (trf__layer *)trf__alloc_zeroed(&config->hooks, trf__bytes(config->encoder_layers + config->decoder_layers,
                                                                   sizeof(trf__layer)));
    if (!model->layout.params || !model->layout.layers) {
        trf_model_destroy(model);
        return trf__fail(err, TRF_E_NOMEM, -1, "model", "no memory for the names of %d parameters", count.n_params);
    }
    trf__lay_out(&model->layout, config);
    *out = model;
    return TRF_OK;
}

/* Room for the parameters, all of which the caller (create, copy, load) writes; what fills their rows up is zero. */
TRF__FN trf_status trf__model_weights(trf_model *model, trf_error *err)
{
    const trf__run *run = &model->run;
    int64_t n = model->layout.n_weights, end;
    int32_t i;
    model->weights = (trf_real *)run->backend->alloc(run, trf__bytes(n, sizeof(trf_real)));
    if (!model->weights)
        return trf__fail(err, TRF_E_NOMEM, -1, "weights", "no memory for %lld weights", (long long)n);
    for (i = model->layout.n_params; i-- > 0; n = model->layout.params[i].offset) {
        end = model->layout.params[i].offset + trf__param_size(&model->layout.params[i]);
        if (end < n) run->backend->zero(run, model->weights + end, trf__bytes(n - end, sizeof(trf_real)));
    }
    return TRF_OK;
}

TRF__FN trf_status trf__model_new(trf_model **out, const trf_config *config, trf_error *err)
{
    trf_status status;
    TRF__TRY(trf__model_frame(out, config, err));
    status = trf__model_weights(*out, err);
    if (status != TRF_OK) { trf_model_destroy(*out); *out = NULL; }
    return status;
}

/* A new model's warning, if it computes with this file's own ops and they were compiled to be slow. */
TRF__FN void trf__warn_if_slow(const trf_model *model)
{
    if (TRF__SLOW && model->run.backend == &trf__cpu_backend)
        trf__log(&model->config.hooks, TRF_LOG_WARNING,
                 "transformer.h was compiled without optimisation; with -O2 it is many times faster");
}

TRF__COLD
TRF_API trf_status trf_model_create(trf_model **model, const trf_config *config, trf_error *err)
{
    trf_real chunk[1024];
    const trf_model *m;
    trf_status status;
    int32_t i;
    TRF__TRY(trf__begin(model, "model", err));
    TRF__TRY(trf__model_new(model, config, err));
    m = *model;
    for (i = 0; i < m->layout.n_params; i++) {
        const trf__param *p = &m->layout.params[i];
        int64_t at, n, size = trf__param_size(p);
        for (at = 0; at < size; at += n) {
            n = trf__min64(size - at, (int64_t)(sizeof chunk / sizeof *chunk));
            trf__initialise(chunk, at, n, p, (uint32_t)i, config);
            m->run.backend->upload(&m->run, m->weights + p->offset + at, chunk, (size_t)n * sizeof *chunk);
        }
    }
    status = m->run.backend->sync(&m->run, err);
    if (status != TRF_OK) { trf_model_destroy(*model); *model = NULL; return status; }
    trf__warn_if_slow(m);
    return TRF_OK;
}

TRF_API const trf_config *trf_model_config(const trf_model *model) { return model ? &model->config : NULL; }
TRF_API const trf_vocab *trf_model_source_vocab(const trf_model *model) { return model ? model->source : NULL; }
TRF_API const trf_vocab *trf_model_target_vocab(const trf_model *model) { return model ? model->target : NULL; }
TRF_API int32_t trf_parameter_count(const trf_model *model) { return model ? model->layout.n_params : 0; }

TRF_API int64_t trf_parameter_total(const trf_model *model)
{
    int64_t total = 0;
    int32_t i;
    for (i = 0; i < trf_parameter_count(model); i++) total += trf__param_size(&model->layout.params[i]);
    return total;
}

/* Parameter number `index` inside any arena of the model's layout, on the device of `run`. */
TRF__FN trf_tensor trf__param_view(const trf_model *model, const trf__run *run, trf_real *arena, int32_t index)
{
    trf_tensor tensor = trf_tensor_of(NULL, 1, 0, 1, 1);
    if (index >= 0 && index < trf_parameter_count(model)) {
        const trf__param *p = &model->layout.params[index];
        tensor = trf_tensor_of(run->backend->on_host ? arena + p->offset : NULL, p->rank, p->shape[0], p->shape[1],
                               1);
        tensor.name = p->name;
        tensor.home = run;
        tensor.there = arena + p->offset;
    }
    return tensor;
}

/* Numbers of an arena of the model's device. */
TRF__FN trf_status trf__arena_get(const trf_model *model, const trf_real *arena, int64_t first, trf_real *to,
                                  int64_t n, trf_error *err)
{
    model->run.backend->download(&model->run, to, arena + first, (size_t)n * sizeof *to);
    return model->run.backend->sync(&model->run, err);
}
TRF__FN void trf__arena_put(const trf_model *model, trf_real *arena, int64_t first, const trf_real *from, int64_t n)
{
    model->run.backend->upload(&model->run, arena + first, from, (size_t)n * sizeof *from);
}

TRF_API trf_tensor trf_parameter(const trf_model *model, int32_t index)
{
    return trf__param_view(model, model ? &model->run : NULL, model ? model->weights : NULL, index);
}

TRF_API trf_tensor trf_model_parameter(trf_model *model, int32_t index) { return trf_parameter(model, index); }

TRF_API int32_t trf_parameter_index(const trf_model *model, const char *name)
{
    int32_t i;
    for (i = 0; name && i < trf_parameter_count(model); i++)
        if (strcmp(model->layout.params[i].name, name) == 0) return i;
    return -1;
}

TRF__FN trf_status trf__vocab_fits(const trf_vocab *vocab, int32_t size, const char *field, trf_error *err)
{
    if (!vocab || trf_vocab_size(vocab) == size) return TRF_OK;
    return trf__fail(err, TRF_E_SHAPE, -1, field, "the configuration has %s = %d, but the vocabulary has %d tokens",
                     field, size, trf_vocab_size(vocab));
}

/* A model with vocabularies has their special ids. */
TRF__FN trf_status trf__vocab_ids(const trf_config *c, trf_error *err)
{
    if (c->pad == 0 && c->bos == 1 && c->eos == 2 && c->unk == 3) return TRF_OK;
    return trf__fail(err, TRF_E_SHAPE, -1, c->pad != 0 ? "pad" : c->bos != 1 ? "bos" : c->eos != 2 ? "eos" : "unk",
                     "a vocabulary has pad, bos, eos, unk at 0, 1, 2, 3; the configuration has %d, %d, %d, %d",
                     c->pad, c->bos, c->eos, c->unk);
}

TRF_API trf_status trf_model_set_vocabs(trf_model *model, const trf_vocab *source, const trf_vocab *target,
                                        trf_error *err)
{
    trf_vocab *new_source = NULL, *new_target = NULL;
    trf_status status;
    const trf_config *c;
    TRF__TRY(trf__begin(model, "model", err));
    c = &model->config;
    if (source && trf__has_source(c)) TRF__TRY(trf__vocab_fits(source, c->source_vocab, "source_vocab", err));
    if (target && trf__has_target(c)) TRF__TRY(trf__vocab_fits(target, c->target_vocab, "target_vocab", err));
    if (source || target) TRF__TRY(trf__vocab_ids(c, err));
    if (source && (status = trf_vocab_copy(&new_source, source, &c->hooks, err)) != TRF_OK) return status;
    if (target && (status = trf_vocab_copy(&new_target, target, &c->hooks, err)) != TRF_OK) {
        trf_vocab_destroy(new_source);
        return status;
    }
    trf_vocab_destroy(model->source);
    trf_vocab_destroy(model->target);
    model->source = new_source;
    model->target = new_target;
    return TRF_OK;
}

/* Copies of a sorted list of texts become the model's. */
TRF__FN trf_status trf__metadata_keep(trf_model *model, const trf__meta *list, int32_t n, trf_error *err)
{
    size_t bytes = trf__bytes(n, sizeof *list);
    trf__meta *own = NULL;
    char *to;
    int32_t i;
    for (i = 0; i < n; i++) bytes += strlen(list[i].key) + strlen(list[i].value) + 2;
    if (n > 0) own = (trf__meta *)trf__alloc(&model->config.hooks, bytes);
    if (n > 0 && !own) return trf__fail(err, TRF_E_NOMEM, -1, "metadata", "no memory for %d texts", (int)n);
    to = own ? (char *)(own + n) : NULL;
    for (i = 0; i < n; i++) {
        size_t key = strlen(list[i].key) + 1, value = strlen(list[i].value) + 1;
        own[i].key = (char *)memcpy(to, list[i].key, key);
        own[i].value = (char *)memcpy(to + key, list[i].value, value);
        to += key + value;
    }
    trf__free(&model->config.hooks, model->metadata, model->metadata_bytes);
    model->metadata = own;
    model->metadata_bytes = bytes;
    model->n_metadata = n;
    return TRF_OK;
}

/* Keys that the library writes itself. "format": "pt" is what PyTorch's users ask of a file. */
TRF__FN int trf__our_key(const char *key) { return !strncmp(key, "trf.", 4) || !strcmp(key, "format"); }

TRF__FN trf_status trf__metadata_check(const char *key, const char *value, trf_error *err)
{
    if (!key) return trf__fail_null(err, "key");
    TRF__TRY(trf__check_utf8(key, "key", err));
    if (!*key || strlen(key) > TRF__META_KEY)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "key", "a key must have 1 to %d bytes, got %llu",
                         (int)TRF__META_KEY, (unsigned long long)strlen(key));
    if (trf__our_key(key))
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "key", "the key %s belongs to the library", key);
    return value ? trf__check_utf8(value, "value", err) : TRF_OK;
}

TRF_API trf_status trf_model_set_metadata(trf_model *model, const char *key, const char *value, trf_error *err)
{
    trf__meta *list;
    size_t bytes, texts = 0;
    int32_t i, n = 0, had;
    trf_status status;
    TRF__TRY(trf__begin(model, "model", err));
    TRF__TRY(trf__metadata_check(key, value, err));
    bytes = trf__bytes((int64_t)model->n_metadata + 1, sizeof *list);
    list = (trf__meta *)trf__alloc(&model->config.hooks, bytes);
    if (!list) return trf__fail(err, TRF_E_NOMEM, -1, "metadata", "no memory for one text more");
    for (i = 0; i < model->n_metadata && strcmp(model->metadata[i].key, key) < 0; i++) list[n++] = model->metadata[i];
    had = i < model->n_metadata && !strcmp(model->metadata[i].key, key);
    if (value) {
        list[n].key = key;
        list[n++].value = value;
    }
    for (i += had; i < model->n_metadata; i++) list[n++] = model->metadata[i];
    for (i = 0; i < n; i++) texts += strlen(list[i].key) + strlen(list[i].value);
    if (value && (texts > TRF__META_BYTES || n > TRF__META_MOST))
        status = trf__fail(err, TRF_E_LIMIT, -1, "metadata", "%d texts of %llu bytes, the limits are %d and %d",
                           (int)n, (unsigned long long)texts, (int)TRF__META_MOST, (int)TRF__META_BYTES);
    else status = trf__metadata_keep(model, list, n, err);
    trf__free(&model->config.hooks, list, bytes);
    return status;
}

TRF_API int32_t trf_model_metadata_count(const trf_model *model) { return model ? model->n_metadata : 0; }

TRF_API void trf_model_metadata_at(const trf_model *model, int32_t index, const char **key, const char **value)
{
    int inside = index >= 0 && index < trf_model_metadata_count(model);
    if (key) *key = inside ? model->metadata[index].key : NULL;
    if (value) *value = inside ? model->metadata[index].value : NULL;
}

TRF_API const char *trf_model_metadata(const trf_model *model, const char *key)
{
    int32_t i;
    for (i = 0; key && i < trf_model_metadata_count(model); i++)
        if (!strcmp(model->metadata[i].key, key)) return model->metadata[i].value;
    return NULL;
}

TRF_API trf_status trf_model_copy(trf_model **copy, const trf_model *model, trf_error *err)
{
    trf_status status;
    if (copy) *copy = NULL;
    TRF__TRY(trf__begin(model, "model", err));
    if (!copy) return trf__fail_null(err, "copy");
    TRF__TRY(trf__model_new(copy, &model->config, err));
    model->run.backend->copy(&model->run, (*copy)->weights, model->weights,
                             trf__bytes(model->layout.n_weights, sizeof(trf_real)));
    status = model->run.backend->sync(&model->run, err);
    if (!status) status = trf_model_set_vocabs(*copy, model->source, model->target, err);
    if (!status) status = trf__metadata_keep(*copy, model->metadata, model->n_metadata, err);
    if (status != TRF_OK) { trf_model_destroy(*copy); *copy = NULL; }
    return status;
}

/* Whether model number `number` computes what `a` does; where weights started does not matter. */
TRF__FN trf_status trf__same_config(const trf_config *a, const trf_config *b, int32_t number, trf_error *err)
{
#define TRF__X(type, field, low, high, stored) \
    if (a->field != b->field && strcmp(#field, "seed")) \
        return trf__fail(err, TRF_E_SHAPE, number, #field, "%s is %.9g, but model %d has %.9g", #field, \
                         (double)a->field, (int)number, (double)b->field);
    TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_model_average(trf_model *model, trf_model *const *models, int32_t count, trf_error *err)
{
    enum { CHUNK = 2048 };
    double sum[CHUNK];
    trf_real numbers[CHUNK];
    int64_t at, n, i;
    int32_t k, number;
    TRF__TRY(trf__begin(model, "model", err));
    if (count < 1) return trf__fail_below(err, "count", 1, count);
    if (!models) return trf__fail_null(err, "models");
    for (k = 0; k < count; k++) {
        if (!models[k]) return trf__fail(err, TRF_E_INVALID_ARG, k, "models", "model %d must not be NULL", (int)k);
        TRF__TRY(trf__same_config(&model->config, &models[k]->config, k, err));
    }
    for (number = 0; number < model->layout.n_params; number++) {
        const trf__param *p = &model->layout.params[number];
        for (at = 0; at < trf__param_size(p); at += n) {
            n = trf__min64(trf__param_size(p) - at, CHUNK);
            for (k = 0; k < count; k++) {
                TRF__TRY(trf__arena_get(models[k], models[k]->weights, p->offset + at, numbers, n, err));
                for (i = 0; i < n; i++) sum[i] = k > 0 ? sum[i] + (double)numbers[i] : (double)numbers[i];
            }
            for (i = 0; i < n; i++) numbers[i] = (trf_real)(sum[i] / count);
            trf__arena_put(model, model->weights, p->offset + at, numbers, n);
        }
    }
    return model->run.backend->sync(&model->run, err);
}

TRF_API trf_status trf_model_copy_weights(trf_model *model, const trf_model *from, int32_t *copied, trf_error *err)
{
    trf_real numbers[2048];
    int32_t i, k, n_written = 0, write;
    if (copied) *copied = 0;
    TRF__TRY(trf__begin(model, "model", err));
    if (!from) return trf__fail_null(err, "from");
    for (write = 0; write < 2; write++)         /* first only a look */
        for (i = 0; i < model->layout.n_params; i++) {
            const trf__param *p = &model->layout.params[i], *q;
            int64_t at, n, size;
            if ((k = trf_parameter_index(from, p->name)) < 0) continue;
            if (p->offset == model->layout.whole.head_b &&      /* a token's is no label's */
                trf__has_labels(&model->config) != trf__has_labels(&from->config)) continue;
            q = &from->layout.params[k];
            if (q->shape[1] != p->shape[1])
                return trf__fail(err, TRF_E_SHAPE, -1, p->name, "%s has %lld columns, but %lld in the other model",
                                 p->name, (long long)p->shape[1], (long long)q->shape[1]);
            size = trf__min64(trf__param_size(p), trf__param_size(q));
            for (at = 0; write && at < size; at += n) {
                n = trf__min64(size - at, (int64_t)(sizeof numbers / sizeof *numbers));
                TRF__TRY(trf__arena_get(from, from->weights, q->offset + at, numbers, n, err));
                trf__arena_put(model, model->weights, p->offset + at, numbers, n);
            }
            n_written += write;
        }
    TRF__TRY(model->run.backend->sync(&model->run, err));
    if (copied) *copied = n_written;
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>pass           one batch through the model: what is stored, forward, backward
//
// A stack (the encoder or the decoder) is its rows, their embedding, and a list of sublayers. Two streams run through
// the list: `in`, what the next sublayer reads, and `res`, what is added to its result:
//
//   s = res + drop(sublayer(in))        post-norm:  y = norm of this sublayer (s)    in = res = y
//                                       pre-norm:   y = norm of the next one (s)     in = y, res = s
//
// so both placements are the same list, and each sublayer names the norm that follows it. Pre-norm has one
// norm before the first sublayer; a final norm comes last. Backward walks the list from its end with the
// gradients of the two streams.
//
// A head (trf_head) stands where the decoder would: that stack has no sublayers then, its rows are the head's, its
// targets the labels, `out` what is projected, and `embedded` has room for one row a sequence.
//
// What a batch is (ids, positions, spans) lies in one block, filled in on the host and uploaded at once (>>rows). All
// activations and their gradients lie in one arena of the device, laid out from the limits of a batch (>>acts); a
// pass that only looks forward lets all sublayers of a stack share one set of activations.
// -----------------------------------------------------------------------------------------------

// >>sublayers      attention and feed-forward with their projections (paper 3.2.2, 3.3)
//
//   self-attention    wide = x in_w^T + in_b = [q k v]      inner = attention(q, k, v)     y = inner out_w^T + out_b
//   cross-attention   in_w = [W_q; W_k; W_v]: wide = x W_q^T + b_q = q, memory = m [W_k; W_v]^T + [b_k b_v] = [k v]
//   feed-forward      wide = x w1^T + b1                    inner = drop(act(wide))          y = inner w2^T + b2
//
//   x, y: (N, d)   m: (M, d)   wide: (N, 3d), (N, d) or (N, f)   memory: (M, 2d)   inner: (N, d) or (N, f)
//
// These are used by the model's passes and by the public blocks alike. What backward needs is what forward left in
// wide, memory, inner and stats. Keys and values are computed into `fresh`, which mostly is `memory` itself. Decoding
// token by token is the second line in both cases: `memory` is a cache, where self-attention puts those of the new
// token, made in `fresh`, into `slots`; cross-attention has nothing new.

/* One sublayer at work. */
typedef struct trf__work {
    int64_t rows, memory_rows, d, f;    /* N, M, d_model, d_ff */
    trf__rows at;                       /* of the N rows */
    trf__mat in_w, out_w;
    const trf_real *in_b, *out_b;
    int activation;
    trf__attention_in attention;        /* spans, heads, mask; trf__attention_of adds where q, k and v are */
    trf__drop drop;                     /* on the attention weights, or behind the activation */
    trf__act *wide, *memory, *fresh, *inner;    /* memory NULL: keys and values are in `wide`, the first line above */
    const int32_t *slots;               /* NULL, or where in memory the fresh rows belong */
    trf_real *stats;
    /* backward: gradients of the parameters, and room for those of wide, memory and inner */
    trf_real *d_in_w, *d_in_b, *d_out_w, *d_out_b;
    int first;                          /* 1: the parameters' gradients are set, not added to */
    trf__act *dwide, *dmemory, *dinner;
} trf__work;

/* y (rows, out) = x w^T + b */
TRF__FN void trf__project(const trf__run *run, trf__act *y, const trf__act *x, trf__mat w, const trf_real *b,
                          int64_t rows, int64_t out, int64_t in)
{
    trf__linear l;
    l.y = y; l.x = x; l.w = w; l.b = b; l.rows = rows; l.out = out; l.in = in;
    run->backend->linear(run, &l);
}

/* The rows of in_w that make keys and values. */
TRF__FN trf__mat trf__keys_weight(const trf__work *sub)
{
    trf__mat w = sub->in_w;
    w.row += sub->d;
    return w;
}

/* Keys and values of m (M, d). */
TRF__FN void trf__project_memory(const trf__run *run, const trf__work *sub, const trf__act *m)
{
    trf__project(run, sub->fresh, m, trf__keys_weight(sub), sub->in_b + sub->d, sub->memory_rows, 2 * sub->d, sub->d);
}

TRF__FN trf__attention_in trf__attention_of(const trf__run *run, const trf__work *sub)
{
    trf__attention_in a = sub->attention;
    int64_t d = sub->d;
    a.q = sub->wide;
    a.k = sub->memory ? sub->memory : trf__act_at(run, sub->wide, d);
    a.v = trf__act_at(run, sub->memory ? sub->memory : sub->wide, sub->memory ? d : 2 * d);
    a.ldq = sub->memory ? d : 3 * d;
    a.ldk = sub->memory ? 2 * d : 3 * d;
    a.d_head = (int)(d / a.heads);
    a.drop = sub->drop;
    return a;
}

TRF__FN void trf__attention_forward(const trf__run *run, const trf__work *sub, trf__act *y, const trf__act *x,
                                    const trf__act *m)
{
    trf__attention a;
    int64_t d = sub->d;
    a.in = trf__attention_of(run, sub);
    a.out = sub->inner;
    a.stats = sub->stats;
    trf__project(run, sub->wide, x, sub->in_w, sub->in_b, sub->rows, sub->memory ? d : 3 * d, d);
    if (sub->memory) trf__project_memory(run, sub, m);
    if (sub->slots) {
        trf__remember r;
        r.cache = sub->memory; r.fresh = sub->fresh; r.slots = sub->slots;
        r.rows = sub->memory_rows; r.width = 2 * d; r.area = sub->attention.area;
        run->backend->remember(run, &r);
    }
    run->backend->attention(run, &a);
    trf__project(run, y, sub->inner, sub->out_w, sub->out_b, sub->rows, d, d);
}

/* y NULL: only what backward needs. */
TRF__FN void trf__feed_forward(const trf__run *run, const trf__work *sub, trf__act *y, const trf__act *x)
{
    trf__activate a;
    a.a = sub->inner; a.h = sub->wide; a.rows = sub->rows; a.width = sub->f; a.kind = sub->activation;
    a.at = sub->at; a.drop = sub->drop;
    trf__project(run, sub->wide, x, sub->in_w, sub->in_b, sub->rows, sub->f, sub->d);
    run->backend->activate(run, &a);
    if (y) trf__project(run, y, sub->inner, sub->out_w, sub->out_b, sub->rows, sub->d, sub->f);
}

#if !defined(TRF_NO_TRAIN)

/* dx (rows, in) = dy (rows, out) w, or += with `add` */
TRF__FN void trf__project_dx(const trf__run *run, trf__act *dx, const trf__act *dy, trf__mat w, int64_t rows,
                             int64_t out, int64_t in, int add)
{
    trf__linear_dx l;
    l.dx = dx; l.dy = dy; l.w = w; l.rows = rows; l.out = out; l.in = in; l.add = add;
    run->backend->linear_dx(run, &l);
}

/* The gradients of a weight (out, in) and its bias that met x (rows, in). */
TRF__FN trf__linear_dw trf__dw_of(trf_real *dw, trf_real *db, const trf__act *dy, const trf__act *x, int64_t rows,
                                  int64_t out, int64_t in, int first)
{
    trf__linear_dw l;
    l.dw = dw; l.db = db; l.dy = dy; l.x = x; l.rows = rows; l.out = out; l.in = in; l.first = first;
    return l;
}

/* dx is set; dm is set, or added to if add_memory. */
TRF__FN void trf__attention_backward(const trf__run *run, const trf__work *sub, trf__act *dx, trf__act *dm,
                                     int add_memory, const trf__act *dy, const trf__act *x, const trf__act *m)
{
    trf__attention_gradient a;
    trf__linear_dw dw[3];
    int64_t d = sub->d, n = sub->rows, wide = sub->memory ? d : 3 * d;
    a.in = trf__attention_of(run, sub);
    a.dq = sub->dwide;
    a.dk = sub->memory ? sub->dmemory : trf__act_at(run, sub->dwide, d);
    a.dv = trf__act_at(run, a.dk, d);
    a.dout = sub->dinner; a.out = sub->inner; a.stats = sub->stats;
    dw[0] = trf__dw_of(sub->d_out_w, sub->d_out_b, dy, sub->inner, n, d, d, sub->first);
    dw[1] = trf__dw_of(sub->d_in_w, sub->d_in_b, sub->dwide, x, n, wide, d, sub->first);
    if (sub->memory)
        dw[2] = trf__dw_of(sub->d_in_w + d * d, sub->d_in_b + d, sub->dmemory, m, sub->memory_rows, 2 * d, d,
                           sub->first);
    trf__project_dx(run, sub->dinner, dy, sub->out_w, n, d, d, 0);
    run->backend->attention_gradient(run, &a);
    run->backend->linear_dw(run, dw, sub->memory ? 3 : 2);
    trf__project_dx(run, dx, sub->dwide, sub->in_w, n, wide, d, 0);
    if (sub->memory)
        trf__project_dx(run, dm, sub->dmemory, trf__keys_weight(sub), sub->memory_rows, 2 * d, d, add_memory);
}

TRF__FN void trf__feed_forward_backward(const trf__run *run, const trf__work *sub, trf__act *dx, const trf__act *dy,
                                        const trf__act *x)
{
    trf__activate_gradient a;
    trf__linear_dw dw[2];
    int64_t d = sub->d, f = sub->f, n = sub->rows;
    a.dh = sub->dwide; a.da = sub->dinner; a.h = sub->wide; a.rows = n; a.width = f; a.kind = sub->activation;
    a.at = sub->at; a.drop = sub->drop;
    dw[0] = trf__dw_of(sub->d_out_w, sub->d_out_b, dy, sub->inner, n, d, f, sub->first);
    dw[1] = trf__dw_of(sub->d_in_w, sub->d_in_b, sub->dwide, x, n, f, d, sub->first);
    trf__project_dx(run, sub->dinner, dy, sub->out_w, n, d, f, 0);
    run->backend->activate_gradient(run, &a);
    run->backend->linear_dw(run, dw, 2);
    trf__project_dx(run, dx, sub->dwide, sub->in_w, n, f, d, 0);
}

#endif

// >>stacks         what the encoder and the decoder consist of

enum { TRF__SELF, TRF__CROSS, TRF__FEED_FORWARD };
enum { TRF__SOURCE = 1, TRF__TARGET = 2, TRF__HEAD = 4 };    /* sides that a batch may have; HEAD: rows of the head */

typedef struct trf__sublayer {
    int kind, layer;
    int64_t in_w, in_b, out_w, out_b;   /* offsets of its parameters */
    int64_t gain, bias;                 /* of the norm that follows; -1: none */
    trf__drop inner_drop, residual_drop;
    trf__act *wide, *memory, *inner;    /* see >>sublayers */
    trf_real *stats;
    trf__act *s, *y;
    trf_real *norm_stats;
} trf__sublayer;

/* A stack's part of the block, on the host or on the device. Per row: what is read (-1: zero vector), what is wanted
   next, place in its sequence, number of that in the whole step. Rows grouped by id are for training; tokens forced,
   rows continued and slots in the cache, for decoding, where the lists are the search's (>>translate). */
typedef struct trf__lists {
    int32_t *ids, *targets, *position, *sentence;
    int32_t *group_rows, *group_first;
    int32_t *only, *parents, *slots;
    trf__span *self, *cross;            /* per sequence */
} trf__lists;

typedef struct trf__stack {
    int decoder, per_layer, n_sublayers;
    trf__sublayer *sublayers;
    int64_t embed, positions;           /* offsets of the embedding and of learned positions; -1: none */
    int64_t first_gain, first_bias;     /* pre-norm: before the first sublayer; -1: none */
    int64_t final_gain, final_bias;     /* -1: none (pre-norm has it on the last sublayer) */
    trf__drop drop;                     /* on the embedding */
    /* the batch */
    int64_t rows, n_self, n_cross, n_groups;
    int64_t most_queries, most_keys, most_memory;       /* of any span; keys, self and cross */
    trf__lists host, device;
    /* activations */
    trf__act *embedded, *first_y, *final_y;
    trf_real *first_stats, *final_stats;
    trf__act *out;                      /* set by forward: the stack's result */
} trf__stack;

/* Keys and values of the decoder's layers that stay from token to token: see >>translate. */
typedef struct trf__cache {
    trf__act *self, *cross;             /* those of layer i begin i * self_layer, i * cross_layer numbers on */
    int64_t self_layer, cross_layer, area, self_area;   /* areas of a sentence: in cross; in self, or 0 */
    const int32_t *ancestors;           /* (rows, stride) which slots a row's own tokens are in; NULL: its area */
    int64_t stride;
} trf__cache;

/* What an arena is laid out for: the largest batch, and whether layers share a place (>>acts). */
typedef struct trf__limits { int64_t source_rows, target_rows, sentences, longest, recompute; } trf__limits;

typedef struct trf__pass {
    trf__run run;
    const trf_config *config;
    const trf__layout *layout;
    const trf_real *weights;
    void *copies; size_t copy_bytes;    /* the backend's own of the weights, or NULL; 0: they are the trainer's */
    trf_real *gradients;                /* backward: the arena; */
    int first;                          /* and whether it holds nothing yet */
    const trf__cache *cache;            /* while decoding token by token, else NULL */
    int training, sides;                /* sides: that the model has */
    int options_set;                    /* how often a trainer's options have changed */
    trf__limits limits;
    trf__sublayer *sublayers;           /* encoder's, then decoder's */
    trf__stack encoder, decoder;
    int64_t n_sentences, target_rows;   /* the batch's own, without what it was filled up with, and labels of -1 */
    trf__now now;                       /* goes in front of the block */
    char *host_block, *device_block; size_t block_bytes;
    int probe_kind, probe_layer, probe_head;    /* attention weights wanted, into probed; NULL: none */
    trf_real *probed;
    /* what everything below points to lies in the arena */
    char *arena; size_t arena_bytes;
    trf_real *table;                    /* (longest, d_model): sinusoidal positions, or NULL */
    trf__act *proj;                     /* (rows, d): a sublayer's result before add_norm */
    trf__act *ds, *dsub, *din, *dencoded, *dwide, *dmemory, *dinner;
    void *loss_room;
    double *row_loss, *row_nll;
    trf__sums *sums;
} trf__pass;

/* Stack 0 is the encoder, stack 1 the decoder. */
TRF__FN trf__stack *trf__stack_of(trf__pass *pass, int decoder) { return decoder ? &pass->decoder : &pass->encoder; }

// >>acts           the arena of a pass
//
// One function says what is stored, trf__pass_layout, and runs twice: with base NULL to count, then to cut.
//
//   per stack     embedded (rows, d); per sublayer wide, memory, inner, stats (see >>sublayers); s, y (rows, d); mean
//                 and factor of its norm (rows, 2); without training one set for all, and none of the statistics;
//                 recomputing one set a layer for all layers, and per layer the last sublayer's s and statistics
//   once          position table (longest, d), proj (rows, d), room for logits, losses (target rows)
//   to train      ds, dsub, din, dencoded (rows, d) and gradients of wide, memory, inner: one set for all sublayers

TRF__FN trf__act *trf__take_acts(trf__cursor *cursor, const trf__pass *pass, int64_t rows, int64_t columns)
{
    return (trf__act *)trf__take(cursor, rows, trf__bytes(columns, pass->run.element));
}

/* Widths of what a sublayer stores as wide and inner, and the widest of them. */
TRF__FN int64_t trf__wide(const trf_config *c, int kind)
{
    return kind == TRF__SELF ? 3 * (int64_t)c->d_model : kind == TRF__CROSS ? c->d_model : c->d_ff;
}
TRF__FN int64_t trf__inner(const trf_config *c, int kind) { return kind == TRF__FEED_FORWARD ? c->d_ff : c->d_model; }
TRF__FN int64_t trf__widest(const trf_config *c) { return trf__max64(3 * (int64_t)c->d_model, c->d_ff); }
TRF__FN int64_t trf__innermost(const trf_config *c) { return trf__max64(c->d_model, c->d_ff); }

/* A sublayer's activations, for so many rows and, of cross-attention, rows of the encoder's result. */
TRF__FN void trf__take_sublayer(trf__cursor *cursor, const trf__pass *pass, trf__sublayer *sub, int kind,
                                int64_t rows, int64_t memory_rows)
{
    const trf_config *c = pass->config;
    int64_t d = c->d_model, heads = kind == TRF__FEED_FORWARD ? 0 : c->n_heads;
    sub->s = trf__take_acts(cursor, pass, rows, d);
    sub->y = trf__take_acts(cursor, pass, rows, d);
    sub->wide = trf__take_acts(cursor, pass, rows, trf__wide(c, kind));
    sub->inner = trf__take_acts(cursor, pass, rows, trf__inner(c, kind));
    sub->memory = kind == TRF__CROSS ? trf__take_acts(cursor, pass, memory_rows, 2 * d) : NULL;
    sub->stats = pass->training && heads > 0 ? trf__take_reals(cursor, rows, 2 * heads) : NULL;
    sub->norm_stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
}

/* Which sublayer number i of a stack is. */
TRF__FN int trf__sublayer_kind(const trf__stack *stack, int i)
{
    if (i % stack->per_layer == 0) return TRF__SELF;
    return i % stack->per_layer == 1 && stack->per_layer == 3 ? TRF__CROSS : TRF__FEED_FORWARD;
}

/* The activations of one stack. Where the sublayers do not exist yet, only the size is wanted. A pass that does not
   train gives all sublayers the same place; s and y come first in it, since the next sublayer reads them. One that
   recomputes gives it to all layers, but keeps of each what the layer above is made from, s of its last sublayer (y
   is the norm of s), and the stack's last y. */
TRF__FN void trf__take_stack(trf__cursor *cursor, const trf__pass *pass, trf__stack *stack)
{
    const trf_config *c = pass->config;
    int64_t d = c->d_model, rows = stack->decoder ? pass->limits.target_rows : pass->limits.source_rows;
    size_t first, most;
    int i;
    stack->embedded = trf__take_acts(cursor, pass, stack->n_sublayers || trf__pools(c) ? rows : 0, d);
    if (!stack->n_sublayers) return;
    first = most = cursor->used;
    for (i = 0; i < stack->n_sublayers; i++) {
        trf__sublayer local, *sub = stack->sublayers ? &stack->sublayers[i] : &local;
        if (!pass->training || (pass->limits.recompute && i % stack->per_layer == 0)) cursor->used = first;
        trf__take_sublayer(cursor, pass, sub, trf__sublayer_kind(stack, i), rows, pass->limits.source_rows);
        if (cursor->used > most) most = cursor->used;
    }
    cursor->used = most;
    /* from the second layer on: the last s in the room of all layers is then the first layer's */
    for (i = 2 * stack->per_layer - 1; pass->limits.recompute && i < stack->n_sublayers; i += stack->per_layer) {
        trf__sublayer local, *sub = stack->sublayers ? &stack->sublayers[i] : &local;
        sub->s = trf__take_acts(cursor, pass, rows, d);
        sub->norm_stats = trf__take_reals(cursor, rows, 2);
        if (i == stack->n_sublayers - 1) sub->y = trf__take_acts(cursor, pass, rows, d);
    }
    stack->first_y = trf__take_acts(cursor, pass, rows, d);
    stack->final_y = trf__take_acts(cursor, pass, rows, d);
    stack->first_stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
    stack->final_stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
}

/* Lays the whole arena out; returns its size. base NULL: only the size. */
TRF__FN size_t trf__pass_layout(trf__pass *pass, char *base)
{
    const trf_config *c = pass->config;
    const trf__limits *l = &pass->limits;
    trf__cursor cursor = trf__cursor_at(base);
    int64_t rows = trf__max64(l->source_rows, l->target_rows), d = c->d_model;
    int sinusoidal = c->positions != TRF_POSITIONS_LEARNED && c->positions != TRF_POSITIONS_NONE;
    pass->table = sinusoidal ? trf__take_reals(&cursor, l->longest, d) : NULL;
    trf__take_stack(&cursor, pass, &pass->encoder);
    trf__take_stack(&cursor, pass, &pass->decoder);
    pass->proj = trf__take_acts(&cursor, pass, rows, d);
    pass->row_loss = (double *)trf__take(&cursor, l->target_rows, sizeof(double));
    pass->row_nll = (double *)trf__take(&cursor, l->target_rows, sizeof(double));
    pass->sums = (trf__sums *)trf__take(&cursor, 1, sizeof(trf__sums));
    pass->loss_room = NULL;
    if (trf__has_target(c) || (c->head && pass->training))
        pass->loss_room = trf__take(&cursor, 1, pass->run.backend->loss_room(&pass->run.device, l->target_rows,
                                                                             trf__n_logits(c), d, !pass->training));
    if (pass->training) {
        pass->ds = trf__take_acts(&cursor, pass, rows, d);
        pass->dsub = trf__take_acts(&cursor, pass, rows, d);
        pass->din = trf__take_acts(&cursor, pass, rows, d);
        pass->dencoded = trf__take_acts(&cursor, pass, l->source_rows, d);
        pass->dwide = trf__take_acts(&cursor, pass, rows, trf__widest(c));
        pass->dinner = trf__take_acts(&cursor, pass, rows, trf__innermost(c));
        pass->dmemory = trf__take_acts(&cursor, pass, l->source_rows, 2 * d);
    }
    return cursor.used;
}

/* A stack's lists for so many rows and spans. */
TRF__FN void trf__take_lists(trf__cursor *cursor, trf__lists *lists, const trf__pass *pass, int64_t rows,
                             int64_t n_self, int64_t n_cross)
{
    lists->ids = (int32_t *)trf__take(cursor, rows, sizeof(int32_t));
    lists->position = (int32_t *)trf__take(cursor, rows, sizeof(int32_t));
    lists->sentence = (int32_t *)trf__take(cursor, rows, sizeof(int32_t));
    lists->targets = (int32_t *)trf__take(cursor, rows, sizeof(int32_t));
    lists->group_rows = (int32_t *)trf__take(cursor, pass->training ? rows : 0, sizeof(int32_t));
    lists->group_first = (int32_t *)trf__take(cursor, pass->training ? rows + 1 : 0, sizeof(int32_t));
    lists->self = (trf__span *)trf__take(cursor, n_self, sizeof(trf__span));
    lists->cross = (trf__span *)trf__take(cursor, n_cross, sizeof(trf__span));
}

/* Cuts the block, on the host or on the device, for the rows and spans that the stacks have now. Returns its size. */
TRF__FN size_t trf__block_cut(trf__pass *pass, char *base, int device)
{
    trf__cursor cursor = trf__cursor_at(base);
    int i;
    trf__take(&cursor, 1, sizeof(trf__now));
    for (i = 0; i < 2; i++) {
        trf__stack *stack = trf__stack_of(pass, i);
        trf__take_lists(&cursor, device ? &stack->device : &stack->host, pass, stack->rows, stack->n_self,
                        stack->n_cross);
    }
    return cursor.used;
}

/* The largest block that these limits allow. */
TRF__FN size_t trf__block_most(const trf__pass *pass)
{
    const trf__limits *l = &pass->limits;
    trf__pass count = *pass;
    count.encoder.rows = l->source_rows; count.encoder.n_self = l->sentences; count.encoder.n_cross = 0;
    count.decoder.rows = l->target_rows; count.decoder.n_self = count.decoder.n_cross = l->sentences;
    return trf__block_cut(&count, NULL, 0);
}

TRF__FN void trf__pass_close(trf__pass *pass)
{
    const trf__run *run = &pass->run;
    int n = pass->encoder.n_sublayers + pass->decoder.n_sublayers;
    if (!run->backend) return;
    run->backend->release(run, pass->arena, pass->arena_bytes);
    if (pass->copy_bytes) run->backend->release(run, pass->copies, pass->copy_bytes);
    run->backend->release(run, pass->device_block, pass->block_bytes);
    trf__free(&run->hooks, pass->host_block, pass->block_bytes);
    trf__free(&run->hooks, pass->sublayers, trf__bytes(n, sizeof(trf__sublayer)));
    run->backend->close(&pass->run);
    TRF__ZERO(*pass);
}

/* A dropout of probability p at a site: p becomes a multiple of 1/65536, at most 65535 of them. */
TRF__FN trf__drop trf__drop_of(double p, uint32_t site)
{
    trf__drop drop;
    drop.threshold = (uint32_t)(p < 65535.0 / 65536 ? p * 65536 + 0.5 : 65535);
    drop.site = site;
    drop.scale = (trf_real)(65536.0 / (65536.0 - drop.threshold));
    return drop;
}

/* The dropouts of a stack, each at a site of its own: 0 and 1 are the embeddings'; from 16 on a sublayer has four: +0
   attention weights, +1 inner layer, +2 residual; no stack has 4096 sublayers. */
TRF__FN void trf__stack_drops(trf__stack *stack, const trf_train_options *o)
{
    int i;
    stack->drop = trf__drop_of(o->dropout, (uint32_t)stack->decoder);
    for (i = 0; i < stack->n_sublayers; i++) {
        trf__sublayer *sub = &stack->sublayers[i];
        uint32_t site = (uint32_t)(16 + 4 * (i + 4096 * stack->decoder));
        sub->inner_drop = sub->kind == TRF__FEED_FORWARD ? trf__drop_of(o->activation_dropout, site + 1)
                                                         : trf__drop_of(o->attention_dropout, site);
        sub->residual_drop = trf__drop_of(o->residual_dropout, site + 2);
    }
}

/* Fills in what a sublayer is: parameters, and the norm that follows. */
TRF__FN void trf__stack_sublayers(const trf__pass *pass, trf__stack *stack)
{
    const trf_config *c = pass->config;
    const trf__layer *layers = pass->layout->layers + (stack->decoder ? c->encoder_layers : 0);
    int i, per = stack->per_layer, pre = c->norm_place == TRF_PRE_NORM;
    for (i = 0; i < stack->n_sublayers; i++) {
        const trf__layer *p = &layers[i / per];
        trf__sublayer *sub = &stack->sublayers[i], *follows = pre ? (i > 0 ? sub - 1 : NULL) : sub;
        int64_t gain = i % per == 0 ? p->norm1_g : i % per == 1 ? p->norm2_g : p->norm3_g;
        int64_t bias = i % per == 0 ? p->norm1_b : i % per == 1 ? p->norm2_b : p->norm3_b;
        int kind = trf__sublayer_kind(stack, i), self = kind == TRF__SELF, cross = kind == TRF__CROSS;
        sub->kind = kind;
        sub->layer = i / per;
        sub->in_w = self ? p->self_in_w : cross ? p->cross_in_w : p->w1;
        sub->in_b = self ? p->self_in_b : cross ? p->cross_in_b : p->b1;
        sub->out_w = self ? p->self_out_w : cross ? p->cross_out_w : p->w2;
        sub->out_b = self ? p->self_out_b : cross ? p->cross_out_b : p->b2;
        if (follows) { follows->gain = gain; follows->bias = bias; }
        else { stack->first_gain = gain; stack->first_bias = bias; }
        if (pre && i == stack->n_sublayers - 1) { sub->gain = stack->final_gain; sub->bias = stack->final_bias; }
    }
    if (pre) stack->final_gain = stack->final_bias = -1;
}

/* A stack before its sublayers exist. */
TRF__FN trf__stack trf__stack_new(const trf_config *c, const trf__layout *layout, int decoder)
{
    trf__stack stack;
    TRF__ZERO(stack);
    stack.decoder = decoder;
    stack.per_layer = decoder && trf__has_source(c) ? 3 : 2;
    stack.n_sublayers = stack.per_layer * (decoder ? c->decoder_layers : c->encoder_layers);
    stack.first_gain = stack.first_bias = -1;
    if (layout) {
        stack.embed = decoder ? layout->whole.tgt_embed : layout->whole.src_embed;
        stack.positions = decoder ? layout->whole.tgt_positions : layout->whole.src_positions;
        stack.final_gain = decoder ? layout->whole.decoder_norm_g : layout->whole.encoder_norm_g;
        stack.final_bias = decoder ? layout->whole.decoder_norm_b : layout->whole.encoder_norm_b;
    }
    return stack;
}

/* A pass on paper; layout NULL: only to count. o NULL: it does not train. */
TRF__FN trf__pass trf__pass_of(const trf_config *c, const trf__layout *layout, const trf__limits *limits,
                               const trf_train_options *o, const trf__run *run)
{
    trf__pass pass;
    TRF__ZERO(pass);
    pass.run = *run;
    pass.config = c;
    pass.layout = layout;
    pass.limits = *limits;
    pass.training = o != NULL;
    pass.sides = (trf__has_source(c) ? TRF__SOURCE : 0) | (trf__has_target(c) ? TRF__TARGET : 0) |
                 (c->head ? TRF__HEAD : 0);
    pass.encoder = trf__stack_new(c, layout, 0);
    pass.decoder = trf__stack_new(c, layout, 1);
    return pass;
}

/* Numbers of the largest second factor of a product in training: a weight, or what it is multiplied by. */
TRF__FN int64_t trf__pass_widest(const trf__pass *pass, const trf__limits *limits)
{
    const trf_config *c = pass->config;
    int64_t rows = trf__max64(limits->source_rows, limits->target_rows), d = c->d_model;
    int64_t deep = trf__max64(rows, trf__max64(3 * d, c->d_ff));
    return pass->training ? trf__times(deep, trf__max64(d, c->d_ff)) : 0;
}

/* Bytes that trf__pass_open takes, on the host and on the device, without copies of the weights. */
TRF__FN size_t trf__pass_memory(const trf_config *c, const trf__limits *limits, const trf_train_options *o,
                                const trf_device *device)
{
    trf__run run = trf__run_on(device, &c->hooks);
    trf__pass pass = trf__pass_of(c, NULL, limits, o, &run);
    size_t bytes = trf__add_size(trf__pass_layout(&pass, NULL), trf__bytes(2, trf__block_most(&pass)));
    bytes = trf__add_size(bytes, trf__bytes(pass.encoder.n_sublayers + pass.decoder.n_sublayers,
                                            sizeof(trf__sublayer)));
    return trf__add_size(bytes, run.backend->state_bytes(&run, limits->longest, c->d_model / c->n_heads,
                                                         trf__pass_widest(&pass, limits)));
}

/* Row p of the sinusoidal table (trf_positions). */
TRF__FN void trf__position_row(trf_real *row, int64_t p, int64_t d, int rule)
{
    int64_t i, n_half = d / 2;
    for (i = 0; i < d; i++) row[i] = 0;
    for (i = 0; i < n_half + d % 2; i++) {
        double exponent = rule == TRF_POSITIONS_HALVES_N1 ? (double)i / (double)trf__max64(n_half - 1, 1)
                                                          : 2 * (double)i / (double)d;
        double angle = (double)p * pow(10000.0, -exponent);
        if (rule == TRF_POSITIONS_INTERLEAVED) {
            row[2 * i] = (trf_real)sin(angle);
            if (2 * i + 1 < d) row[2 * i + 1] = (trf_real)cos(angle);
        } else if (i < n_half) {
            row[i] = (trf_real)sin(angle);
            row[n_half + i] = (trf_real)cos(angle);
        }
    }
}

/* The table, made on the host row by row. */
TRF__FN trf_status trf__pass_table(const trf__pass *pass, trf_error *err)
{
    const trf_config *c = pass->config;
    size_t bytes = trf__bytes(c->d_model, sizeof(trf_real));
    trf_real *row;
    int64_t p;
    if (!pass->table) return TRF_OK;
    row = (trf_real *)trf__alloc(&pass->run.hooks, bytes);
    if (!row) return trf__fail(err, TRF_E_NOMEM, -1, "positions", "no memory for one row of positions");
    for (p = 0; p < pass->limits.longest; p++) {
        trf__position_row(row, p + c->position_offset, c->d_model, (int)c->positions);
        pass->run.backend->upload(&pass->run, pass->table + p * c->d_model, row, bytes);
    }
    trf__free(&pass->run.hooks, row, bytes);
    return TRF_OK;
}

/* Gives the pass an arena and a block for the given limits. On failure the old ones stay. */
TRF__FN trf_status trf__pass_resize(trf__pass *pass, const trf__limits *limits, trf_error *err)
{
    const trf__backend *on = pass->run.backend;
    const trf__run *run = &pass->run;
    trf__pass bigger, size;
    trf_status status;
    bigger = *pass;
    bigger.limits = *limits;
    size = bigger;
    size.encoder.sublayers = size.decoder.sublayers = NULL;     /* only counting: they keep their old places */
    bigger.arena_bytes = trf__pass_layout(&size, NULL);
    bigger.block_bytes = trf__block_most(&bigger);
    bigger.arena = (char *)on->alloc(run, bigger.arena_bytes);
    bigger.device_block = (char *)on->alloc(run, bigger.block_bytes);
    bigger.host_block = (char *)trf__alloc(&run->hooks, bigger.block_bytes);
    status = bigger.arena && bigger.device_block && bigger.host_block ? TRF_OK :
        trf__fail(err, TRF_E_NOMEM, -1, "activations",
                  "no memory for the %llu bytes that %lld source and %lld target tokens need",
                  (unsigned long long)bigger.arena_bytes, (long long)limits->source_rows,
                  (long long)limits->target_rows);
    size = bigger;
    size.encoder.sublayers = size.decoder.sublayers = NULL;
    if (status == TRF_OK) trf__pass_layout(&size, bigger.arena);
    if (status == TRF_OK) status = trf__pass_table(&size, err);
    if (status == TRF_OK)
        status = on->reserve(&bigger.run, limits->longest, pass->config->d_model / pass->config->n_heads,
                             trf__pass_widest(pass, limits), err);
    size = status == TRF_OK ? *pass : bigger;       /* the one to be given up */
    on->release(run, size.arena, size.arena_bytes);
    on->release(run, size.device_block, size.block_bytes);
    trf__free(&run->hooks, size.host_block, size.block_bytes);
    if (status != TRF_OK) return status;
    trf__pass_layout(&bigger, bigger.arena);
    *pass = bigger;
    return TRF_OK;
}

/* Fills the backend's own copies of the weights. */
TRF__FN void trf__pack_weights(const trf__pass *pass)
{
    const trf__layout *layout = pass->layout;
    trf__pack pack;
    int32_t i;
    pack.copies = pass->copies;
    pack.weights = pass->weights;
    for (i = 0; pass->copies && i < layout->n_params; i++) {
        const trf__param *p = &layout->params[i];
        pack.matrix = p->start == TRF__START_MATRIX || p->start == TRF__START_QKV ||
                      p->offset == layout->whole.generator_w;
        pack.offset = p->offset; pack.out = p->shape[0]; pack.in = p->rank == 1 ? 1 : p->shape[1];
        pass->run.backend->pack(&pass->run, &pack);
    }
}

/* Makes them for a pass that only looks forward, if the backend wants any. */
TRF__FN trf_status trf__pass_copies(trf__pass *pass, trf_error *err)
{
    const trf__run *run = &pass->run;
    size_t bytes = run->backend->copy_bytes(&run->device, pass->layout->n_weights, 0);
    if (bytes == 0) return TRF_OK;
    pass->copies = run->backend->alloc(run, bytes);
    if (!pass->copies) return trf__fail(err, TRF_E_NOMEM, -1, "weights", "no memory for a copy of the weights");
    pass->copy_bytes = bytes;
    trf__pack_weights(pass);
    return TRF_OK;
}

/* A model's device for an object whose options ask for so many threads, or with 0 for the device's. */
TRF__FN trf_device trf__device_with(const trf_device *device, int32_t threads)
{
    trf_device with = *device;
    if (threads > 0) with.threads = threads;
    return with;
}

TRF__FN trf_status trf__pass_open(trf__pass *pass, const trf_model *model, const trf__limits *limits,
                                  const trf_train_options *o, int threads, const trf_hooks *hooks, trf_error *err)
{
    trf__run run;
    trf_device device = trf__device_with(&model->config.device, threads);
    trf_status status;
    int n;
    run = trf__run_on(&device, hooks);
    *pass = trf__pass_of(&model->config, &model->layout, limits, o, &run);
    pass->weights = model->weights;
    status = run.backend->open(&pass->run, err);
    if (status != TRF_OK) { TRF__ZERO(*pass); return status; }
    n = pass->encoder.n_sublayers + pass->decoder.n_sublayers;
    pass->sublayers = (trf__sublayer *)trf__alloc_zeroed(hooks, trf__bytes(n, sizeof(trf__sublayer)));
    if (!pass->sublayers)
        status = trf__fail(err, TRF_E_NOMEM, -1, "sublayers", "no memory for the list of %d sublayers", n);
    if (status == TRF_OK) {
        pass->encoder.sublayers = pass->sublayers;
        pass->decoder.sublayers = pass->sublayers + pass->encoder.n_sublayers;
        trf__stack_sublayers(pass, &pass->encoder);
        trf__stack_sublayers(pass, &pass->decoder);
        if (o) { trf__stack_drops(&pass->encoder, o); trf__stack_drops(&pass->decoder, o); }
        status = trf__pass_resize(pass, limits, err);
    }
    if (status == TRF_OK && !o) status = trf__pass_copies(pass, err);
    if (status != TRF_OK) trf__pass_close(pass);
    return status;
}

// >>rows           from a batch to rows: BOS, EOS and the shift
//
//   batch       source  5 9 7       target  8 4
//   source      ids     5 9 7 EOS                       (EOS if source_eos)
//   target      ids     BOS 8 4     targets 8 4 EOS     row t reads what comes before its token, and is asked for it
//                       BOS 8               8 4         (without target_eos)
//
// The rows of all sequences follow one another; a span says where each begins. Callers' data are checked here.

/* Checks how long the sequences of a side are. `extra` tokens are added to each. */
TRF__FN trf_status trf__check_lengths(const trf_sequences *x, int extra, int32_t max_length, const char *side,
                                      int64_t *rows, int64_t *longest, trf_error *err)
{
    int32_t i;
    if (x->count < 0 || (x->count > 0 && !x->lengths))
        return trf__fail(err, TRF_E_INVALID_ARG, -1, side, "%s needs a count and lengths, got count %d", side,
                         x->count);
    *rows = (int64_t)extra * x->count;
    for (i = 0; i < x->count; i++) {
        if (x->lengths[i] < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, side, "length of %s sequence %d must not be negative, got %d",
                             side, i, x->lengths[i]);
        if ((int64_t)x->lengths[i] + extra > max_length)
            return trf__fail(err, TRF_E_LIMIT, i, side,
                             "%s sequence %d: %d token%s and %d added make more than max_length = %d",
                             side, i, x->lengths[i], trf__plural(x->lengths[i]), extra, max_length);
        if (x->lengths[i] > 0 && !x->ids) return trf__fail_null(err, side);
        *longest = trf__max64(*longest, (int64_t)x->lengths[i] + extra);
        *rows += x->lengths[i];
    }
    if (*rows > INT32_MAX)
        return trf__fail(err, TRF_E_LIMIT, *rows, side, "a batch may have %d %s tokens, got %lld", INT32_MAX, side,
                         (long long)*rows);
    return TRF_OK;
}

/* Checks one side: lengths, with `extra` tokens added to each, and ids: special are only unk and, if `eos`, EOS. */
TRF__FN trf_status trf__check_side(const trf_config *c, const trf_sequences *x, int32_t vocab, int eos, int extra,
                                   const char *side, int64_t *rows, int64_t *longest, trf_error *err)
{
    int64_t at = 0;
    int32_t i, k;
    TRF__TRY(trf__check_lengths(x, extra, c->max_length, side, rows, longest, err));
    for (i = 0; i < x->count; i++)
        for (k = 0; k < x->lengths[i]; k++, at++) {
            int32_t id = x->ids[at];
            if (eos && id == c->eos) continue;
            if (id < 0 || id >= vocab)
                return trf__fail(err, TRF_E_INVALID_ARG, at, side,
                                 "%s sequence %d, position %d: id must be below %d, got %d", side, i, k, vocab, id);
            if ((id == c->pad && c->head != TRF_HEAD_MASKED) || id == c->bos || id == c->eos)
                return trf__fail(err, TRF_E_INVALID_ARG, at, side,
                                 "%s sequence %d, position %d: special id %d; the library itself adds BOS and EOS",
                                 side, i, k, id);
        }
    return TRF_OK;
}

/* Counts the rows of a head; with `labels` checks these too: *wanted is how many are not -1. */
TRF__FN trf_status trf__check_head(const trf_config *c, const trf_batch *batch, int labels, int64_t *rows,
                                   int64_t *wanted, trf_error *err)
{
    const trf_sequences *x = &batch->target;
    int32_t i, k, n, count = batch->source.count;
    int64_t at = 0;
    *wanted = 0;
    if (trf__pools(c)) *rows = count;
    for (i = 0; trf__pools(c) && i < count; i++)
        if (batch->source.lengths[i] + c->source_eos == 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "source", "source sequence %d is empty: nothing to label", i);
    if (!labels) return TRF_OK;
    if (x->count != count)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "target", "source has %d sequence%s but target labels of %d",
                         count, trf__plural(count), x->count);
    if (count > 0 && !x->lengths) return trf__fail_null(err, "target");
    for (i = 0; i < count; i++) {
        n = trf__pools(c) ? 1 : batch->source.lengths[i];
        if (x->lengths[i] != n)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "target", "target sequence %d must have %d label%s, got %d",
                             i, n, trf__plural(n), x->lengths[i]);
        if (n > 0 && !x->ids) return trf__fail_null(err, "target");
        for (k = 0; k < n; k++, at++) {
            if (x->ids[at] < -1 || x->ids[at] >= trf__n_logits(c))
                return trf__fail(err, TRF_E_INVALID_ARG, at, "target",
                                 "target sequence %d, position %d: a label must be -1 or 0 to %d, got %d", i, k,
                                 trf__n_logits(c) - 1, x->ids[at]);
            *wanted += x->ids[at] >= 0;
        }
    }
    return TRF_OK;
}

TRF__FN int32_t trf__start_id(const trf_config *c)
{
    switch (c->decoder_start) {
    case TRF_START_EOS: return c->eos;
    case TRF_START_PAD: return c->pad;
    case TRF_START_ZERO: return -1;
    default: return c->bos;
    }
}

/* Rows in groups of equal ids below 2^24, those without an id left out: a stable sort by the lower 12 bits, then by
   the upper. first: room for n + 1. Returns the number of groups. */
TRF__FN int64_t trf__group_rows(int32_t *rows, int32_t *first, const int32_t *ids, int64_t n)
{
    int32_t places[4097];
    int64_t i, k, m = 0;
    int pass;
    for (i = 0; i < n; i++) if (ids[i] >= 0) rows[m++] = (int32_t)i;
    for (pass = 0; pass < 2; pass++) {
        const int32_t *from = pass ? first : rows;
        int32_t *to = pass ? rows : first;
        memset(places, 0, sizeof places);
        for (i = 0; i < m; i++) places[(ids[from[i]] >> 12 * pass & 4095) + 1]++;
        for (i = 1; i < 4096; i++) places[i] += places[i - 1];
        for (i = 0; i < m; i++) to[places[ids[from[i]] >> 12 * pass & 4095]++] = from[i];
    }
    for (i = k = 0; i < m; i++) if (i == 0 || ids[rows[i]] != ids[rows[i - 1]]) first[k++] = (int32_t)i;
    first[k] = (int32_t)m;
    return k;
}

/* What a batch is filled up with: sequences that read nothing and are asked for nothing, none longer than `longest`.
   Their gradients are zeros, so that no weight and no sum knows of them. */
TRF__FN void trf__fill_up(const trf__pass *pass, trf__stack *stack, int64_t row, int32_t sequence, int64_t longest)
{
    const trf__lists *l = &stack->host;
    int64_t rows = row, most, k;
    for (; sequence < stack->n_self; sequence++) {
        trf__span *span = &l->self[sequence];
        TRF__ZERO(*span);
        span->query = span->key = (int32_t)row;
        span->n_query = span->n_key = (int32_t)trf__min64(longest, stack->rows - row);
        stack->most_keys = trf__max64(stack->most_keys, span->n_key);
        for (k = 0; k < span->n_query; k++, row++) {
            l->ids[row] = l->targets[row] = -1;
            l->position[row] = (int32_t)k;
            l->sentence[row] = 0;
        }
    }
    if (!pass->training || rows == row) return;
    for (most = 8; most < stack->most_keys; most *= 2) {}
    stack->most_queries = stack->most_keys = most;      /* a power of two: few shapes to record */
    for (k = stack->n_groups + 1; k <= stack->rows; k++) l->group_first[k] = l->group_first[stack->n_groups];
    stack->n_groups = stack->rows;
}

/* Writes one stack's rows. Source: the ids, then EOS if configured. Target: start + ids are read, as many as the ids
   (and EOS, if configured) that are wanted. */
TRF__FN void trf__fill_rows(const trf__pass *pass, trf__stack *stack, const trf_sequences *x, int64_t ordinal,
                            int64_t longest)
{
    const trf_config *c = pass->config;
    const trf__lists *l = &stack->host;
    int64_t row = 0, at = 0;
    int32_t i, k, extra = stack->decoder ? c->target_eos : c->source_eos;
    stack->most_keys = 0;
    for (i = 0; i < x->count; i++) {
        int32_t n = x->lengths[i] + extra;
        trf__span *span = &l->self[i];
        span->query = span->key = (int32_t)row;
        span->n_query = span->n_key = n;
        span->sentence = (int32_t)(ordinal + i);
        stack->most_queries = stack->most_keys = trf__max64(stack->most_keys, n);
        for (k = 0; k < n; k++, row++) {
            l->ids[row] = stack->decoder ? (k == 0 ? trf__start_id(c) : x->ids[at + k - 1])
                                         : (k < x->lengths[i] ? x->ids[at + k] : c->eos);
            l->targets[row] = k < x->lengths[i] ? x->ids[at + k] : c->eos;
            l->position[row] = k;
            l->sentence[row] = span->sentence;
        }
        at += x->lengths[i];
    }
    if (pass->training) stack->n_groups = trf__group_rows(l->group_rows, l->group_first, l->ids, row);
    trf__fill_up(pass, stack, row, x->count, longest);
}

/* What each row of a head is asked for: its labels, and -1 for EOS and rows that fill up. */
TRF__FN void trf__fill_labels(const trf__pass *pass, const trf_sequences *x)
{
    const trf__lists *source = &pass->encoder.host;
    int32_t *targets = pass->decoder.host.targets, i, k, n;
    int64_t row = 0, at = 0;
    for (i = 0; i < x->count; i++) {
        n = trf__pools(pass->config) ? 1 : source->self[i].n_query;
        for (k = 0; k < n; k++) targets[row++] = k < x->lengths[i] ? x->ids[at++] : -1;
    }
    while (row < pass->decoder.rows) targets[row++] = -1;
}

/* Limits that are enough: where one was not, larger by a quarter at least, so that batches which become longer little
   by little do not each move everything. */
TRF__FN trf__limits trf__limits_grown(const trf__limits *have, const trf__limits *need, int64_t max_length)
{
    trf__limits grown = *have;
    if (need->source_rows > have->source_rows)
        grown.source_rows = trf__max64(need->source_rows, have->source_rows * 5 / 4);
    if (need->target_rows > have->target_rows)
        grown.target_rows = trf__max64(need->target_rows, have->target_rows * 5 / 4);
    if (need->sentences > have->sentences) grown.sentences = trf__max64(need->sentences, have->sentences * 5 / 4);
    if (need->longest > have->longest)
        grown.longest = trf__min64(trf__max64(need->longest, have->longest * 5 / 4), max_length);
    return grown;
}

/* Grows the arena where a limit is below what is needed. On failure nothing has changed. */
TRF__FN trf_status trf__pass_reserve(trf__pass *pass, const trf__limits *need, trf_error *err)
{
    trf__limits grown = trf__limits_grown(&pass->limits, need, pass->config->max_length);
    if (memcmp(&grown, &pass->limits, sizeof grown) == 0) return TRF_OK;
    TRF__TRY(trf__pass_resize(pass, &grown, err));
    if (pass->training)
        trf__log(&pass->run.hooks, TRF_LOG_INFO, "a batch is beyond the planned limits: memory has grown");
    return TRF_OK;
}

/* The block, as far as it is used, goes to the device. */
TRF__FN void trf__block_upload(trf__pass *pass, size_t bytes)
{
    memcpy(pass->host_block, &pass->now, sizeof pass->now);
    pass->run.backend->upload(&pass->run, pass->device_block, pass->host_block, bytes);
}

/* How many rows and sequences the pass has for what is needed: as many, or, in training, as the backend wants to fill
   it up to. It follows from the batch alone, and not from how far memory has grown: so do bits. */
TRF__FN trf__limits trf__pass_filled(const trf__pass *pass, const trf__limits *need)
{
    const trf__run *run = &pass->run;
    trf__limits full = *need;
    int64_t more;
    if (!pass->training || need->sentences == 0) return full;
    full.source_rows = run->backend->fill(run, need->source_rows);
    full.target_rows = run->backend->fill(run, need->target_rows);
    more = trf__max64(full.source_rows - need->source_rows, full.target_rows - need->target_rows);
    full.sentences = run->backend->fill(run, need->sentences + trf__ceil_div(more, trf__max64(1, need->longest)));
    if (trf__pools(pass->config)) full.target_rows = full.sentences;
    return full;
}

/* Checks a batch, turns the sides it should have into rows and uploads them, growing the arena if need be. On failure
   the rows of the batch before stay. */
TRF__FN trf_status trf__pass_sides(trf__pass *pass, const trf_batch *batch, int sides, int64_t ordinal,
                                   trf_error *err)
{
    const trf_config *c = pass->config;
    int source = sides & TRF__SOURCE, target = sides & TRF__TARGET, head = sides & TRF__HEAD;
    trf__limits need = {0, 0, 0, 1, 0}, full;
    int64_t i, wanted;
    if (!batch) return trf__fail_null(err, "batch");
    if (source)
        TRF__TRY(trf__check_side(c, &batch->source, c->source_vocab, 0, c->source_eos, "source",
                                 &need.source_rows, &need.longest, err));
    if (target)
        TRF__TRY(trf__check_side(c, &batch->target, c->target_vocab, !c->target_eos, c->target_eos, "target",
                                 &need.target_rows, &need.longest, err));
    wanted = need.target_rows;
    if (head) {
        need.target_rows = need.source_rows;
        TRF__TRY(trf__check_head(c, batch, pass->training, &need.target_rows, &wanted, err));
    }
    need.sentences = source ? batch->source.count : batch->target.count;
    if (source && target && batch->source.count != batch->target.count)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "target", "source has %d sequence%s but target %d",
                         batch->source.count, trf__plural(batch->source.count), batch->target.count);
    full = trf__pass_filled(pass, &need);
    TRF__TRY(trf__pass_reserve(pass, &full, err));
    pass->n_sentences = need.sentences;
    pass->target_rows = wanted;
    pass->now.source_tokens = (double)need.source_rows;
    pass->encoder.rows = full.source_rows;
    pass->decoder.rows = full.target_rows;
    pass->encoder.n_self = source ? full.sentences : 0;
    pass->decoder.n_self = target ? full.sentences : 0;
    pass->decoder.n_cross = source && target ? full.sentences : 0;
    if (trf__block_cut(pass, pass->host_block, 0) > pass->block_bytes)
        return trf__fail(err, TRF_E_INTERNAL, -1, "block", "the block of a batch is larger than was planned");
    if (source) trf__fill_rows(pass, &pass->encoder, &batch->source, ordinal, need.longest);
    if (target) trf__fill_rows(pass, &pass->decoder, &batch->target, ordinal, need.longest);
    if (head && pass->training) trf__fill_labels(pass, &batch->target);
    for (i = 0; i < pass->decoder.n_cross; i++) {
        trf__span *span = &pass->decoder.host.cross[i];
        *span = pass->decoder.host.self[i];
        span->key = pass->encoder.host.self[i].query;
        span->n_key = pass->encoder.host.self[i].n_query;
    }
    pass->decoder.most_memory = pass->encoder.most_keys;
    trf__block_upload(pass, trf__block_cut(pass, pass->device_block, 1));
    return TRF_OK;
}

// >>forward        embed, then the list of sublayers, for the encoder and for the decoder
//
// Training, evaluating, looking inside and decoding token by token all come through here; they differ in dropout
// (run.now), in what is kept, and in where keys and values come from (trf__work_of).

TRF__FN trf__mat trf__weight(const trf__pass *pass, int64_t offset)
{
    trf__mat w;
    w.plain = pass->weights + offset;
    w.copy = pass->copies ? (char *)pass->copies + pass->run.backend->copy_bytes(&pass->run.device, offset,
                                                                                  pass->training) : NULL;
    w.row = 0;
    return w;
}

TRF__FN trf__rows trf__stack_rows(const trf__stack *stack)
{
    trf__rows at;
    at.sentence = stack->device.sentence;
    at.position = stack->device.position;
    return at;
}

/* Everything that a sublayer works with. What it stores is in the arena; while decoding, keys and values are in the
   cache, and nothing of the encoder is new. */
TRF__FN trf__work trf__work_of(const trf__pass *pass, const trf__stack *stack, const trf__sublayer *layer)
{
    const trf_config *c = pass->config;
    const trf__cache *cache = stack->decoder ? pass->cache : NULL;
    int cross = layer->kind == TRF__CROSS, self = layer->kind == TRF__SELF;
    trf__work sub;
    TRF__ZERO(sub);
    sub.rows = stack->rows;
    sub.memory_rows = !cross ? stack->rows : cache ? 0 : pass->encoder.rows;
    sub.d = c->d_model; sub.f = c->d_ff;
    sub.at = trf__stack_rows(stack);
    sub.in_w = trf__weight(pass, layer->in_w); sub.out_w = trf__weight(pass, layer->out_w);
    sub.in_b = pass->weights + layer->in_b; sub.out_b = pass->weights + layer->out_b;
    sub.activation = (int)c->activation;
    sub.attention.heads = c->n_heads;
    sub.attention.causal = stack->decoder && self;
    sub.attention.spans = cross ? stack->device.cross : stack->device.self;
    sub.attention.n_spans = cross ? stack->n_cross : stack->n_self;
    sub.attention.most_queries = stack->most_queries;
    sub.attention.most_keys = cross ? stack->most_memory : stack->most_keys;
    sub.drop = layer->inner_drop;
    sub.wide = layer->wide; sub.inner = layer->inner; sub.stats = layer->stats;
    sub.memory = sub.fresh = layer->memory;
    if (cache && cross) {
        sub.memory = trf__act_at(&pass->run, cache->cross, layer->layer * cache->cross_layer);
        sub.attention.area = cache->area;
    }
    if (cache && self) {
        sub.memory = trf__act_at(&pass->run, cache->self, layer->layer * cache->self_layer);
        sub.fresh = trf__act_at(&pass->run, sub.wide, stack->rows * c->d_model);    /* behind the queries */
        sub.slots = stack->device.slots;
        sub.attention.key_rows = cache->ancestors;
        sub.attention.key_stride = cache->stride;
        sub.attention.area = cache->self_area;
    }
    return sub;
}

/* The norm after a sublayer. */
TRF__FN trf__norm trf__norm_of(const trf__pass *pass, const trf__stack *stack, int64_t gain, int64_t bias)
{
    trf__norm n;
    TRF__ZERO(n);
    n.rows = stack->rows;
    n.d = pass->config->d_model;
    n.epsilon = pass->config->norm_epsilon;
    n.rule = (int)pass->config->norm_rule;
    n.at = trf__stack_rows(stack);
    if (gain >= 0) { n.gain = pass->weights + gain; n.bias = pass->weights + bias; }
    return n;
}

TRF__FN void trf__norm_alone(const trf__pass *pass, const trf__stack *stack, trf__act *y, trf_real *stats,
                             const trf__act *x, int64_t gain, int64_t bias)
{
    trf__norm n = trf__norm_of(pass, stack, gain, bias);
    n.x = x;
    n.y = y;
    n.stats = stats;
    pass->run.backend->add_norm(&pass->run, &n);
}

TRF__FN trf_status trf__cancel_status(const trf_hooks *hooks, trf_error *err)
{
    if (!trf__cancelled(hooks)) return TRF_OK;
    return trf__fail(err, TRF_E_CANCELLED, -1, "cancel", "the cancel hook asked to stop");
}

/* The attention weights of one head, if this is the sublayer that is looked at. */
TRF__FN void trf__probe(const trf__pass *pass, const trf__stack *stack, const trf__sublayer *layer,
                        const trf__work *sub)
{
    int kind = layer->kind == TRF__CROSS ? TRF_DECODER_CROSS : stack->decoder ? TRF_DECODER_SELF : TRF_ENCODER_SELF;
    trf__attention_weights a;
    if (kind != pass->probe_kind || layer->layer != pass->probe_layer) return;
    a.in = trf__attention_of(&pass->run, sub);
    a.weights = pass->probed;
    a.head = pass->probe_head;
    pass->run.backend->attention_weights(&pass->run, &a);
}

/* The two streams (>>pass) in front of sublayer i: what it reads, and what is added to its result. */
TRF__FN trf__act *trf__stream_in(const trf__stack *stack, int i)
{
    const trf__sublayer *before = &stack->sublayers[i > 0 ? i - 1 : 0];
    if (i == 0) return stack->first_gain >= 0 ? stack->first_y : stack->embedded;
    return before->gain >= 0 ? before->y : before->s;
}
TRF__FN trf__act *trf__stream_res(const trf__pass *pass, const trf__stack *stack, int i)
{
    if (pass->config->norm_place != TRF_PRE_NORM) return trf__stream_in(stack, i);
    return i > 0 ? stack->sublayers[i - 1].s : stack->embedded;
}

/* Sublayer i: y and s from the streams. */
TRF__FN void trf__sublayer_forward(const trf__pass *pass, const trf__stack *stack, int i)
{
    const trf__sublayer *layer = &stack->sublayers[i];
    const trf__act *in = trf__stream_in(stack, i);
    trf__work sub = trf__work_of(pass, stack, layer);
    trf__norm n = trf__norm_of(pass, stack, layer->gain, layer->bias);
    if (layer->kind == TRF__FEED_FORWARD) trf__feed_forward(&pass->run, &sub, pass->proj, in);
    else {
        trf__attention_forward(&pass->run, &sub, pass->proj, in, layer->kind == TRF__CROSS ? pass->encoder.out : in);
        if (pass->probed) trf__probe(pass, stack, layer, &sub);
    }
    n.s = layer->s;
    n.y = layer->gain >= 0 ? layer->y : NULL;
    n.stats = layer->norm_stats;
    n.x = trf__stream_res(pass, stack, i);
    n.sub = pass->proj;
    n.drop = layer->residual_drop;
    pass->run.backend->add_norm(&pass->run, &n);
}

TRF__FN trf_real trf__embedding_scale(const trf_config *c)
{
    return c->scale_embeddings ? (trf_real)sqrt((double)c->d_model) : 1;
}

TRF__FN void trf__stack_embed(const trf__pass *pass, const trf__stack *stack)
{
    trf__embed e;
    e.d = pass->config->d_model;
    e.y = stack->embedded;
    e.weight = pass->weights + stack->embed;
    e.table = stack->positions < 0 ? pass->table
                                   : pass->weights + stack->positions + pass->config->position_offset * e.d;
    e.ids = stack->device.ids;
    e.at = trf__stack_rows(stack);
    e.rows = stack->rows;
    e.scale = trf__embedding_scale(pass->config);
    e.drop = stack->drop;
    pass->run.backend->embed(&pass->run, &e);
}

/* Embedding and sublayers of one stack: leaves stack->out. */
TRF__FN trf_status trf__stack_forward(trf__pass *pass, trf__stack *stack, trf_error *err)
{
    trf__act *last;
    int i;
    trf__stack_embed(pass, stack);
    if (stack->first_gain >= 0)
        trf__norm_alone(pass, stack, stack->first_y, stack->first_stats, stack->embedded, stack->first_gain,
                        stack->first_bias);
    for (i = 0; i < stack->n_sublayers; i++) {
        TRF__TRY(trf__cancel_status(&pass->run.hooks, err));
        trf__sublayer_forward(pass, stack, i);
    }
    last = stack->out = trf__stream_in(stack, i);
    if (stack->final_gain >= 0) {
        stack->out = stack->final_y;
        trf__norm_alone(pass, stack, stack->out, stack->final_stats, last, stack->final_gain, stack->final_bias);
    }
    return TRF_OK;
}

TRF__FN trf__pool trf__pool_of(const trf__pass *pass, trf__act *to, const trf__act *from)
{
    trf__pool p;
    p.to = to; p.from = from;
    p.spans = pass->encoder.device.self; p.n_spans = pass->encoder.n_self;
    p.d = pass->config->d_model;
    p.most = pass->config->head == TRF_HEAD_FIRST ? 1 : INT32_MAX;
    return p;
}

/* The rows that a head projects: the encoder's, or one for each sequence. */
TRF__FN void trf__head_forward(trf__pass *pass)
{
    trf__pool p = trf__pool_of(pass, pass->decoder.embedded, pass->encoder.out);
    pass->decoder.out = trf__pools(pass->config) ? p.to : pass->encoder.out;
    if (trf__pools(pass->config)) pass->run.backend->pool(&pass->run, &p);
}

TRF__FN trf_status trf__pass_forward(trf__pass *pass, trf_error *err)
{
    if (pass->sides & TRF__SOURCE) TRF__TRY(trf__stack_forward(pass, &pass->encoder, err));
    if (pass->sides & TRF__HEAD) trf__head_forward(pass);
    return pass->sides & TRF__TARGET ? trf__stack_forward(pass, &pass->decoder, err) : TRF_OK;
}

/* What label smoothing wants (trf_smoothing): the numbers of trf__loss. */
TRF__FN void trf__smooth(trf__loss *l, double e, int rule, int64_t vocab, int64_t pad)
{
    double n = (double)vocab;
    l->vocab = vocab;
    l->zero_column = -1;
    l->entropy = 0;
    if (rule == TRF_SMOOTH_UNIFORM) { l->on = 1 - e + e / n; l->off = e / n; return; }
    l->on = 1 - e;
    if (rule == TRF_SMOOTH_NO_PAD_KL) { l->off = e / (n - 2); l->zero_column = e > 0 ? pad : -1; }
    else l->off = e / (n - 1);
    if (rule == TRF_SMOOTH_OTHERS || l->off <= 0) return;
    l->entropy = -(1 - e) * log(1 - e) - e * log(l->off);
}

TRF__FN const trf_real *trf__generator_bias(const trf__pass *pass)
{
    int64_t bias = pass->layout->whole.generator_b;
    return bias >= 0 ? pass->weights + bias : NULL;
}

/* The loss of the batch, row by row, without gradients. */
TRF__FN trf__loss trf__pass_loss(const trf__pass *pass, double smoothing, int rule)
{
    const trf_config *c = pass->config;
    trf__loss l;
    TRF__ZERO(l);
    trf__smooth(&l, smoothing, rule, trf__n_logits(c), c->pad);
    l.row_loss = pass->row_loss;
    l.row_nll = pass->row_nll;
    l.sums = pass->sums;
    l.room = pass->loss_room;
    l.x = pass->decoder.out;
    l.w = trf__weight(pass, pass->layout->whole.generator_w);
    l.bias = trf__generator_bias(pass);
    l.targets = pass->decoder.device.targets;
    l.rows = pass->decoder.rows;
    l.d = c->d_model;
    return l;
}

#if !defined(TRF_NO_TRAIN)

// >>backward       the mirror of >>forward
//
// With the two streams of >>pass, for sublayers i from the last to the first:
//
//   post-norm   ds[i] = norm'(din[i+1] + ds[i+1])       dsub = drop(ds[i])     din[i] = sublayer'(dsub)
//   pre-norm    ds[i] = norm'(din[i+1]) + ds[i+1]       dsub = drop(ds[i])     din[i] = sublayer'(dsub)
//
// ds is what flows past the sublayer, din what flows through it; both are one buffer for all of them. The decoder
// comes first: its cross-attentions add up dencoded, the gradient of the encoder's output.
//
// Where the layers of a stack share a place (>>acts), forward leaves the activations of the last one there. Those of
// the others are made again, each when it is wanted, by the same ops with the same random numbers, which are counted
// (>>dropout): the same bits (Chen et al. 2016, "Training deep nets with sublinear memory cost").

TRF__FN void trf__sublayer_backward(const trf__pass *pass, const trf__stack *stack, const trf__sublayer *layer,
                                    const trf__act *in, int add_memory)
{
    trf__work sub = trf__work_of(pass, stack, layer);
    trf_real *g = pass->gradients;
    sub.d_in_w = g + layer->in_w; sub.d_in_b = g + layer->in_b;
    sub.d_out_w = g + layer->out_w; sub.d_out_b = g + layer->out_b;
    sub.first = pass->first;
    sub.dwide = pass->dwide; sub.dmemory = pass->dmemory; sub.dinner = pass->dinner;
    if (layer->kind == TRF__FEED_FORWARD) trf__feed_forward_backward(&pass->run, &sub, pass->din, pass->dsub, in);
    else trf__attention_backward(&pass->run, &sub, pass->din, pass->dencoded, add_memory, pass->dsub, in,
                                 pass->encoder.out);
}

/* Back through a norm (gain -1: none) whose input was s, into ds; the caller adds the gradients that come in. */
TRF__FN trf__norm_gradient trf__norm_gradient_of(const trf__pass *pass, const trf__stack *stack, int64_t gain,
                                                 int64_t bias, const trf__act *s, const trf_real *stats)
{
    trf__norm_gradient n;
    TRF__ZERO(n);
    n.ds = pass->ds;
    n.s = s;
    n.stats = stats;
    n.rows = stack->rows;
    n.d = pass->config->d_model;
    n.epsilon = pass->config->norm_epsilon;
    n.rule = (int)pass->config->norm_rule;
    n.first = pass->first;
    n.at = trf__stack_rows(stack);
    if (gain < 0) return n;
    n.gain = pass->weights + gain;
    n.dgain = pass->gradients + gain;
    n.dbias = pass->gradients + bias;
    return n;
}

/* From ds, the gradient of the embedding, to those of its weights. A matrix that the projection or the other stack
   has written to already (tying) is added to. */
TRF__FN void trf__stack_embed_backward(const trf__pass *pass, const trf__stack *stack)
{
    const trf_config *c = pass->config;
    int written = stack->decoder ? c->tying != TRF_UNTIED : c->tying == TRF_TIED_ALL || c->head == TRF_HEAD_MASKED;
    trf__embed_gradient e;
    e.d = c->d_model;
    e.vocab = stack->decoder ? c->target_vocab : c->source_vocab;
    e.positions = c->max_length;
    e.dweight = pass->gradients + stack->embed;
    e.dtable = NULL;
    if (stack->positions >= 0) {
        trf_real *table = pass->gradients + stack->positions;
        e.dtable = table + c->position_offset * e.d;
        if (pass->first && c->position_offset > 0)      /* the rows in front, which no token reads */
            pass->run.backend->zero(&pass->run, table, trf__bytes(c->position_offset * e.d, sizeof(trf_real)));
    }
    e.dy = pass->ds;
    e.ids = stack->device.ids;
    e.groups.rows = stack->device.group_rows;
    e.groups.first = stack->device.group_first;
    e.groups.n = stack->n_groups;
    e.at = trf__stack_rows(stack);
    e.rows = stack->rows;
    e.scale = trf__embedding_scale(c);
    e.drop = stack->drop;
    e.first = pass->first && !written;
    e.first_table = pass->first;
    pass->run.backend->embed_gradient(&pass->run, &e);
}

/* What the layer that ends with sublayer `last` has stored and the layers above it have overwritten. Its s and the
   statistics of the norm behind it are still there, so the last product is not wanted. */
TRF__FN void trf__recompute_layer(const trf__pass *pass, const trf__stack *stack, int last)
{
    trf__work sub = trf__work_of(pass, stack, &stack->sublayers[last]);
    int i = last + 1 - stack->per_layer;
    const trf__sublayer *below = &stack->sublayers[i > 0 ? i - 1 : 0];
    if (i > 0) trf__norm_alone(pass, stack, below->y, NULL, below->s, below->gain, below->bias);
    for (; i < last; i++) trf__sublayer_forward(pass, stack, i);
    trf__feed_forward(&pass->run, &sub, NULL, trf__stream_in(stack, last));
}

/* From the gradient of the stack's output to those of all its parameters. may_cancel: 0 when other micro-batches are
   in the gradients already, as half of this one could not be taken out. */
TRF__FN trf_status trf__stack_backward(trf__pass *pass, const trf__stack *stack, const trf__act *dout, int may_cancel,
                                       trf_error *err)
{
    const trf__backend *on = pass->run.backend;
    const trf__act *dy = dout, *dy2 = NULL, *ds_in = NULL;
    trf__norm_gradient n;
    int i, pre = pass->config->norm_place == TRF_PRE_NORM, memory_seen = 0;
    if (stack->final_gain >= 0) {
        n = trf__norm_gradient_of(pass, stack, stack->final_gain, stack->final_bias,
                                  stack->sublayers[stack->n_sublayers - 1].y, stack->final_stats);
        n.dy = dy;
        on->norm_gradient(&pass->run, &n);
        dy = pass->ds;
    }
    for (i = stack->n_sublayers - 1; i >= 0; i--) {
        const trf__sublayer *layer = &stack->sublayers[i];
        if (may_cancel) TRF__TRY(trf__cancel_status(&pass->run.hooks, err));
        if (pass->limits.recompute && (i + 1) % stack->per_layer == 0 && i + 1 < stack->n_sublayers)
            trf__recompute_layer(pass, stack, i);
        n = trf__norm_gradient_of(pass, stack, layer->gain, layer->bias, layer->s, layer->norm_stats);
        n.dy = dy; n.dy2 = dy2; n.ds_in = ds_in;
        n.dsub = pass->dsub;
        n.drop = layer->residual_drop;
        on->norm_gradient(&pass->run, &n);
        trf__sublayer_backward(pass, stack, layer, trf__stream_in(stack, i), memory_seen);
        if (layer->kind == TRF__CROSS) memory_seen = 1;
        dy = pass->din;
        dy2 = pre ? NULL : pass->ds;
        ds_in = pre ? pass->ds : NULL;
    }
    n = trf__norm_gradient_of(pass, stack, stack->first_gain, stack->first_bias, stack->embedded, stack->first_stats);
    n.dy = dy; n.dy2 = dy2; n.ds_in = ds_in;
    on->norm_gradient(&pass->run, &n);
    trf__stack_embed_backward(pass, stack);
    return TRF_OK;
}

/* From the gradient of the rows that the head projects, in din, to that of the encoder's result, wherever that is. */
TRF__FN trf__act *trf__head_backward(const trf__pass *pass)
{
    trf__pool p = trf__pool_of(pass, pass->dencoded, pass->din);
    if (!trf__pools(pass->config)) return pass->din;
    pass->run.backend->pool_gradient(&pass->run, &p);
    return pass->dencoded;
}

/* Loss and all gradients of the batch in the pass; its sums go behind the gradients. Writers into a tied matrix:
   projection, target, source, in this order. */
TRF__FN trf_status trf__pass_backward(trf__pass *pass, const trf_train_options *o, int may_cancel, trf_error *err)
{
    trf__loss loss = trf__pass_loss(pass, o->label_smoothing, (int)o->smoothing_rule);
    int64_t bias = pass->layout->whole.generator_b;
    loss.slots = pass->gradients + pass->layout->n_weights;
    loss.dx = pass->din;
    loss.dw = pass->gradients + pass->layout->whole.generator_w;
    loss.db = bias >= 0 ? pass->gradients + bias : NULL;
    loss.first = pass->first;
    pass->run.backend->cross_entropy(&pass->run, &loss);
    if (pass->sides & TRF__HEAD)
        return trf__stack_backward(pass, &pass->encoder, trf__head_backward(pass), may_cancel, err);
    TRF__TRY(trf__stack_backward(pass, &pass->decoder, pass->din, may_cancel, err));
    if (!(pass->sides & TRF__SOURCE)) return TRF_OK;
    return trf__stack_backward(pass, &pass->encoder, pass->dencoded, may_cancel, err);
}

#endif

// -----------------------------------------------------------------------------------------------
// >>train          Adam, schedules (paper 5.3, 5.4)
//
// A step is: for every micro-batch forward, loss, backward, which add gradients that are sums over tokens; then
// one optimizer step, which divides by the tokens, clips the global norm and updates. The gradient arena
// ends with a few slots (see >>ops): loss, tokens and hits travel with the gradients, so that one
// all-reduce carries everything and every rank takes the same decision.
// -----------------------------------------------------------------------------------------------

TRF_API trf_train_options trf_train_defaults(void)
{
    trf_train_options o;
    TRF__ZERO(o);
    o.optimizer = TRF_ADAM;
    o.beta1 = 0.9; o.beta2 = 0.98; o.epsilon = 1e-9;
    o.epsilon_rule = TRF_EPSILON_OUTSIDE;
    o.schedule = TRF_INVERSE_SQRT;
    o.learning_rate = 1e-3;
    o.warmup = 100;
    o.smoothing_rule = TRF_SMOOTH_UNIFORM;
    o.clip_norm = 1;
    o.seed = 1;
    o.source_tokens = o.target_tokens = 4096;
    o.sequences = 256;
    o.longest = 128;
    o.n_ranks = 1;
    return o;
}

TRF_API void trf_train_set_conventions(trf_train_options *options, trf_conventions whose)
{
    int paper = whose == TRF_CONVENTIONS_PAPER;
    options->optimizer = TRF_ADAM;
    options->beta1 = 0.9;
    options->beta2 = paper ? 0.98 : 0.999;
    options->epsilon = paper ? 1e-9 : 1e-8;
    options->epsilon_rule = paper ? TRF_EPSILON_FAIRSEQ : TRF_EPSILON_OUTSIDE;
    options->schedule = paper ? TRF_NOAM : TRF_CONSTANT;
    options->learning_rate = paper ? 1 : 1e-3;
    options->warmup = paper ? 4000 : 1;
    options->label_smoothing = paper ? 0.1 : 0;
    options->smoothing_rule = paper ? TRF_SMOOTH_OTHERS_KL : TRF_SMOOTH_UNIFORM;
    trf_train_set_dropout(options, 0.1);
    if (paper) options->attention_dropout = options->activation_dropout = 0;    /* section 5.4 names the other two */
}

TRF_API void trf_train_set_dropout(trf_train_options *options, double p)
{
    options->dropout = options->attention_dropout = options->activation_dropout = options->residual_dropout = p;
}

TRF_API double trf_learning_rate(const trf_train_options *o, int32_t d_model, int64_t step)
{
    double s = (double)step, w, progress;
    if (!o) return 0;
    w = (double)o->warmup;
    if (step < 1) return o->schedule == TRF_NOAM ? 0 : o->initial_rate;
    if (o->schedule == TRF_NOAM) {
        double rising = s * pow(w, -1.5), falling = 1 / sqrt(s);
        return o->learning_rate / sqrt((double)d_model) * (rising < falling ? rising : falling);
    }
    if (s < w) return o->initial_rate + s * (o->learning_rate - o->initial_rate) / w;
    if (o->schedule == TRF_INVERSE_SQRT) return o->learning_rate * sqrt(w / s);
    if (o->schedule == TRF_CONSTANT) return o->learning_rate;
    progress = (s - w) / ((double)o->total_steps - w);
    if (progress > 1) progress = 1;
    return o->final_rate + (o->learning_rate - o->final_rate) * 0.5 * (1 + cos(3.141592653589793 * progress));
}

#if !defined(TRF_NO_TRAIN)

/* cosine: see trf__train_check. */
#define TRF__TRAIN_FIELDS(X) \
    X(trf_optimizer,    optimizer,          0, 1, 2) \
    X(double,           beta1,              0, 1 - 1e-12, 2) \
    X(double,           beta2,              0, 1 - 1e-12, 2) \
    X(double,           epsilon,            1e-30, 1, 2) \
    X(trf_adam_epsilon, epsilon_rule,       0, 2, 2) \
    X(double,           weight_decay,       0, 1e6, 2) \
    X(int32_t,          decay_all,          0, 1, 2) \
    X(trf_schedule,     schedule,           0, 3, 2) \
    X(double,           learning_rate,      1e-30, 1e6, 2) \
    X(double,           initial_rate,       0, 1e6, 2) \
    X(double,           final_rate,         0, 1e6, 2) \
    X(int64_t,          warmup,             1, 1e15, 2) \
    X(int64_t,          total_steps,        cosine ? (double)o->warmup + 1 : -1e19, cosine ? 1e15 : 1e19, 2) \
    X(double,           label_smoothing,    0, TRF__BELOW_ONE, 2) \
    X(trf_smoothing,    smoothing_rule,     0, 3, 2) \
    X(double,           dropout,            0, TRF__BELOW_ONE, 2) \
    X(double,           attention_dropout,  0, TRF__BELOW_ONE, 2) \
    X(double,           activation_dropout, 0, TRF__BELOW_ONE, 2) \
    X(double,           residual_dropout,   0, TRF__BELOW_ONE, 2) \
    X(double,           clip_norm,          1e-12, TRF_NO_CLIPPING, 2) \
    X(uint64_t,         seed,               0, 2e19, 2) \
    X(int32_t,          recompute,          0, 1, 3) \
    X(int32_t,          source_tokens,      1, 1 << 24, 2) \
    X(int32_t,          target_tokens,      1, 1 << 24, 2) \
    X(int32_t,          sequences,          1, 1 << 24, 2) \
    X(int32_t,          longest,            2, 1 << 20, 2) \
    X(int32_t,          threads,            0, TRF__MAX_THREADS, 0) \
    X(int32_t,          n_ranks,            1, 1 << 20, 0) \
    X(int32_t,          rank,               0, o->n_ranks - 1, 0)

TRF__COLD
TRF__FN trf_status trf__train_check(const trf_train_options *o, const trf_config *c, trf_error *err)
{
    int cosine = o->schedule == TRF_COSINE;
#define TRF__X(type, field, low, high, stored) TRF__RANGE(o, field, low, high);
    TRF__TRAIN_FIELDS(TRF__X)
#undef TRF__X
    if (o->n_ranks > 1 && !o->all_reduce)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "all_reduce", "%d ranks need the all_reduce hook, got NULL",
                         o->n_ranks);
    if (c->kind == TRF_ENCODER_ONLY && !c->head)
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, "kind",
                         "an encoder-only model without a head has no loss: give it one, or use trf_encode");
    if (c->head && o->smoothing_rule == TRF_SMOOTH_NO_PAD_KL)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "smoothing_rule",
                         "smoothing_rule must be 0 to 2 with a head, whose labels have no pad, got %d",
                         (int)o->smoothing_rule);
    return trf__hooks_check(&o->hooks, err);
}

struct trf_trainer {
    trf_model *model;
    trf_train_options options;
    trf__pass pass;
    char *arena; size_t arena_bytes;    /* on the device: all of these */
    trf_real *gradients;            /* n_weights, then TRF__SLOTS */
    trf_real *m, *v;                /* Adam's moments */
    trf__tile *tiles;
    double *partial;                /* per tile: sum of squares */
    trf__verdict *verdict;          /* of the last update */
    int64_t n_tiles;
    char *frozen;                   /* on the host, per parameter: '0', or '1' and its tiles are empty; */
    int64_t *missed;                /* updates that its moments have not had, less all there were when it froze */
    int64_t step;                   /* updates so far, skipped ones included */
    int64_t updated;                /* number of the last update that was made here; 0: none, */
    double rate;                    /* and its learning rate */
    trf_place begin, behind;        /* in the data: of the step that is not complete, and behind its last batch; */
    trf_place before;               /* what was `behind` when it began: it may have gone back */
    int64_t micro, sentences, target_rows;      /* micro-batches since the last update, and what they brought */
    int written;                    /* the caller has a view of the weights, and may write them between steps */
};

/* Of `missed`, and of `frozen`, a text, behind it. */
TRF__FN size_t trf__marks_bytes(int32_t n_params) { return (size_t)n_params * (sizeof(int64_t) + 1) + 1; }

/* Cuts the parameters into tiles, on the device. Matrices decay, but not embeddings, learned
   positions and what is tied to them, unless decay_all. */
TRF__FN void trf__cut_tiles(const trf_trainer *t, int decay_all)
{
    const trf__run *run = &t->pass.run;
    trf__tile tile;
    int64_t n = 0, at;
    int32_t i;
    for (i = 0; i < t->model->layout.n_params; i++) {
        const trf__param *p = &t->model->layout.params[i];
        int64_t size = trf__param_size(p);
        tile.decay = decay_all || p->start == TRF__START_MATRIX || p->start == TRF__START_QKV ||
            p->start == TRF__START_GENERATOR;
        for (at = 0; at < size; at += TRF__TILE, n++) {
            tile.begin = p->offset + at;
            tile.n = t->frozen[i] == '1' ? 0 : trf__min64(TRF__TILE, size - at);
            tile.missed = t->frozen[i] == '1' ? 0 : t->missed[i];
            run->backend->upload(run, t->tiles + n, &tile, sizeof tile);
        }
    }
}

TRF__FN trf__limits trf__train_limits(const trf__run *run, const trf_config *c, const trf_train_options *o)
{
    trf__limits limits;
    int64_t tokens = trf__min64(4096, trf__max64(o->source_tokens, o->target_tokens));
    int64_t fillers = run->backend->fill(run, tokens + 1) - tokens - 1;         /* at most, of one row each */
    int64_t sources = run->backend->fill(run, o->source_tokens);
    int64_t sequences = run->backend->fill(run, o->sequences + fillers);
    limits.source_rows = trf__has_source(c) ? sources : 0;
    limits.target_rows = trf__has_target(c) ? run->backend->fill(run, o->target_tokens)
                       : trf__pools(c) ? sequences : sources;
    limits.sentences = sequences;
    limits.longest = trf__min64(o->longest, c->max_length);
    limits.recompute = o->recompute;
    return limits;
}

/* What a trainer keeps on the device besides its pass, in one arena; base NULL: only the size. */
TRF__FN size_t trf__trainer_layout(trf_trainer *t, const trf__run *run, int64_t n_weights, char *base)
{
    trf__cursor cursor = trf__cursor_at(base);
    size_t copies = run->backend->copy_bytes(&run->device, n_weights, 1);
    t->gradients = trf__take_reals(&cursor, n_weights + TRF__SLOTS, 1);
    t->m = trf__take_reals(&cursor, n_weights, 1);
    t->v = trf__take_reals(&cursor, n_weights, 1);
    t->tiles = (trf__tile *)trf__take(&cursor, t->n_tiles, sizeof(trf__tile));
    t->partial = (double *)trf__take(&cursor, t->n_tiles, sizeof(double));
    t->verdict = (trf__verdict *)trf__take(&cursor, 1, sizeof(trf__verdict));
    if (copies > 0) t->pass.copies = trf__take(&cursor, 1, copies);
    return cursor.used;
}

TRF_API size_t trf_trainer_memory(const trf_config *config, const trf_train_options *options)
{
    trf_train_options defaults = trf_train_defaults();
    trf__layout layout;
    trf__limits limits;
    trf_device device;
    trf__run run;
    trf_trainer count;
    if (!options) options = &defaults;
    if (!config || trf__config_check(config, NULL) != TRF_OK ||
        trf__train_check(options, config, NULL) != TRF_OK) return 0;
    TRF__ZERO(layout);
    TRF__ZERO(count);
    trf__lay_out(&layout, config);
    device = trf__device_with(&config->device, options->threads);
    run = trf__run_on(&device, &options->hooks);
    limits = trf__train_limits(&run, config, options);
    count.n_tiles = layout.n_tiles;
    return trf__add_size(trf__add_size(trf__trainer_layout(&count, &run, layout.n_weights, NULL),
                                       sizeof count + trf__marks_bytes(layout.n_params)),
                         trf__pass_memory(config, &limits, options, &device));
}

TRF__FN void trf__trainer_close(trf_trainer *t)
{
    const trf__run *run = &t->pass.run;
    trf__free(&t->options.hooks, t->missed, trf__marks_bytes(t->model->layout.n_params));
    if (run->backend) run->backend->release(run, t->arena, t->arena_bytes);
    trf__pass_close(&t->pass);
}

TRF_API void trf_trainer_destroy(trf_trainer *trainer)
{
    trf_hooks hooks;
    if (!trainer) return;
    hooks = trainer->options.hooks;
    trf__trainer_close(trainer);
    trf__free(&hooks, trainer, sizeof *trainer);
}

/* Memory for gradients and moments, all zero, and the tiles. */
TRF__FN trf_status trf__trainer_arena(trf_trainer *t, trf_error *err)
{
    const trf__run *run = &t->pass.run;
    const trf__layout *layout = &t->model->layout;
    t->missed = (int64_t *)trf__alloc(&t->options.hooks, trf__marks_bytes(layout->n_params));
    if (!t->missed)
        return trf__fail(err, TRF_E_NOMEM, -1, "trainer", "no memory for %d marks", (int)layout->n_params);
    memset(t->missed, 0, trf__marks_bytes(layout->n_params));
    t->frozen = (char *)(t->missed + layout->n_params);
    memset(t->frozen, '0', (size_t)layout->n_params);
    t->n_tiles = layout->n_tiles;
    t->arena_bytes = trf__trainer_layout(t, run, layout->n_weights, NULL);
    t->arena = (char *)trf__device_zeroed(run, t->arena_bytes);
    if (!t->arena)
        return trf__fail(err, TRF_E_NOMEM, -1, "gradients", "no memory for gradients and moments of %lld weights",
                         (long long)layout->n_weights);
    trf__trainer_layout(t, run, layout->n_weights, t->arena);
    trf__cut_tiles(t, t->options.decay_all);
    t->pass.gradients = t->gradients;
    return TRF_OK;
}

/* What cannot end well, but is no error. */
TRF__FN void trf__warn_of_options(const trf_trainer *t)
{
    const trf_train_options *o = &t->options;
    const trf_config *c = &t->model->config;
    double peak = trf_learning_rate(o, c->d_model, o->warmup);
    char text[320];
    if (peak < 1e-5) {
        snprintf(text, sizeof text, "the learning rate is at most %.3g, with which hardly any model learns%s", peak,
                 o->schedule == TRF_NOAM ? ": for TRF_NOAM learning_rate is no rate but a factor, about 1"
                                         : ": 1e-3 is a start");
        trf__log(&o->hooks, TRF_LOG_WARNING, text);
    }
    if (c->embedding_init == TRF_EMBEDDING_NORMAL_1 && c->scale_embeddings && c->positions != TRF_POSITIONS_NONE) {
        snprintf(text, sizeof text, "embeddings of deviation 1 (TRF_EMBEDDING_NORMAL_1) times sqrt(d_model) = %.3g "
                 "drown the positions, which are at most 1: a model learns little of order so; "
                 "TRF_EMBEDDING_NORMAL_D, or scale_embeddings 0", sqrt((double)c->d_model));
        trf__log(&o->hooks, TRF_LOG_WARNING, text);
    }
}

/* updates: planned in all, TRF_ENDLESS: nobody knows. */
TRF__FN void trf__warn_of_plan(const trf_trainer *t, int64_t updates)
{
    const trf_train_options *o = &t->options;
    char text[200];
    if (o->warmup <= updates) return;
    snprintf(text, sizeof text, "the learning rate rises for %lld updates, but there %s only %lld: the model will "
             "hardly learn; a tenth of them is enough for warmup", (long long)o->warmup, updates == 1 ? "is" : "are",
             (long long)updates);
    trf__log(&o->hooks, TRF_LOG_WARNING, text);
}

TRF__COLD
TRF_API trf_status trf_trainer_create(trf_trainer **trainer, trf_model *model, const trf_train_options *options,
                                      trf_error *err)
{
    trf_train_options defaults = trf_train_defaults();
    trf_trainer *t;
    trf__limits limits;
    trf_status status;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    *trainer = NULL;
    if (!model) return trf__fail_null(err, "model");
    if (!options) options = &defaults;
    TRF__TRY(trf__train_check(options, &model->config, err));
    t = (trf_trainer *)trf__alloc_zeroed(&options->hooks, sizeof *t);
    if (!t) return trf__fail(err, TRF_E_NOMEM, -1, "trainer", "no memory for a trainer");
    t->model = model;
    t->options = *options;
    limits = trf__train_limits(&model->run, &model->config, options);
    status = trf__pass_open(&t->pass, model, &limits, options, options->threads, &options->hooks, err);
    if (status == TRF_OK) status = trf__trainer_arena(t, err);
    if (status == TRF_OK) trf__pack_weights(&t->pass);
    if (status != TRF_OK) { trf_trainer_destroy(t); return status; }
    trf__warn_of_options(t);
    *trainer = t;
    return TRF_OK;
}

TRF_API int64_t trf_trainer_step(const trf_trainer *trainer) { return trainer ? trainer->step : 0; }
TRF_API const trf_train_options *trf_trainer_options(const trf_trainer *t) { return t ? &t->options : NULL; }

TRF__FN trf_status trf__no_gradients(const trf_trainer *trainer, trf_error *err)
{
    if (trainer->micro == 0) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, trainer->step, "gradients",
                     "%lld micro-batches wait for their optimizer step: end it or discard them",
                     (long long)trainer->micro);
}

/* What a trainer lives in cannot change: its threads, and the memory that it has from its allocator. */
TRF__FN trf_status trf__same_home(const trf_trainer *trainer, const trf_train_options *o, trf_error *err)
{
    const trf_hooks *old = &trainer->options.hooks, *hooks = &o->hooks;
    const trf_device *device = &trainer->model->config.device;
    int have = trf__device_with(device, trainer->options.threads).threads;
    int wanted = trf__device_with(device, o->threads).threads;
    if (wanted != have)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "threads",
                         "the trainer has %d threads and keeps them, got %d", have, wanted);
    if (hooks->alloc == old->alloc && hooks->free == old->free && (!old->alloc || hooks->user == old->user))
        return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, "hooks", "the trainer keeps its allocator, got another one");
}

TRF_API trf_status trf_trainer_set_options(trf_trainer *trainer, const trf_train_options *options, trf_error *err)
{
    trf_train_options o = options ? *options : trf_train_defaults();
    trf__pass *pass;
    trf__limits limits;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    pass = &trainer->pass;
    TRF__TRY(trf__no_gradients(trainer, err));
    TRF__TRY(trf__train_check(&o, pass->config, err));
    TRF__TRY(trf__same_home(trainer, &o, err));
    limits = trf__train_limits(&pass->run, pass->config, &o);
    limits.source_rows = trf__max64(limits.source_rows, pass->limits.source_rows);
    limits.target_rows = trf__max64(limits.target_rows, pass->limits.target_rows);
    limits.sentences = trf__max64(limits.sentences, pass->limits.sentences);
    limits.longest = trf__max64(limits.longest, pass->limits.longest);
    if (memcmp(&limits, &pass->limits, sizeof limits) != 0) TRF__TRY(trf__pass_resize(pass, &limits, err));
    if (o.decay_all != trainer->options.decay_all) trf__cut_tiles(trainer, o.decay_all);
    trf__stack_drops(&pass->encoder, &o);
    trf__stack_drops(&pass->decoder, &o);
    pass->options_set++;        /* what has been recorded knows the old ones */
    pass->run.hooks = o.hooks;
    trainer->options = o;
    return TRF_OK;
}

/* What the device has decided over the last update. */
TRF__FN trf_status trf__verdict_of(const trf_trainer *t, trf__verdict *verdict, trf_error *err)
{
    t->pass.run.backend->download(&t->pass.run, verdict, t->verdict, sizeof *verdict);
    return t->pass.run.backend->sync(&t->pass.run, err);
}

/* Whether a whole name fits a pattern. Of several '*' only the last one that was met is ever tried with more. */
TRF__FN int trf__fits(const char *pattern, const char *name)
{
    const char *star = NULL, *tried = NULL;
    while (*name)
        if (*pattern == '*') { star = ++pattern; tried = name; }
        else if (*pattern == *name) { pattern++; name++; }
        else if (star) { pattern = star; name = ++tried; }
        else return 0;
    while (*pattern == '*') pattern++;
    return !*pattern;
}

TRF_API trf_status trf_trainer_freeze(trf_trainer *trainer, const char *pattern, int32_t frozen, int32_t *matched,
                                      trf_error *err)
{
    const trf__layout *layout;
    trf__verdict verdict;
    int32_t i, n = 0;
    if (matched) *matched = 0;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    layout = &trainer->model->layout;
    if (!pattern) return trf__fail_null(err, "pattern");
    TRF__TRY(trf__check_range("frozen", frozen, 0, 1, err));
    TRF__TRY(trf__no_gradients(trainer, err));
    TRF__TRY(trf__verdict_of(trainer, &verdict, err));
    for (i = 0; i < layout->n_params; i++)
        if (trf__fits(pattern, layout->params[i].name)) {
            if (frozen && trainer->frozen[i] == '0') trainer->missed[i] -= verdict.updates;
            if (!frozen && trainer->frozen[i] == '1') trainer->missed[i] += verdict.updates;
            trainer->frozen[i] = frozen ? '1' : '0';
            n++;
        }
    if (n == 0)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "pattern", "no parameter of the model is called \"%.80s\"",
                         pattern);
    trf__cut_tiles(trainer, trainer->options.decay_all);
    if (matched) *matched = n;
    return TRF_OK;
}

TRF_API int trf_trainer_is_frozen(const trf_trainer *trainer, int32_t index)
{
    return trainer && index >= 0 && index < trainer->model->layout.n_params && trainer->frozen[index] == '1';
}

TRF_API trf_tensor trf_trainer_parameter(trf_trainer *trainer, int32_t index)
{
    if (trainer) trainer->written = 1;
    return trf_parameter(trainer ? trainer->model : NULL, index);
}

TRF_API trf_tensor trf_gradient(trf_trainer *trainer, int32_t index)
{
    if (!trainer) return trf_parameter(NULL, index);
    return trf__param_view(trainer->model, &trainer->pass.run, trainer->gradients, index);
}

// >>step           one update, in two halves
//
// Nothing here waits for the device, but to fill in a report that was asked for.

TRF__FN void trf__report_clear(trf_step_report *report) { if (report) memset(report, 0, sizeof *report); }

TRF__FN void trf__report_means(trf_step_report *report, const trf__sums *sums, double source_tokens)
{
    double n = sums->tokens > 0 ? sums->tokens : 1;
    report->loss = sums->loss / n;
    report->nll = sums->nll / n;
    report->accuracy = sums->correct / n;
    report->target_tokens = (int64_t)(sums->tokens + 0.5);
    report->source_tokens = (int64_t)(source_tokens + 0.5);
}

/* The report of one batch, from the sums that its loss has left. */
TRF__FN trf_status trf__report_batch(const trf__pass *pass, trf_step_report *report, int64_t step, trf_error *err)
{
    trf__sums sums;
    if (!report) return TRF_OK;
    pass->run.backend->download(&pass->run, &sums, pass->sums, sizeof sums);
    TRF__TRY(pass->run.backend->sync(&pass->run, err));
    trf__report_means(report, &sums, pass->now.source_tokens);
    report->step = step;
    return TRF_OK;
}

TRF_API void trf_discard_gradients(trf_trainer *trainer)
{
    if (!trainer) return;
    trainer->micro = trainer->sentences = trainer->target_rows = 0;
    if (trainer->before.corpus == trainer->begin.corpus) trainer->begin = trainer->before;
    trainer->behind = trainer->begin;           /* their batches are still to come */
}

TRF_API void trf_end_step(trf_trainer *trainer)
{
    if (!trainer) return;
    trainer->begin = trainer->before = trainer->behind;
    trf_discard_gradients(trainer);
    trainer->step++;
}

/* What the ops of a batch are made from. Limits say where things are in an arena. */
TRF__FN trf__shape trf__pass_shape(const trf__pass *pass)
{
    const trf__stack *from = &pass->encoder, *to = &pass->decoder;
    const trf__limits *l = &pass->limits;
    trf__shape shape = { { (int64_t)(intptr_t)pass->arena, (int64_t)(intptr_t)pass->device_block, pass->first,
                           l->source_rows, l->target_rows, l->sentences, l->longest,
                           from->rows, from->n_self, from->n_groups, from->most_queries,
                           to->rows, to->n_self, to->n_groups, to->most_queries, pass->options_set } };
    return shape;
}

/* All ops of a batch, asked for one by one or played again. */
TRF__FN trf_status trf__pass_train(trf__pass *pass, const trf_train_options *o, trf_error *err)
{
    const trf__run *run = &pass->run;
    trf__shape shape = trf__pass_shape(pass);
    trf_status status;
    TRF__TRY(trf__cancel_status(&run->hooks, err));
    do {
        if (run->backend->replay(run, &shape)) return TRF_OK;
        status = trf__pass_forward(pass, err);
        if (status == TRF_OK) status = trf__pass_backward(pass, o, pass->first, err);
    } while (!run->backend->asked(run, status == TRF_OK));
    return status;
}

TRF__FN trf_status trf__micro_batch(trf_trainer *trainer, const trf_batch *batch, trf_error *err)
{
    trf__pass *pass = &trainer->pass;
    const trf_train_options *o = &trainer->options;
    trf_status status;
    int64_t room = INT32_MAX - trainer->sentences - trf__max64(batch->source.count, batch->target.count);
    if (batch->ordinal < 0 || batch->ordinal > room)
        return trf__fail(err, TRF_E_INVALID_ARG, batch->ordinal, "ordinal",
                         "ordinal must be between 0 and %lld (pairs of a step are numbered in 31 bits), got %lld",
                         (long long)room, (long long)batch->ordinal);
    pass->now.key0 = (uint32_t)o->seed;
    pass->now.key1 = (uint32_t)(o->seed >> 32);
    pass->now.step = (uint32_t)(trainer->step + 1);
    pass->now.learning_rate = trf_learning_rate(o, pass->config->d_model, trainer->step + 1);
    TRF__TRY(trf__pass_sides(pass, batch, pass->sides, batch->ordinal + trainer->sentences, err));
    pass->first = trainer->micro == 0;
    if (pass->first && trainer->written) trf__pack_weights(pass);
    pass->run.now = (const trf__now *)(const void *)pass->device_block;
    status = trf__pass_train(pass, o, err);
    pass->run.now = NULL;
    TRF__TRY(status);
    trainer->micro++;
    trainer->sentences += pass->n_sentences;
    trainer->target_rows += pass->target_rows;
    return TRF_OK;
}

/* The trainer's places in the data after a batch. One from nowhere moves nothing. One that is refused is done with,
   if it is of the data that the trainer is in; one that is cancelled is not. */
TRF__FN void trf__keep_place(trf_trainer *t, trf_place place, int first, trf_status status)
{
    int refused = status != TRF_OK && status != TRF_E_CANCELLED;
    if (first) t->before = t->behind;
    if (place.corpus == 0) return;
    if (refused && t->behind.corpus != 0 && t->behind.corpus != place.corpus) return;
    if (first || t->begin.corpus != place.corpus) t->begin = place;
    t->behind = place;
    if (status != TRF_E_CANCELLED && place.batch < INT64_MAX) t->behind.batch++;
}

TRF_API trf_status trf_forward_backward(trf_trainer *trainer, const trf_batch *batch, trf_step_report *report,
                                        trf_error *err)
{
    trf_status status;
    int first;
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!batch) return trf__fail_null(err, "batch");
    first = trainer->micro == 0;
    status = trf__micro_batch(trainer, batch, err);
    trf__keep_place(trainer, batch->place, first, status);
    TRF__TRY(status);
    return trf__report_batch(&trainer->pass, report, trainer->step + 1, err);
}

/* Sums the gradients over all ranks: the last layer first, with the slots behind it; the embeddings last. Then their
   tokens have to be asked for. */
TRF__FN trf_status trf__reduce(trf_trainer *t, double *tokens, trf_error *err)
{
    const trf__layout *layout = &t->model->layout;
    const trf__run *run = &t->pass.run;
    int64_t end = layout->n_weights + TRF__SLOTS, begin;
    int i = t->model->config.encoder_layers + t->model->config.decoder_layers;
    trf_real slots[TRF__SLOTS];
    trf_status status;
    *tokens = (double)t->target_rows;
    if (!t->options.all_reduce) return TRF_OK;
    for (; end > 0; end = begin) {
        begin = i > 0 ? layout->layers[--i].self_in_w : 0;
        if (t->options.all_reduce(t->options.user, t->gradients + begin, (size_t)(end - begin),
                                  run->backend->stream(run)) != 0) {
            trf_discard_gradients(t);
            return trf__fail(err, TRF_E_BACKEND, begin, "all_reduce",
                             "the all_reduce hook failed; the gradients are discarded, nothing was updated");
        }
    }
    run->backend->download(run, slots, t->gradients + layout->n_weights, sizeof slots);
    status = run->backend->sync(run, err);
    if (status != TRF_OK) { trf_discard_gradients(t); return status; }
    *tokens = trf__slot(slots, TRF__SLOT_TOKENS);
    return TRF_OK;
}

/* Decides over the step, and moves the weights. */
TRF__FN void trf__update(const trf_trainer *t)
{
    const trf_train_options *o = &t->options;
    trf__run run = t->pass.run;
    trf__clip clip;
    trf__adam adam;
    run.now = (const trf__now *)(const void *)t->pass.device_block;
    clip.verdict = t->verdict;
    clip.partial = t->partial;
    clip.gradients = t->gradients;
    clip.slots = t->gradients + t->model->layout.n_weights;
    clip.tiles = t->tiles; clip.n_tiles = t->n_tiles;
    clip.clip_norm = o->clip_norm;
    adam.p = t->model->weights; adam.m = t->m; adam.v = t->v; adam.g = t->gradients;
    adam.copy = t->pass.copies;
    adam.tiles = t->tiles; adam.n_tiles = t->n_tiles;
    adam.verdict = t->verdict;
    adam.beta1 = o->beta1; adam.beta2 = o->beta2; adam.epsilon = o->epsilon; adam.weight_decay = o->weight_decay;
    adam.optimizer = (int)o->optimizer; adam.epsilon_rule = (int)o->epsilon_rule;
    run.backend->clip(&run, &clip);
    run.backend->adam(&run, &adam);
}

TRF_API trf_status trf_optimizer_step(trf_trainer *trainer, trf_step_report *report, trf_error *err)
{
    double tokens;
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (trainer->micro == 0)
        return trf__fail(err, TRF_E_STATE, trainer->step, "gradients",
                         "there are no gradients: call trf_forward_backward first");
    TRF__TRY(trf__reduce(trainer, &tokens, err));
    if (!(tokens > 0)) {
        trf_discard_gradients(trainer);
        return trf__fail(err, TRF_E_STATE, trainer->step, "tokens",
                         "the step has no target tokens: nothing to learn from");
    }
    trf__update(trainer);
    trf_end_step(trainer);
    trainer->updated = trainer->step;
    trainer->rate = trainer->pass.now.learning_rate;
    return report ? trf_trainer_report(trainer, report, err) : TRF_OK;
}

/* Name of the parameter that a tile is a piece of. */
TRF__FN const char *trf__tile_name(const trf__layout *layout, int64_t tile)
{
    int32_t i = 0;
    while (i + 1 < layout->n_params && tile >= trf__ceil_div(trf__param_size(&layout->params[i]), TRF__TILE))
        tile -= trf__ceil_div(trf__param_size(&layout->params[i++]), TRF__TILE);
    return layout->params[i].name;
}

TRF_API trf_status trf_trainer_report(const trf_trainer *trainer, trf_step_report *report, trf_error *err)
{
    trf__verdict v;
    const char *blame;
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!report) return trf__fail_null(err, "report");
    if (!trainer->updated) return trf__fail(err, TRF_E_STATE, trainer->step, "report", "there was no update yet");
    TRF__TRY(trf__verdict_of(trainer, &v, err));
    trf__report_means(report, &v.sums, v.source_tokens);
    report->step = trainer->updated;
    report->gradient_norm = v.norm;
    report->learning_rate = trainer->rate;
    report->skipped = v.skipped;
    if (!v.skipped) return TRF_OK;
    blame = v.bad_tile >= 0 ? trf__tile_name(&trainer->model->layout, v.bad_tile)
                            : trf__is_finite(report->loss) ? "gradient_norm" : "loss";
    trf__copy_text(report->tensor, sizeof report->tensor, blame);
    return TRF_OK;
}

TRF_API trf_status trf_train_step(trf_trainer *trainer, const trf_batch *batch, trf_step_report *report,
                                  trf_error *err)
{
    trf__report_clear(report);
    TRF__TRY(trf_forward_backward(trainer, batch, NULL, err));
    return trf_optimizer_step(trainer, report, err);
}

TRF_API trf_status trf_evaluate(trf_trainer *trainer, const trf_batch *batch, trf_step_report *report, trf_error *err)
{
    const trf__run *run;
    trf__loss loss;
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    run = &trainer->pass.run;
    TRF__TRY(trf__pass_sides(&trainer->pass, batch, trainer->pass.sides, 0, err));
    if (trainer->written) trf__pack_weights(&trainer->pass);
    TRF__TRY(trf__pass_forward(&trainer->pass, err));
    loss = trf__pass_loss(&trainer->pass, trainer->options.label_smoothing, (int)trainer->options.smoothing_rule);
    run->backend->cross_entropy(run, &loss);
    return trf__report_batch(&trainer->pass, report, trainer->step, err);
}

/* Where a trainer is that has been somewhere else: `updates` of its steps were not skipped. */
TRF__FN trf_status trf__trainer_moved(trf_trainer *t, int64_t step, int64_t updates, trf_error *err)
{
    trf__verdict verdict;
    if (step < 0 || step > INT64_MAX / 2)
        return trf__fail(err, TRF_E_STATE, step, "trf.step", "the step makes no sense: %lld", (long long)step);
    if (updates < 0 || updates > step)
        return trf__fail(err, TRF_E_STATE, updates, "trf.updates", "expected 0 to %lld updates, got %lld",
                         (long long)step, (long long)updates);
    TRF__ZERO(verdict);
    verdict.updates = updates;
    t->step = step;
    t->pass.run.backend->upload(&t->pass.run, t->verdict, &verdict, sizeof verdict);
    return TRF_OK;
}

// >>updater        the same step over the caller's tensors
//
// An updater is a trainer whose model has no layers, but a vector for each of the caller's tensors, and which never
// runs a pass: the pass only holds what changes from step to step. A step copies weights and gradients into the
// arenas, puts the divisor where a loss would have counted its tokens, and takes the weights back.

struct trf_updater { trf_model model; trf_trainer trainer; };

TRF_API void trf_updater_destroy(trf_updater *updater)
{
    trf_model *m;
    trf_hooks hooks;
    if (!updater) return;
    m = &updater->model;
    hooks = m->config.hooks;
    trf__trainer_close(&updater->trainer);
    m->run.backend->release(&m->run, m->weights, trf__bytes(m->layout.n_weights, sizeof(trf_real)));
    trf__free(&hooks, m->layout.params, trf__bytes(m->layout.n_params, sizeof(trf__param)));
    trf__free(&hooks, updater, sizeof *updater);
}

/* Tensor number i of a list of the caller's, which must have `count` numbers, or 0: one or more. */
TRF__FN trf_status trf__updater_check(const trf_tensor *t, int32_t i, const char *list, int64_t count, trf_error *err)
{
    int64_t n = trf_tensor_count(t);
    if (!t->data)
        return trf__fail(err, TRF_E_INVALID_ARG, i, list, "%s: tensor %d must have data in the host's memory", list,
                         (int)i);
    if (count ? n == count : n >= 1 && n <= (int64_t)1 << 38) return TRF_OK;
    if (!count)
        return trf__fail(err, TRF_E_SHAPE, i, list, "%s: tensor %d must have 1 to 2^38 numbers, got %lld", list,
                         (int)i, (long long)n);
    return trf__fail(err, TRF_E_SHAPE, i, list, "%s: tensor %d must have %lld numbers, got %lld", list, (int)i,
                     (long long)count, (long long)n);
}

TRF__FN trf_status trf__updater_open(trf_updater *u, const trf_tensor *weights, int32_t n, trf_error *err)
{
    trf__layout *layout = &u->model.layout;
    trf_trainer *t = &u->trainer;
    trf__run run = u->model.run;
    char name[sizeof layout->params->name];
    int32_t i;
    layout->params = (trf__param *)trf__alloc_zeroed(&run.hooks, trf__bytes(n, sizeof(trf__param)));
    for (i = 0; layout->params && i < n; i++) {
        snprintf(name, sizeof name, "tensor %d", (int)i);
        if (weights[i].name) trf__copy_text(name, sizeof name, weights[i].name);
        trf__add_param(layout, NULL, 0, name, trf_tensor_count(&weights[i]), 0,
                       weights[i].rank > 1 ? TRF__START_MATRIX : TRF__START_ZERO);
    }
    layout->n_params = n;
    if (!layout->params) return trf__fail(err, TRF_E_NOMEM, -1, "updater", "no memory for %d tensors", (int)n);
    TRF__TRY(trf__model_weights(&u->model, err));
    TRF__TRY(run.backend->open(&run, err));
    t->pass.run = run;
    t->pass.block_bytes = sizeof(trf__now);
    t->pass.device_block = (char *)run.backend->alloc(&run, sizeof(trf__now));
    if (!t->pass.device_block) return trf__fail(err, TRF_E_NOMEM, -1, "updater", "no memory for an updater");
    return trf__trainer_arena(t, err);
}

TRF__COLD
TRF_API trf_status trf_updater_create(trf_updater **updater, const trf_tensor *weights, int32_t n, int32_t d_model,
                                      const trf_train_options *options, const trf_device *device, trf_error *err)
{
    trf_train_options o = options ? *options : trf_train_defaults();
    trf_updater *u;
    trf_config c;
    trf_status status;
    int32_t i;
    TRF__TRY(trf__begin(updater, "updater", err));
    *updater = NULL;
    TRF__ZERO(c);
    c.d_model = d_model;
    c.hooks = o.hooks;
    c.device = device ? *device : trf_device_default();
    if (!weights) return trf__fail_null(err, "weights");
    TRF__TRY(trf__check_range("n", n, 1, 1 << 20, err));
    TRF__TRY(trf__train_check(&o, &c, err));
    TRF__TRY(trf__device_check(&c.device, err));
    c.device = trf__device_with(&c.device, o.threads);
    if (o.schedule == TRF_NOAM) TRF__TRY(trf__check_range("d_model", d_model, 1, 65536, err));
    for (i = 0; i < n; i++) TRF__TRY(trf__updater_check(&weights[i], i, "weights", 0, err));
    c.device.precision = TRF_PRECISION_FLOAT32;
    u = (trf_updater *)trf__alloc_zeroed(&o.hooks, sizeof *u);
    if (!u) return trf__fail(err, TRF_E_NOMEM, -1, "updater", "no memory for an updater");
    u->model.config = c;
    u->model.run = trf__run_on(&c.device, &o.hooks);
    u->trainer.model = &u->model;
    u->trainer.options = o;
    status = trf__updater_open(u, weights, n, err);
    if (status != TRF_OK) { trf_updater_destroy(u); return status; }
    *updater = u;
    return TRF_OK;
}

TRF_API trf_status trf_updater_step(trf_updater *updater, const trf_tensor *weights, const trf_tensor *gradients,
                                    double divisor, trf_step_report *report, trf_error *err)
{
    trf_real slots[TRF__SLOTS] = {0};
    const trf__param *p, *end;
    const trf__run *run;
    trf_trainer *t;
    int32_t i;
    trf__report_clear(report);
    TRF__TRY(trf__begin(updater, "updater", err));
    if (!weights || !gradients) return trf__fail_null(err, weights ? "gradients" : "weights");
    TRF__TRY(trf__check_range("divisor", divisor, divisor == 0 ? 0 : 1e-30, 1e12, err));
    t = &updater->trainer;
    run = &t->pass.run;
    p = updater->model.layout.params;
    end = p + updater->model.layout.n_params;
    for (i = 0; p + i < end; i++) {
        TRF__TRY(trf__updater_check(&weights[i], i, "weights", trf__param_size(p + i), err));
        TRF__TRY(trf__updater_check(&gradients[i], i, "gradients", trf__param_size(p + i), err));
    }
    for (i = 0; p + i < end; i++) {
        size_t bytes = trf__bytes(trf__param_size(p + i), sizeof(trf_real));
        run->backend->upload(run, updater->model.weights + p[i].offset, weights[i].data, bytes);
        run->backend->upload(run, t->gradients + p[i].offset, gradients[i].data, bytes);
    }
    trf__slot_add(slots, TRF__SLOT_TOKENS, divisor);
    run->backend->upload(run, t->gradients + updater->model.layout.n_weights, slots, sizeof slots);
    t->pass.now.learning_rate = trf_learning_rate(&t->options, updater->model.config.d_model, t->step + 1);
    run->backend->upload(run, t->pass.device_block, &t->pass.now, sizeof t->pass.now);
    t->micro = 1;
    t->target_rows = divisor > 0;
    TRF__TRY(trf_optimizer_step(t, report, err));
    for (i = 0; p + i < end; i++)
        run->backend->download(run, weights[i].data, updater->model.weights + p[i].offset,
                               trf__bytes(trf__param_size(p + i), sizeof(trf_real)));
    return run->backend->sync(run, err);
}

TRF_API trf_tensor trf_updater_moment(trf_updater *updater, int32_t index, int32_t second)
{
    trf_trainer *t = updater ? &updater->trainer : NULL;
    if (!t) return trf_parameter(NULL, index);
    return trf__param_view(t->model, &t->pass.run, second ? t->v : t->m, index);
}

TRF_API trf_status trf_updater_steps(const trf_updater *updater, int64_t *step, int64_t *updates, trf_error *err)
{
    trf__verdict verdict;
    if (step) *step = 0;
    if (updates) *updates = 0;
    TRF__TRY(trf__begin(updater, "updater", err));
    TRF__TRY(trf__verdict_of(&updater->trainer, &verdict, err));
    if (step) *step = updater->trainer.step;
    if (updates) *updates = verdict.updates;
    return TRF_OK;
}

TRF_API trf_status trf_updater_set_steps(trf_updater *updater, int64_t step, int64_t updates, trf_error *err)
{
    TRF__TRY(trf__begin(updater, "updater", err));
    return trf__trainer_moved(&updater->trainer, step, updates, err);
}

#endif

// -----------------------------------------------------------------------------------------------
// >>search         the options of a search, and whose rules they are
// -----------------------------------------------------------------------------------------------

/* Names the first option that makes no sense. */
TRF__FN trf_status trf__search_check(const trf_search *search, trf_error *err)
{
    TRF__RANGE(search, beam, 1, TRF__MAX_BEAM);
    TRF__RANGE(search, n_best, 1, search->beam);
    TRF__RANGE(search, length_rule, TRF_LENGTH_RAW, TRF_LENGTH_GNMT);
    TRF__RANGE(search, alpha, 0, 10);
    TRF__RANGE(search, count_eos, 0, 1);
    TRF__RANGE(search, score_prefix, 0, 1);
    TRF__RANGE(search, word_penalty, -1e6, 1e6);
    TRF__RANGE(search, candidates, 1, TRF__MAX_CANDIDATES);
    TRF__RANGE(search, eos_in_top_beam, 0, 1);
    TRF__RANGE(search, shrink, 0, 1);
    TRF__RANGE(search, stop, TRF_STOP_BOUND, TRF_STOP_HEURISTIC);
    TRF__RANGE(search, at_limit, TRF_LIMIT_KEEP_LIVE, TRF_LIMIT_FORCE_EOS);
    TRF__RANGE(search, min_length, 0, INT32_MAX);
    TRF__RANGE(search, renormalise, 0, 1);
    TRF__RANGE(search, ban_unk, 0, 1);
    TRF__RANGE(search, max_length_a, 0, 1e6);
    TRF__RANGE(search, max_length_b, search->max_length_a > 0 ? 0 : 1, INT32_MAX);
    TRF__RANGE(search, max_sentences, 1, INT32_MAX);
    TRF__RANGE(search, max_tokens, 1, INT32_MAX);
    TRF__RANGE(search, threads, 0, TRF__MAX_THREADS);
    return trf__hooks_check(&search->hooks, err);
}

/* Each rule is compared in the tests with a plain program of its own. tensor2tensor stops for the batch as a whole;
   TRF_STOP_BOUND asks for each sentence by itself. fairseq forgets what finishes beyond `beam`: its best answer is
   ours, further ranks may be better here. CTranslate2 with alpha 0 stops when its best continuation is an EOS: set
   stop = TRF_STOP_BOUND for the same answer. In the step behind a forced prefix it takes an EOS only if that is the
   best continuation; here min_length decides. Hugging Face counts neither S nor L of decoder_input_ids; a prefix here
   is one of its prefix_allowed_tokens_fn. Its forced_eos_token_id is a free EOS at the limit: here there is none.
   Marian never says UNK: set ban_unk, which no rule does. */
TRF_API void trf_search_set_rule(trf_search *search, trf_search_rule whose)
{
    int fairseq = whose == TRF_SEARCH_FAIRSEQ, ctranslate2 = whose == TRF_SEARCH_CTRANSLATE2;
    int marian = whose == TRF_SEARCH_MARIAN, raw = whose == TRF_SEARCH_RAW;
    int hugging_face = whose == TRF_SEARCH_HUGGING_FACE;
    int paper = !fairseq && !ctranslate2 && !marian && !raw && !hugging_face;
    search->length_rule = paper ? TRF_LENGTH_GNMT : raw ? TRF_LENGTH_RAW : TRF_LENGTH_POWER;
    search->alpha = paper ? 0.6 : raw ? 0.0 : 1.0;
    search->count_eos = 1;
    search->score_prefix = !paper && !ctranslate2;
    search->word_penalty = 0;
    search->candidates = marian || raw ? 1 : 2;
    search->eos_in_top_beam = !paper;
    search->shrink = marian;
    search->stop = paper ? TRF_STOP_BOUND : marian ? TRF_STOP_NONE_ALIVE
                 : hugging_face ? TRF_STOP_HEURISTIC : TRF_STOP_FINISHED;
    search->at_limit = fairseq ? TRF_LIMIT_FORCE_EOS : paper || raw ? TRF_LIMIT_FALL_BACK : TRF_LIMIT_KEEP_LIVE;
    search->min_length = fairseq || ctranslate2;
    search->renormalise = ctranslate2;
}

TRF_API trf_search trf_search_defaults(void)
{
    trf_search search;
    TRF__ZERO(search);
    search.beam = 4;
    search.n_best = 1;
    trf_search_set_rule(&search, TRF_SEARCH_PAPER);
    search.max_length_a = 2.0;
    search.max_length_b = 20;
    search.max_sentences = 32;
    search.max_tokens = 4096;
    return search;
}

// -----------------------------------------------------------------------------------------------
// >>translate      encode once, then one token a step for all live hypotheses
//
//   rows       the live hypotheses of all sentences still searched, sentence after sentence
//   cache      per decoder layer: keys and values of every token read so far, (slot, 2d); the rows of
//              step t stand at slots t * n_rows + row, and after `length` steps take the place of the oldest ones
//   ancestors  per row: the slots of its own history, one per position. When search re-orders hypotheses,
//              these lists move, the cache never does:
//
//              step 0    step 1    step 2            row 0 of step 3 reads slots 0, 4, 9
//              [0 . . .] [4 5 . .] [8 9 . .]         row 1 of step 3 reads slots 0, 4, 8
//
//   memory     per decoder layer: keys and values of the encoded sources, an area of (rows, 2d) for each place
//              that a sentence may take, made once and shared by all its hypotheses
//
// A token is the decoder's half of >>forward over the live rows, one new token each, with this cache; then every
// sentence's beam chooses (>>beam) and the rows are lined up again (>>line-up). All of it is the device's: the host
// asks for tokens, and looks from time to time which sentences still live. One that is done leaves: its beam comes to
// the host, which reads the answers out of it, and its place goes to one that waits. Memory grows to what the calls
// bring.
// -----------------------------------------------------------------------------------------------

/* What host and device tell each other about a round of searches. There is one on either, in the same order: live and
   progress go to the host, the rest to the device. */
typedef struct trf__searches {
    int32_t *live;                              /* the places of sentences still searched */
    trf__progress *progress;
    trf__arrival *arrivals;
    int32_t *slots;                             /* in memory, for each row of arriving sources */
    int32_t *prefixes;                          /* (places, length) */
} trf__searches;

/* A sentence of a call: its number, where its ids begin, and what counts of its length. */
typedef struct trf__pending { int64_t source, prefix; int32_t sentence, length; } trf__pending;

/* What a search holds besides the activations of its pass: two arenas, laid out from three sizes. */
typedef struct trf__hypotheses {
    int64_t n_places, length, area;             /* of this round: sentences; most tokens read; rows of a source */
    int64_t n_rows;                             /* n_places * beam */
    char *arena, *device_arena;
    size_t bytes, device_bytes;
    /* on the device */
    trf__cache cache;                           /* (layers, length * n_rows, 2d), (layers, n_places * area, 2d) */
    int32_t *ancestors[2];                      /* (n_rows, length), this token's and the next one's */
    trf__lists lists;                           /* (n_rows) what is read next */
    void *top_room;
    char *found;                                /* log-probabilities, then ids, of the candidates of all rows */
    trf__searches there;
    trf__beam *beams;                           /* per place, as are their memory and sources */
    char *beam_memory;                          /* beam_bytes each */
    size_t beam_bytes;
    trf__span *sources;
    int32_t *starts;                            /* per live sentence: its first row */
    /* on the host */
    trf__searches here;
    trf__beam *beams_read;                      /* beams and beam_memory of those that are done, out of reach there */
    char *memory_read;
    int32_t *sentence, *alive;                  /* per place: whose it is, or -1; and whether that one lives */
    int32_t *ids, *lengths;                     /* of the sources that arrive */
} trf__hypotheses;

struct trf_translator {
    const trf_model *model;
    trf_search search;
    trf__pass pass;
    trf__hypotheses hypotheses;
    double *numbers; int64_t numbers_capacity;          /* downloaded */
    trf__room room;                                     /* see >>look-inside */
    /* results of the last call */
    trf_hypothesis *answers; int64_t answers_capacity;  /* n_best places for each sentence */
    int32_t *n_answers; int64_t n_answers_capacity;
    int32_t *ids; int64_t ids_capacity, n_ids;          /* of each answer n and one more, */
    double *own; int64_t own_capacity;                  /* as of their log-probabilities */
    int64_t *first_id; int64_t first_id_capacity;       /* where a sentence's ids begin */
    trf__text_ids text;                                 /* the source of trf_translate_text */
    trf__pending *pending; int64_t pending_capacity;    /* the call's sentences, */
    const void **order; int64_t order_capacity;         /* the longest first */
    int32_t n_sentences;
};

/* Tokens that a search may choose: never pad and bos. */
TRF__FN int64_t trf__choices(const trf_search *s, int64_t vocab) { return vocab - 2 - s->ban_unk; }

/* Candidates of a row, at most. */
TRF__FN int64_t trf__most_candidates(const trf_search *s, int64_t vocab)
{
    return trf__max64(1, trf__min64((int64_t)s->beam * s->candidates + 1, trf__choices(s, vocab)));
}

TRF__FN void trf__take_searches(trf__cursor *cursor, trf__searches *x, const trf__hypotheses *h)
{
    x->live = (int32_t *)trf__take(cursor, h->n_places, sizeof(int32_t));
    x->progress = (trf__progress *)trf__take(cursor, 1, sizeof(trf__progress));
    x->arrivals = (trf__arrival *)trf__take(cursor, h->n_places, sizeof(trf__arrival));
    x->slots = (int32_t *)trf__take(cursor, h->n_places * h->area, sizeof(int32_t));
    x->prefixes = (int32_t *)trf__take(cursor, h->n_places * h->length, sizeof(int32_t));
}

/* Sets bytes and device_bytes; with the arenas, cuts them. Sizes are filled up, so that places come again (>>ops), as
   long as slots have numbers. */
TRF__FN void trf__hypotheses_layout(trf__hypotheses *h, const trf_config *c, const trf_search *s, const trf__run *run)
{
    int64_t n = run->backend->fill(run, h->n_places) * s->beam, width = 2 * (int64_t)c->d_model;
    int64_t length = run->backend->fill(run, h->length);
    trf__cursor device = trf__cursor_at(h->device_arena), host = trf__cursor_at(h->arena);
    size_t found = trf__bytes(trf__most_candidates(s, c->target_vocab), sizeof(double) + sizeof(int32_t));
    trf__lists *l = &h->lists;
    trf__beam beam;
    int i, on_host = run->backend->on_host;
    if (n > INT32_MAX / length) { n = h->n_places * s->beam; length = h->length; }
    h->n_rows = n;
    h->n_places = n / s->beam;
    h->length = length;
    h->area = trf__round_up(h->area, 16);
    h->cache.area = h->area;
    h->cache.self_layer = h->length * n * width;
    h->cache.cross_layer = h->n_places * h->area * width;
    h->cache.self = (trf__act *)trf__take(&device, c->decoder_layers, trf__bytes(h->cache.self_layer, run->element));
    h->cache.cross = (trf__act *)trf__take(&device, c->decoder_layers,
                                           trf__bytes(h->cache.cross_layer, run->element));
    for (i = 0; i < 2; i++) h->ancestors[i] = (int32_t *)trf__take(&device, n * h->length, sizeof(int32_t));
    l->ids = (int32_t *)trf__take(&device, n, sizeof(int32_t));
    l->position = (int32_t *)trf__take(&device, n, sizeof(int32_t));
    l->only = (int32_t *)trf__take(&device, n, sizeof(int32_t));
    l->parents = (int32_t *)trf__take(&device, n, sizeof(int32_t));
    l->slots = (int32_t *)trf__take(&device, n, sizeof(int32_t));
    l->self = (trf__span *)trf__take(&device, n, sizeof(trf__span));
    l->cross = (trf__span *)trf__take(&device, h->n_places, sizeof(trf__span));
    h->top_room = trf__take(&device, 1, run->backend->top_room(&run->device, n, c->target_vocab,
                                                               trf__most_candidates(s, c->target_vocab)));
    h->found = (char *)trf__take(&device, n, found);
    h->beam_bytes = trf__beam_layout(&beam, s, (int32_t)h->length, NULL);
    h->beams = (trf__beam *)trf__take(&device, h->n_places, sizeof(trf__beam));
    h->beam_memory = (char *)trf__take(&device, h->n_places, h->beam_bytes);
    h->sources = (trf__span *)trf__take(&device, h->n_places, sizeof(trf__span));
    h->starts = (int32_t *)trf__take(&device, h->n_places, sizeof(int32_t));
    trf__take_searches(&device, &h->there, h);
    trf__take_searches(&host, &h->here, h);
    h->beams_read = (trf__beam *)trf__take(&host, on_host ? 0 : h->n_places, sizeof(trf__beam));
    h->memory_read = (char *)trf__take(&host, on_host ? 0 : h->n_places, h->beam_bytes);
    h->sentence = (int32_t *)trf__take(&host, h->n_places, sizeof(int32_t));
    h->alive = (int32_t *)trf__take(&host, h->n_places, sizeof(int32_t));
    h->ids = (int32_t *)trf__take(&host, h->n_places * h->area, sizeof(int32_t));
    h->lengths = (int32_t *)trf__take(&host, h->n_places, sizeof(int32_t));
    h->bytes = host.used;
    h->device_bytes = device.used;
}

TRF__FN void trf__hypotheses_free(trf_translator *t)
{
    const trf__run *run = &t->pass.run;
    run->backend->release(run, t->hypotheses.device_arena, t->hypotheses.device_bytes);
    trf__free(&run->hooks, t->hypotheses.arena, t->hypotheses.bytes);
    TRF__ZERO(t->hypotheses);
}

/* Lays everything out for a round: places for so many sentences, answers of `length` tokens, sources of up to `area`
   rows. Nothing in it outlives a round, so the arenas are cut anew each time, and replaced only if they are too
   small: the old ones go first, or both would have to fit. On failure there are none, until the next call. */
TRF__FN trf_status trf__hypotheses_reserve(trf_translator *t, int64_t places, int64_t length, int64_t area,
                                           trf_error *err)
{
    const trf__run *run = &t->pass.run;
    trf__hypotheses old = t->hypotheses, h;
    TRF__ZERO(h);
    h.n_places = places;
    h.length = length;
    h.area = area;
    trf__hypotheses_layout(&h, &t->model->config, &t->search, run);
    if (h.bytes > old.bytes || h.device_bytes > old.device_bytes) {
        trf__hypotheses_free(t);
        h.arena = (char *)trf__alloc(&run->hooks, h.bytes);
        h.device_arena = (char *)run->backend->alloc(run, h.device_bytes);
        t->hypotheses = old = h;
        if (!h.arena || !h.device_arena) {
            trf__hypotheses_free(t);
            return trf__fail(err, TRF_E_NOMEM, -1, "cache",
                             "no memory for the %llu bytes that %lld hypotheses of %lld tokens need",
                             (unsigned long long)trf__add_size(h.bytes, h.device_bytes), (long long)h.n_rows,
                             (long long)length);
        }
    }
    h.arena = old.arena;
    h.device_arena = old.device_arena;
    trf__hypotheses_layout(&h, &t->model->config, &t->search, run);
    h.bytes = old.bytes;
    h.device_bytes = old.device_bytes;
    t->hypotheses = h;
    return TRF_OK;
}

TRF__COLD
TRF_API void trf_translator_destroy(trf_translator *t)
{
    trf_hooks hooks;
    const trf__run *run;
    if (!t) return;
    hooks = t->search.hooks;
    run = &t->pass.run;
    if (run->backend) {
        trf__hypotheses_free(t);
        run->backend->release(run, t->room.memory, t->room.bytes);
    }
    trf__pass_close(&t->pass);
    trf__free(&hooks, t->numbers, trf__bytes(t->numbers_capacity, sizeof *t->numbers));
    trf__free(&hooks, t->answers, trf__bytes(t->answers_capacity, sizeof *t->answers));
    trf__free(&hooks, t->n_answers, trf__bytes(t->n_answers_capacity, sizeof *t->n_answers));
    trf__free(&hooks, t->ids, trf__bytes(t->ids_capacity, sizeof *t->ids));
    trf__free(&hooks, t->own, trf__bytes(t->own_capacity, sizeof *t->own));
    trf__free(&hooks, t->first_id, trf__bytes(t->first_id_capacity, sizeof *t->first_id));
    trf__free(&hooks, t->text.ids, trf__bytes(t->text.capacity, sizeof *t->text.ids));
    trf__free(&hooks, t->pending, trf__bytes(t->pending_capacity, sizeof *t->pending));
    trf__free(&hooks, t->order, trf__bytes(t->order_capacity, sizeof *t->order));
    trf__free(&hooks, t, sizeof *t);
}

/* What a new translator is made for: a few short sentences. */
TRF__FN trf__limits trf__translator_limits(const trf_config *c, const trf_search *s)
{
    trf__limits limits;
    limits.source_rows = trf__has_source(c) ? trf__min64(s->max_tokens, 256) : 0;
    limits.target_rows = limits.sentences = s->beam;
    limits.longest = trf__min64(c->max_length, 256);
    limits.recompute = 0;
    return limits;
}

TRF__COLD
TRF_API trf_status trf_translator_create(trf_translator **translator, const trf_model *model,
                                         const trf_search *search, trf_error *err)
{
    trf_search defaults = trf_search_defaults();
    trf_translator *t;
    trf__limits limits;
    trf_status status;
    TRF__TRY(trf__begin(translator, "translator", err));
    *translator = NULL;
    if (!model) return trf__fail_null(err, "model");
    if (!search) search = &defaults;
    TRF__TRY(trf__search_check(search, err));
    t = (trf_translator *)trf__alloc_zeroed(&search->hooks, sizeof *t);
    if (!t) return trf__fail(err, TRF_E_NOMEM, -1, "translator", "no memory for a translator");
    t->model = model;
    t->search = *search;
    limits = trf__translator_limits(&model->config, search);
    status = trf__pass_open(&t->pass, model, &limits, NULL, search->threads, &search->hooks, err);
    if (status != TRF_OK) { trf_translator_destroy(t); return status; }
    *translator = t;
    return TRF_OK;
}

// >>decode         one token for all live rows
//
// Each row is a sequence of one query, whose keys are its ancestors; all rows of a sentence ask the rows of its
// source.

/* The op that lets all sentences choose, or `begin` of them begin. */
TRF__FN trf__advance trf__advance_of(const trf_translator *t, int64_t wanted, int32_t begin)
{
    const trf__hypotheses *h = &t->hypotheses;
    const trf__stack *stack = &t->pass.decoder;
    trf__advance a;
    a.beams = h->beams; a.sources = h->sources; a.live = h->there.live; a.starts = h->starts;
    a.progress = h->there.progress; a.arrivals = h->there.arrivals;
    a.log_probabilities = (const double *)(const void *)h->found;
    a.found = (const int32_t *)(const void *)(a.log_probabilities + stack->rows * wanted);
    a.ids = h->lists.ids; a.parents = h->lists.parents; a.position = h->lists.position;
    a.only = h->lists.only; a.slots = h->lists.slots; a.self = h->lists.self;
    a.cross = t->pass.sides & TRF__SOURCE ? h->lists.cross : NULL;
    a.wanted = wanted; a.rows = stack->rows; a.n_cross = stack->n_cross; a.n_rows = h->n_rows;
    a.columns = h->length; a.start = trf__start_id(&t->model->config); a.begin = begin;
    return a;
}

/* Token number `at`: the best `wanted` continuations of every row, and what the searches make of them. */
TRF__FN trf_status trf__decode(trf_translator *t, int64_t at, int64_t wanted, trf_error *err)
{
    trf__hypotheses *h = &t->hypotheses;
    const trf_config *c = &t->model->config;
    const trf__run *run = &t->pass.run;
    const trf__stack *stack = &t->pass.decoder;
    trf__advance next = trf__advance_of(t, wanted, 0);
    trf__ancestors a;
    trf__top top;
    a.to = h->ancestors[at & 1]; a.from = h->ancestors[~at & 1];
    a.parents = h->lists.parents; a.position = h->lists.position; a.slots = h->lists.slots;
    a.rows = stack->rows; a.stride = h->length;
    run->backend->ancestors(run, &a);
    h->cache.ancestors = a.to;
    h->cache.stride = h->length;
    TRF__TRY(trf__stack_forward(&t->pass, &t->pass.decoder, err));
    top.log_probabilities = (double *)(uintptr_t)next.log_probabilities;
    top.ids = (int32_t *)(uintptr_t)next.found;
    top.room = h->top_room;
    top.x = stack->out;
    top.w = trf__weight(&t->pass, t->pass.layout->whole.generator_w);
    top.bias = trf__generator_bias(&t->pass);
    top.rows = stack->rows; top.vocab = c->target_vocab; top.d = c->d_model; top.n = wanted;
    top.banned[0] = c->pad; top.banned[1] = c->bos; top.banned[2] = t->search.ban_unk ? c->unk : -1;
    top.only = h->lists.only; top.eos = c->eos;
    run->backend->top(run, &top);
    run->backend->advance(run, &next);
    return TRF_OK;
}

// >>rounds         sentences searched together
//
// A call's sentences are taken the longest first, in rounds. A round has places for as many of its longest as
// max_sentences and max_tokens allow, and no more than the cache has slots for: they are numbered by int32_t. (One
// sentence cannot need them all: 1,024 rows of 2^20 tokens.) Until none lives and none waits: take in those that
// wait, if there is room, and encode their sources; decode a token for all rows (>>decode), let every sentence's beam
// choose (>>beam), line the rows up again; store the answers of those that are done. Where those that wait are so
// short that there could be twice as many places, the next round begins.

/* A round: sentences number first .. end - 1 in their order. */
typedef struct trf__round {
    const trf_sequences *sources, *prefixes;        /* of the call, or NULL */
    int32_t first, end, next;                       /* next: the first that waits */
    int32_t n, taken;                               /* places, and how many of them are */
    int64_t longest_source, longest;    /* rows of a source; tokens of an answer, at least 1 */
} trf__round;

/* Most tokens of an answer, EOS not counted. The lengths are 0 where there is no source, or no prefix. */
TRF__FN int64_t trf__answer_limit(const trf_config *c, const trf_search *s, int32_t n_source, int32_t n_prefix)
{
    double counted = trf__has_source(c) ? n_source : n_prefix;
    double limit = s->max_length_a * counted + s->max_length_b + (trf__has_source(c) ? 0 : n_prefix);
    return trf__max64(n_prefix, limit < c->max_length - 1 ? (int64_t)limit : c->max_length - 1);
}

TRF__FN int32_t trf__length_of(const trf_sequences *x, int32_t i) { return x && x->count ? x->lengths[i] : 0; }

/* What a round needs of the pass. */
TRF__FN trf__limits trf__round_limits(const trf__round *round, const trf_search *s)
{
    trf__limits need;
    need.source_rows = round->n * round->longest_source;
    need.target_rows = need.sentences = (int64_t)round->n * s->beam;
    need.longest = trf__max64(round->longest + 1, round->longest_source);
    need.recompute = 0;
    return need;
}

/* Makes room for the round. */
TRF__FN trf_status trf__round_open(trf_translator *t, const trf__round *round, trf_error *err)
{
    trf__progress nothing = { 0, 0, 0, 1 };
    trf__limits need = trf__round_limits(round, &t->search);
    trf__hypotheses *h = &t->hypotheses;
    int32_t i;
    TRF__TRY(trf__pass_reserve(&t->pass, &need, err));
    TRF__TRY(trf__hypotheses_reserve(t, round->n, round->longest + 1, round->longest_source, err));
    *h->here.progress = nothing;
    for (i = 0; i < round->n; i++) h->sentence[i] = -1;
    return TRF_OK;
}

/* Sentence w arrives at a place; its source is number `k` of those that arrive with it, in rows from `row` on.
   Returns the row behind them. */
TRF__FN int64_t trf__round_arrival(trf_translator *t, const trf__round *round, const trf__pending *w, int32_t place,
                                   int32_t k, int64_t row)
{
    const trf_config *c = &t->model->config;
    trf__hypotheses *h = &t->hypotheses;
    trf__arrival *arrival = &h->here.arrivals[k];
    int32_t n_source = trf__length_of(round->sources, w->sentence), i;
    int32_t n_prefix = trf__length_of(round->prefixes, w->sentence);
    int32_t rows = round->sources ? n_source + c->source_eos : 0;
    int64_t at = place * h->length;
    TRF__ZERO(*arrival);
    arrival->place = place;
    arrival->source.key = (int32_t)(place * h->area);
    arrival->source.n_key = rows;
    trf__beam_layout(&arrival->beam, &t->search, (int32_t)h->length, h->beam_memory + (size_t)place * h->beam_bytes);
    trf__beam_sentence(&arrival->beam, (int32_t)trf__answer_limit(c, &t->search, n_source, n_prefix),
                       h->there.prefixes + at, n_prefix, c->eos, (int32_t)trf__choices(&t->search, c->target_vocab));
    if (!trf__has_source(c))
        arrival->beam.least = (int32_t)trf__min64((int64_t)arrival->beam.least + n_prefix, INT32_MAX);
    if (n_prefix) memcpy(h->here.prefixes + at, round->prefixes->ids + w->prefix, (size_t)n_prefix * sizeof(int32_t));
    if (n_source) memcpy(h->ids + row - k * c->source_eos, round->sources->ids + w->source,
                         (size_t)n_source * sizeof(int32_t));
    h->lengths[k] = n_source;
    for (i = 0; i < rows; i++) h->here.slots[row + i] = (int32_t)(place * h->area + i);
    h->sentence[place] = w->sentence;
    return row + rows;
}

/* Encodes sources, and remembers the keys and values that every token will read in the cache's slots. */
TRF__FN trf_status trf__encode_into(trf__pass *pass, const trf__cache *cache, const int32_t *slots,
                                    const int32_t *ids, const int32_t *lengths, int32_t n, trf_error *err)
{
    trf_batch batch;
    int32_t i;
    TRF__ZERO(batch);
    batch.source.ids = ids;
    batch.source.lengths = lengths;
    batch.source.count = n;
    pass->cache = NULL;
    TRF__TRY(trf__pass_sides(pass, &batch, TRF__SOURCE, 0, err));
    TRF__TRY(trf__stack_forward(pass, &pass->encoder, err));
    for (i = 0; i < pass->config->decoder_layers; i++) {
        trf__work sub = trf__work_of(pass, &pass->decoder, &pass->decoder.sublayers[3 * i + 1]);
        trf__remember r;
        trf__project_memory(&pass->run, &sub, pass->encoder.out);
        r.cache = trf__act_at(&pass->run, cache->cross, i * cache->cross_layer);
        r.fresh = sub.fresh; r.slots = slots;
        r.rows = sub.memory_rows; r.width = 2 * sub.d; r.area = cache->area;
        pass->run.backend->remember(&pass->run, &r);
    }
    return TRF_OK;
}

/* As many rows as there is room for, in the lists and in the activations. */
TRF__FN int64_t trf__round_places(const trf_translator *t)
{
    return trf__min64(t->hypotheses.n_rows, t->pass.limits.target_rows);
}

/* Takes in as many sentences that wait as there are places, and begins their searches. */
TRF__FN trf_status trf__round_admit(trf_translator *t, trf__round *round, trf_error *err)
{
    const trf__run *run = &t->pass.run;
    trf__hypotheses *h = &t->hypotheses;
    trf__stack *stack = &t->pass.decoder;
    trf__searches *x = &h->here;
    char *first = (char *)(void *)x->live, *from = (char *)(void *)x->arrivals, *end = (char *)(void *)x->prefixes;
    int32_t n = 0, place;
    int64_t rows = 0;
    trf__advance begin;
    for (place = 0; place < round->n && round->next < round->end; place++)
        if (h->sentence[place] < 0)
            rows = trf__round_arrival(t, round, (const trf__pending *)t->order[round->next++], place, n++, rows);
    if (round->next - n == round->first) from = (char *)(void *)x->progress;
    if (round->prefixes) end = (char *)(void *)(x->prefixes + h->n_places * h->length);
    round->taken += n;
    run->backend->upload(run, (char *)(void *)h->there.live + (from - first), from, (size_t)(end - from));
    if (round->sources)
        TRF__TRY(trf__encode_into(&t->pass, &h->cache, h->there.slots, h->ids, h->lengths, n, err));
    t->pass.encoder.rows = t->pass.encoder.n_self = 0;
    t->pass.cache = &h->cache;
    stack->rows = trf__round_places(t);
    stack->n_cross = round->sources ? h->n_places : 0;
    stack->most_queries = t->search.beam;
    stack->most_keys = h->length;
    stack->most_memory = round->longest_source;
    stack->device = h->lists;
    begin = trf__advance_of(t, 1, n);
    run->backend->advance(run, &begin);
    return TRF_OK;
}

/* Stores the answers of the sentence at a place, which is free then. */
TRF__FN trf_status trf__round_store(trf_translator *t, trf__round *round, int32_t place, trf_error *err)
{
    trf__hypotheses *h = &t->hypotheses;
    int on_host = t->pass.run.backend->on_host;
    trf__beam *beam = on_host ? &h->beams[place] : &h->beams_read[place];
    int32_t sentence = h->sentence[place];
    int64_t room;
    if (!on_host) trf__beam_places(beam, (int32_t)h->length, h->memory_read + (size_t)place * h->beam_bytes);
    room = trf__beam_ids(beam);
    TRF__GROW(int32_t, t->ids, t->ids_capacity, t->n_ids + room, &t->search.hooks);
    TRF__GROW(double, t->own, t->own_capacity, t->n_ids + room, &t->search.hooks);
    t->first_id[sentence] = t->n_ids;
    t->n_answers[sentence] = trf__beam_finish(beam, t->answers + (int64_t)sentence * t->search.n_best,
                                              t->ids + t->n_ids, t->own + t->n_ids);
    t->n_ids += room;
    h->sentence[place] = -1;
    round->taken--;
    return TRF_OK;
}

/* Stores the answers of all sentences that do not live any more. */
TRF__FN trf_status trf__round_collect(trf_translator *t, trf__round *round, trf_error *err)
{
    trf__hypotheses *h = &t->hypotheses;
    const trf__run *run = &t->pass.run;
    int32_t place, k;
    for (place = 0; place < round->n; place++) h->alive[place] = h->sentence[place] < 0;
    for (k = 0; k < h->here.progress->n_live; k++) h->alive[h->here.live[k]] = 1;
    for (place = 0; place < round->n && !run->backend->on_host; place++) {
        if (h->alive[place]) continue;
        run->backend->download(run, &h->beams_read[place], &h->beams[place], sizeof(trf__beam));
        run->backend->download(run, h->memory_read + (size_t)place * h->beam_bytes,
                               h->beam_memory + (size_t)place * h->beam_bytes, h->beam_bytes);
    }
    if (!run->backend->on_host) TRF__TRY(run->backend->sync(run, err));
    for (place = 0; place < round->n; place++)
        if (!h->alive[place]) TRF__TRY(trf__round_store(t, round, place, err));
    return TRF_OK;
}

/* How the searches stand, which says how many rows, sentences and candidates the next tokens are asked for with: as
   many as there are, or, where several are asked for before the next look, as many as there can be. */
TRF__FN trf_status trf__round_look(trf_translator *t, trf__round *round, int64_t *wanted, trf_error *err)
{
    const trf__hypotheses *h = &t->hypotheses;
    const trf__run *run = &t->pass.run;
    trf__stack *stack = &t->pass.decoder;
    trf__progress *now = h->here.progress;
    int64_t n_cross;
    run->backend->download(run, h->here.live, h->there.live,
                           (size_t)((char *)(now + 1) - (char *)(void *)h->here.live));
    TRF__TRY(run->backend->sync(run, err));
    if (now->n_live < round->taken) TRF__TRY(trf__round_collect(t, round, err));
    stack->rows = now->rows;
    n_cross = now->n_live;
    *wanted = now->wanted;
    if (run->backend->ahead > 1) {
        stack->rows = trf__min64(run->backend->fill(run, n_cross * t->search.beam), trf__round_places(t));
        n_cross = trf__min64(run->backend->fill(run, n_cross), h->n_places);
        *wanted = trf__most_candidates(&t->search, t->model->config.target_vocab);
    }
    stack->n_self = stack->rows;
    stack->n_cross = round->sources ? n_cross : 0;
    return TRF_OK;
}

/* Whether sentences are taken in now: few at a time cost as much to encode as many. */
TRF__FN int trf__round_admits(const trf__round *round)
{
    return round->next < round->end && 8 * (int64_t)(round->n - round->taken) >= round->n;
}

/* What the ops of a token are made from. */
TRF__FN trf__shape trf__decode_shape(const trf_translator *t, int64_t at, int64_t wanted)
{
    const trf__hypotheses *h = &t->hypotheses;
    const trf__limits *l = &t->pass.limits;
    trf__shape shape = { { (int64_t)(intptr_t)t->pass.arena, (int64_t)(intptr_t)h->device_arena, at & 1,
                           l->source_rows, l->target_rows, l->sentences, l->longest,
                           h->n_rows, h->length, h->area, t->pass.decoder.rows, t->pass.decoder.n_cross,
                           wanted, 0, 0, 0 } };
    return shape;
}

TRF__FN trf_status trf__round_search(trf_translator *t, trf__round *round, trf_error *err)
{
    const trf__run *run = &t->pass.run;
    trf_status status = TRF_OK;
    int64_t at, wanted = 1;
    for (at = 0; status == TRF_OK; at++) {
        trf__shape shape;
        int look = at % run->backend->ahead == 0;
        while (look && status == TRF_OK) {
            if (trf__round_admits(round)) status = trf__round_admit(t, round, err);
            if (status == TRF_OK) status = trf__round_look(t, round, &wanted, err);
            look = trf__round_admits(round);
        }
        if (status != TRF_OK || round->taken == 0) break;
        shape = trf__decode_shape(t, at, wanted);
        status = trf__cancel_status(&run->hooks, err);
        while (status == TRF_OK && !run->backend->replay(run, &shape)) {
            status = trf__decode(t, at, wanted, err);
            if (run->backend->asked(run, status == TRF_OK)) break;
        }
    }
    t->pass.cache = NULL;
    return status;
}

TRF__FN void trf__forget_answers(trf_translator *t) { t->n_sentences = 0; t->n_ids = 0; }

/* A call's sentences, the longest first, among equals in their order. */
TRF__FN int trf__by_length(const void *context, const void *a, const void *b)
{
    const trf__pending *x = (const trf__pending *)a, *y = (const trf__pending *)b;
    (void)context;
    return x->length != y->length ? (x->length > y->length ? -1 : 1) : x->sentence < y->sentence ? -1 : 1;
}

/* Checks a call, makes room for its answers, and puts its sentences in order. */
TRF__FN trf_status trf__search_prepare(trf_translator *t, const trf_sequences *sources, const trf_sequences *prefixes,
                                       trf_error *err)
{
    const trf_config *c = &t->model->config;
    int64_t rows = 0, most = 0, source = 0, prefix = 0;
    int32_t n = sources ? sources->count : prefixes->count, i;
    if (sources)
        TRF__TRY(trf__check_side(c, sources, c->source_vocab, 0, c->source_eos, "source", &rows, &most, err));
    if (prefixes) TRF__TRY(trf__check_side(c, prefixes, c->target_vocab, !c->target_eos, 1,
                                           sources ? "prefix" : "source", &rows, &most, err));
    if (prefixes && prefixes->count != n)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "prefixes", "expected a prefix for each of %d source%s, got %d",
                         n, trf__plural(n), prefixes->count);
    TRF__GROW(trf_hypothesis, t->answers, t->answers_capacity, (int64_t)n * t->search.n_best, &t->search.hooks);
    TRF__GROW(int32_t, t->n_answers, t->n_answers_capacity, n, &t->search.hooks);
    TRF__GROW(int64_t, t->first_id, t->first_id_capacity, n, &t->search.hooks);
    TRF__GROW(trf__pending, t->pending, t->pending_capacity, n, &t->search.hooks);
    TRF__GROW(const void *, t->order, t->order_capacity, n, &t->search.hooks);
    for (i = 0; i < n; i++) {
        trf__pending *w = &t->pending[i];
        w->source = source;
        w->prefix = prefix;
        w->sentence = i;
        w->length = trf__length_of(sources ? sources : prefixes, i);
        source += trf__length_of(sources, i);
        prefix += trf__length_of(prefixes, i);
        t->order[i] = w;
    }
    trf__sort(t->order, (size_t)n, trf__by_length, NULL);
    return TRF_OK;
}

/* How many sentences of so many source tokens and answers of up to `longest` tokens are searched together: no more
   than their slots and areas have numbers for. */
TRF__FN int32_t trf__together(const trf_search *s, int64_t tokens, int64_t longest)
{
    int64_t wanted = trf__min64(s->max_sentences, s->max_tokens / (tokens + 1));
    int64_t most = trf__min64(INT32_MAX / (s->beam * (longest + 1)), INT32_MAX / (tokens + 16));
    return (int32_t)trf__max64(1, trf__min64(wanted, most));
}

/* Which sentences from round->first on it takes, how many at a time, and their lengths. */
TRF__FN void trf__round_size(const trf_translator *t, int32_t count, trf__round *round)
{
    const trf_config *c = &t->model->config;
    int32_t tokens = ((const trf__pending *)t->order[round->first])->length;
    round->longest = 1;
    round->taken = 0;
    round->next = round->end = round->first;
    for (; round->end < count; round->end++) {
        const trf__pending *w = (const trf__pending *)t->order[round->end];
        int32_t n_source = trf__length_of(round->sources, w->sentence);
        int32_t n_prefix = trf__length_of(round->prefixes, w->sentence), n;
        int64_t longest = trf__max64(round->longest, trf__answer_limit(c, &t->search, n_source, n_prefix));
        n = trf__together(&t->search, tokens, longest);
        if (round->end > round->first && trf__together(&t->search, w->length, longest) / 2 >= n) break;
        round->longest = longest;
        round->n = n;
    }
    round->n = (int32_t)trf__min64(round->n, round->end - round->first);
    round->longest_source = round->sources ? tokens + c->source_eos : 0;
}

/* All rounds. sources is NULL for a decoder-only model, prefixes may be NULL otherwise. */
TRF__FN trf_status trf__search_rounds(trf_translator *t, const trf_sequences *sources, const trf_sequences *prefixes,
                                   trf_error *err)
{
    const trf_sequences *leading = sources ? sources : prefixes;
    trf__round round;
    int64_t id;
    int32_t i, k;
    trf__forget_answers(t);
    TRF__TRY(trf__search_prepare(t, sources, prefixes, err));
    TRF__ZERO(round);
    round.sources = sources;
    round.prefixes = prefixes;
    for (; round.first < leading->count; round.first = round.end) {
        trf__round_size(t, leading->count, &round);
        TRF__TRY(trf__round_open(t, &round, err));
        TRF__TRY(trf__round_search(t, &round, err));
    }
    for (i = 0; i < leading->count; i++)        /* the ids have stopped moving */
        for (id = t->first_id[i], k = 0; k < t->n_answers[i]; k++) {
            trf_hypothesis *h = &t->answers[(int64_t)i * t->search.n_best + k];
            h->ids = t->ids + id;
            h->log_probabilities = t->own + id;
            id += (int64_t)h->n + 1;
        }
    t->n_sentences = leading->count;
    return TRF_OK;
}

TRF_API trf_status trf_translate_prefixed(trf_translator *translator, const trf_sequences *sources,
                                          const trf_sequences *prefixes, trf_error *err)
{
    const trf_config *c;
    TRF__TRY(trf__begin(translator, "translator", err));
    c = &translator->model->config;
    if (c->kind != TRF_ENCODER_DECODER)
        return trf__fail(err, TRF_E_STATE, -1, "kind",
                         "forced prefixes need an encoder-decoder; a decoder-only model takes sources as beginnings");
    if (!sources) return trf__fail_null(err, "sources");
    return trf__search_rounds(translator, sources, prefixes, err);
}

TRF_API trf_status trf_translate_batch(trf_translator *translator, const trf_sequences *sources, trf_error *err)
{
    const trf_config *c;
    trf_status status;
    int32_t i, k, n;
    TRF__TRY(trf__begin(translator, "translator", err));
    if (!sources) return trf__fail_null(err, "sources");
    c = &translator->model->config;
    if (c->kind == TRF_ENCODER_ONLY)
        return trf__fail(err, TRF_E_STATE, -1, "kind", "an encoder-only model has no decoder: use trf_encode");
    if (c->kind == TRF_ENCODER_DECODER) return trf__search_rounds(translator, sources, NULL, err);
    status = trf__search_rounds(translator, NULL, sources, err);
    /* the answer is what follows the beginning */
    for (i = 0; status == TRF_OK && i < translator->n_sentences; i++)
        for (k = 0; k < translator->n_answers[i]; k++) {
            trf_hypothesis *h = &translator->answers[(int64_t)i * translator->search.n_best + k];
            for (n = 0; n < sources->lengths[i]; n++) h->beginning += h->log_probabilities[n];
            h->ids += n;
            h->log_probabilities += n;
            h->n -= n;
        }
    return status;
}

/* Two moments are the largest: while the pass grows, and at the end of the last round, when the ids are moved a last
   time. */
TRF__COLD
TRF_API size_t trf_translator_memory(const trf_config *config, const trf_search *search, int32_t sentences,
                                     int32_t source_tokens)
{
    trf_search defaults = trf_search_defaults();
    int64_t eos, answers;
    trf_device device;
    trf__run run;
    trf__layout layout;
    trf__hypotheses h;
    trf__limits have, grown, need;
    trf__round round;
    size_t fixed, growing = 0, state, cache, ids;
    if (!search) search = &defaults;
    if (!config || trf__config_check(config, NULL) || trf__search_check(search, NULL)) return 0;
    eos = trf__has_source(config) ? config->source_eos : 1;
    if (!trf__has_target(config) || sentences < 1 || source_tokens < 0 || source_tokens + eos > config->max_length)
        return 0;
    device = trf__device_with(&config->device, search->threads);
    run = trf__run_on(&device, &search->hooks);
    TRF__ZERO(round);
    round.longest = trf__max64(1, trf__answer_limit(config, search, source_tokens,
                                                    trf__has_source(config) ? 0 : source_tokens));
    round.n = (int32_t)trf__min64(sentences, trf__together(search, source_tokens, round.longest));
    round.longest_source = trf__has_source(config) ? source_tokens + eos : 0;
    TRF__ZERO(layout);
    trf__lay_out(&layout, config);
    have = trf__translator_limits(config, search);
    need = trf__round_limits(&round, search);
    grown = trf__limits_grown(&have, &need, config->max_length);
    if (memcmp(&have, &grown, sizeof have)) {       /* both are there for a moment; the state only if it grows */
        state = run.backend->state_bytes(&run, have.longest, config->d_model / config->n_heads, 0);
        growing = trf__pass_memory(config, &have, NULL, &device);
        if (state == run.backend->state_bytes(&run, grown.longest, config->d_model / config->n_heads, 0))
            growing -= state;
    }
    TRF__ZERO(h);
    h.n_places = round.n;
    h.length = round.longest + 1;
    h.area = round.longest_source;
    trf__hypotheses_layout(&h, config, search, &run);
    answers = (int64_t)sentences * search->n_best;
    ids = trf__bytes(trf__capacity(16, answers * (round.longest + 1)), sizeof(int32_t) + sizeof(double));
    cache = trf__add_size(trf__add_size(h.bytes, h.device_bytes), trf__add_size(ids, ids / 2));
    fixed = trf__add_size(sizeof(trf_translator), run.backend->copy_bytes(&device, layout.n_weights, 0));
    fixed = trf__add_size(fixed, trf__bytes(trf__capacity(16, answers), sizeof(trf_hypothesis)));
    fixed = trf__add_size(fixed, trf__bytes(trf__capacity(16, sentences), sizeof(int32_t) + sizeof(int64_t) +
                                            sizeof(trf__pending) + sizeof(void *)));
    fixed = trf__add_size(fixed, trf__pass_memory(config, &grown, NULL, &device));
    return trf__add_size(fixed, growing > cache ? growing : cache);
}

TRF_API int32_t trf_hypothesis_count(const trf_translator *translator, int32_t sentence)
{
    return translator && sentence >= 0 && sentence < translator->n_sentences ? translator->n_answers[sentence] : 0;
}

TRF_API const trf_hypothesis *trf_hypothesis_at(const trf_translator *translator, int32_t sentence, int32_t rank)
{
    if (rank < 0 || rank >= trf_hypothesis_count(translator, sentence)) return NULL;
    return &translator->answers[(int64_t)sentence * translator->search.n_best + rank];
}

TRF_API trf_status trf_translate(trf_translator *translator, const int32_t *source, int32_t n_source,
                                 int32_t *target, int32_t capacity, int32_t *n, trf_error *err)
{
    trf_sequences one;
    const trf_hypothesis *best;
    one.ids = source;
    one.lengths = &n_source;
    one.count = 1;
    if (n) *n = 0;
    trf__clear(err);
    if (capacity < 0) return trf__fail_below(err, "capacity", 0, capacity);
    if (capacity > 0 && !target) return trf__fail_null(err, "target");
    TRF__TRY(trf_translate_batch(translator, &one, err));
    best = trf_hypothesis_at(translator, 0, 0);
    if (!best) return trf__fail(err, TRF_E_INTERNAL, -1, "translate", "the search returned nothing");
    if (n) *n = best->n;
    if (best->n > 0 && target) memcpy(target, best->ids, (size_t)trf__min64(best->n, capacity) * sizeof *target);
    if (best->n > capacity)
        return trf__fail(err, TRF_E_LIMIT, capacity, "capacity",
                         "the answer has %d tokens, but there is room for %d", best->n, capacity);
    return TRF_OK;
}

TRF__FN trf_status trf__no_vocabularies(trf_error *err)
{
    return trf__fail(err, TRF_E_STATE, -1, "vocabulary", "the model has no vocabularies: see trf_model_set_vocabs");
}

TRF_API trf_status trf_hypothesis_text(const trf_translator *translator, int32_t sentence, int32_t rank, char *text,
                                       size_t size, size_t *bytes, trf_error *err)
{
    const trf_hypothesis *h;
    if (text && size > 0) text[0] = 0;
    if (bytes) *bytes = 0;
    TRF__TRY(trf__begin(translator, "translator", err));
    h = trf_hypothesis_at(translator, sentence, rank);
    if (!h)
        return trf__fail(err, TRF_E_INVALID_ARG, sentence, "sentence", "sentence %d has %d results, got rank %d",
                         (int)sentence, (int)trf_hypothesis_count(translator, sentence), (int)rank);
    if (!translator->model->target) return trf__no_vocabularies(err);
    return trf_vocab_decode(translator->model->target, h->ids, h->n, text, size, bytes, err);
}

TRF__FN trf_status trf__encode_source(trf_translator *translator, const char *text, trf_error *err)
{
    const trf_model *model = translator->model;
    const trf_vocab *from = trf__has_source(&model->config) ? model->source : model->target;
    if (!from || !model->target) return trf__no_vocabularies(err);
    return trf__encode_all(from, text, &translator->text, &translator->search.hooks, err);
}

TRF_API trf_status trf_translate_text(trf_translator *translator, const char *text, char *answer, size_t size,
                                      trf_error *err)
{
    trf_sequences one;
    trf_status status = trf__begin(translator, "translator", err);
    if (!status) trf__forget_answers(translator);
    if (!status && !text) status = trf__fail_null(err, "text");
    if (!status && !answer && size > 0) status = trf__fail_null(err, "answer");
    if (!status) status = trf__encode_source(translator, text, err);
    if (answer && size > 0) answer[0] = 0;      /* which may be the text */
    TRF__TRY(status);
    one.ids = translator->text.ids;
    one.lengths = &translator->text.n;
    one.count = 1;
    TRF__TRY(trf_translate_batch(translator, &one, err));
    return trf_hypothesis_text(translator, 0, 0, answer, size, NULL, err);
}

// >>look-inside    scores, states, logits and attention weights, teacher-forced
//
// The translator's own pass computes a whole batch as in training, without dropout, and one of its results is brought
// to the host.

/* Rows of sequences to each of which `extra` tokens are added. */
TRF__FN int64_t trf__rows_of(const trf_sequences *x, int extra)
{
    int64_t rows = 0;
    int32_t i;
    if (!x || !x->lengths) return 0;
    for (i = 0; i < x->count; i++) {
        if (x->lengths[i] < 0) return 0;
        rows += (int64_t)x->lengths[i] + extra;
    }
    return rows;
}

TRF_API int64_t trf_source_rows(const trf_model *model, const trf_sequences *sources)
{
    return model ? trf__rows_of(sources, model->config.source_eos) : 0;
}

TRF_API int64_t trf_target_rows(const trf_model *model, const trf_sequences *targets)
{
    return model ? trf__rows_of(targets, model->config.target_eos) : 0;
}

TRF__FN trf_status trf__needs_target(const trf_config *c, trf_error *err)
{
    if (trf__has_target(c)) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "kind", "an encoder-only model has no decoder");
}

TRF_API trf_status trf_score(trf_translator *translator, const trf_batch *batch, double *log_probabilities,
                             trf_error *err)
{
    trf__pass *pass;
    const trf__backend *on;
    trf__loss loss;
    int64_t i, r;
    TRF__TRY(trf__begin(translator, "translator", err));
    pass = &translator->pass;
    on = pass->run.backend;
    trf__forget_answers(translator);
    TRF__TRY(trf__needs_target(pass->config, err));
    if (!log_probabilities) return trf__fail_null(err, "log_probabilities");
    TRF__TRY(trf__pass_sides(pass, batch, pass->sides, 0, err));
    TRF__GROW(double, translator->numbers, translator->numbers_capacity, pass->decoder.rows, &pass->run.hooks);
    TRF__TRY(trf__pass_forward(pass, err));
    loss = trf__pass_loss(pass, 0, TRF_SMOOTH_UNIFORM);
    on->cross_entropy(&pass->run, &loss);
    on->download(&pass->run, translator->numbers, pass->row_nll, trf__bytes(pass->decoder.rows, sizeof(double)));
    TRF__TRY(on->sync(&pass->run, err));
    for (i = 0; i < pass->n_sentences; i++) {
        const trf__span *span = &pass->decoder.host.self[i];
        double sum = 0;
        for (r = 0; r < span->n_query; r++) sum -= translator->numbers[span->query + r];
        log_probabilities[i] = sum;
    }
    return TRF_OK;
}

TRF_API trf_status trf_encode(trf_translator *translator, const trf_sequences *sources, trf_tensor *out,
                              trf_error *err)
{
    trf__pass *pass;
    const trf_config *c;
    trf_batch batch;
    TRF__TRY(trf__begin(translator, "translator", err));
    pass = &translator->pass;
    c = &translator->model->config;
    trf__forget_answers(translator);
    if (!trf__has_source(c))
        return trf__fail(err, TRF_E_STATE, -1, "kind", "a decoder-only model has no encoder: use trf_logits");
    if (!sources) return trf__fail_null(err, "sources");
    TRF__ZERO(batch);
    batch.source = *sources;
    TRF__TRY(trf__pass_sides(pass, &batch, TRF__SOURCE, 0, err));
    TRF__TRY(trf__shape_check(out, "out", pass->encoder.rows, c->d_model, err));
    TRF__TRY(trf__stack_forward(pass, &pass->encoder, err));
    pass->run.backend->fetch(&pass->run, out->data, pass->encoder.out, pass->encoder.rows * c->d_model);
    return pass->run.backend->sync(&pass->run, err);
}

/* The logits of a batch, in the translator's room, for `out` of the caller, which with `ids` has no rows of EOS. */
TRF__FN trf_status trf__logits(trf_translator *translator, const trf_batch *batch, const trf_tensor *out,
                               const char *name, int ids, trf_error *err)
{
    trf__pass *pass = &translator->pass;
    const trf_config *c = pass->config;
    int64_t rows, vocab = trf__n_logits(c);
    trf__forget_answers(translator);
    TRF__TRY(trf__pass_sides(pass, batch, pass->sides, 0, err));
    rows = pass->decoder.rows;
    TRF__TRY(trf__shape_check(out, name, rows - (ids ? c->source_eos * pass->n_sentences : 0), vocab, err));
    TRF__TRY(trf__room_for(&pass->run, &translator->room, trf__bytes(rows, trf__bytes(vocab, pass->run.element)),
                           err));
    TRF__TRY(trf__pass_forward(pass, err));
    trf__project(&pass->run, (trf__act *)translator->room.memory, pass->decoder.out,
                 trf__weight(pass, pass->layout->whole.generator_w), trf__generator_bias(pass), rows, vocab,
                 c->d_model);
    return TRF_OK;
}

TRF_API trf_status trf_logits(trf_translator *translator, const trf_batch *batch, trf_tensor *out, trf_error *err)
{
    trf__pass *pass;
    TRF__TRY(trf__begin(translator, "translator", err));
    pass = &translator->pass;
    if (!pass->config->head) TRF__TRY(trf__needs_target(pass->config, err));
    TRF__TRY(trf__logits(translator, batch, out, "out", 0, err));
    pass->run.backend->fetch(&pass->run, out->data, (trf__act *)translator->room.memory, trf_tensor_count(out));
    return pass->run.backend->sync(&pass->run, err);
}

/* z becomes exp(z - m) / sum of these, m the largest. */
TRF__FN void trf__softmax(trf_real *z, int64_t n)
{
    double most = -HUGE_VAL, sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) most = (double)z[i] > most ? (double)z[i] : most;
    for (i = 0; i < n; i++) sum += exp((double)z[i] - most);
    for (i = 0; i < n; i++) z[i] = (trf_real)(exp((double)z[i] - most) / sum);
}

/* The probabilities of a head, of sequences or of ids. */
TRF__FN trf_status trf__probabilities(trf_translator *t, const trf_sequences *sources, trf_tensor *out, int ids,
                                      trf_error *err)
{
    const trf__pass *pass;
    const trf_config *c;
    trf__act *z;
    trf_batch batch;
    int64_t i, n, at = 0, row = 0;      /* in the caller's tensor, and among the logits */
    TRF__TRY(trf__begin(t, "translator", err));
    pass = &t->pass;
    c = pass->config;
    if (ids ? c->head != TRF_HEAD_TOKENS : !trf__pools(c))
        return trf__fail(err, TRF_E_STATE, -1, "head", "labels of %s need a model with head %s, this one has %d",
                         ids ? "tokens" : "sequences", ids ? "3" : "1 or 2", (int)c->head);
    if (!sources) return trf__fail_null(err, "sources");
    TRF__ZERO(batch);
    batch.source = *sources;
    TRF__TRY(trf__logits(t, &batch, out, "probabilities", ids, err));
    z = (trf__act *)t->room.memory;
    for (i = 0; i < (ids && c->source_eos ? pass->n_sentences : 1); i++) {      /* EOS's rows stand between */
        n = ids && c->source_eos ? sources->lengths[i] : out->shape[0];
        if (n > 0)
            pass->run.backend->fetch(&pass->run, out->data + at * c->n_labels,
                                     trf__act_at(&pass->run, z, row * c->n_labels), n * c->n_labels);
        at += n;
        row += n + 1;
    }
    TRF__TRY(t->pass.run.backend->sync(&t->pass.run, err));
    for (i = 0; i < out->shape[0]; i++) trf__softmax(out->data + i * c->n_labels, c->n_labels);
    return TRF_OK;
}

TRF_API trf_status trf_classify(trf_translator *translator, const trf_sequences *sources, trf_tensor *probabilities,
                                trf_error *err)
{
    return trf__probabilities(translator, sources, probabilities, 0, err);
}

TRF_API trf_status trf_tag(trf_translator *translator, const trf_sequences *sources, trf_tensor *probabilities,
                           trf_error *err)
{
    return trf__probabilities(translator, sources, probabilities, 1, err);
}

TRF_API trf_status trf_attention_weights(trf_translator *translator, const trf_batch *batch, trf_attention_kind kind,
                                         int32_t layer, int32_t head, trf_tensor *out, trf_error *err)
{
    trf__pass *pass;
    const trf_config *c;
    int decoder = kind != TRF_ENCODER_SELF;
    int64_t queries, keys;
    trf_status status;
    size_t bytes;
    TRF__TRY(trf__begin(translator, "translator", err));
    pass = &translator->pass;
    c = &translator->model->config;
    trf__forget_answers(translator);
    if (!batch) return trf__fail_null(err, "batch");
    if ((uint32_t)kind > 2 || (decoder && !trf__has_target(c)) ||
        (kind != TRF_DECODER_SELF && !trf__has_source(c)))
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "kind", "this model has no attention of kind %d", (int)kind);
    TRF__TRY(trf__check_range("layer", layer, 0, (decoder ? c->decoder_layers : c->encoder_layers) - 1, err));
    TRF__TRY(trf__check_range("head", head, 0, c->n_heads - 1, err));
    if ((trf__has_source(c) ? batch->source.count : batch->target.count) != 1)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "batch",
                         "attention weights are looked at one pair at a time, got %d",
                         trf__has_source(c) ? batch->source.count : batch->target.count);
    TRF__TRY(trf__pass_sides(pass, batch, pass->sides, 0, err));
    queries = decoder ? pass->decoder.rows : pass->encoder.rows;
    keys = kind == TRF_DECODER_SELF ? queries : pass->encoder.rows;
    TRF__TRY(trf__shape_check(out, "out", queries, keys, err));
    bytes = trf__bytes(queries, trf__bytes(keys, sizeof(trf_real)));
    TRF__TRY(trf__room_for(&pass->run, &translator->room, bytes, err));
    pass->probe_kind = (int)kind; pass->probe_layer = layer; pass->probe_head = head;
    pass->probed = (trf_real *)translator->room.memory;
    status = trf__pass_forward(pass, err);
    pass->probed = NULL;
    TRF__TRY(status);
    pass->run.backend->download(&pass->run, out->data, translator->room.memory, bytes);
    return pass->run.backend->sync(&pass->run, err);
}

// -----------------------------------------------------------------------------------------------
// >>blocks         the ops as public functions: shapes are checked, nothing is stored but in the caller's tensors
//
// Each function checks every argument before the first op, because an op trusts its pointers and sizes and cannot
// fail. Then it brings its tensors to the device (trf__guest) and, when the op is done, takes the outputs back; where
// the device's memory is the host's, both do nothing. The context keeps what an op needs besides: spans, positions
// and room, which grow and are used again. Forward and backward share their checks.
// -----------------------------------------------------------------------------------------------

/* Memory of the host, and its copy on the device; `back`: the copy returns after the op. */
typedef struct trf__guest { void *host, *device; size_t bytes; int back; } trf__guest;
enum {
    TRF__GUESTS = 18,                   /* more than any block brings: backward of multi-head attention 15 */
    TRF__CONTEXT_ROOM = 1 << 16         /* numbers of a weight that a context packs at a time */
};

struct trf_context {
    trf__run run;
    trf__guest guests[TRF__GUESTS];
    int n_guests, no_room;                  /* no_room: one found no memory */
    trf__span *spans; int64_t spans_capacity;
    int32_t *ints; int64_t ints_capacity;   /* positions or targets of rows, and their groups */
    trf_real *table; int64_t table_capacity;    /* sinusoidal positions */
    trf__room room;                         /* what a block needs besides its arguments */
};

TRF_API void trf_context_destroy(trf_context *context)
{
    trf_hooks hooks;
    if (!context) return;
    hooks = context->run.hooks;
    context->run.backend->release(&context->run, context->room.memory, context->room.bytes);
    context->run.backend->close(&context->run);
    trf__free(&hooks, context->spans, trf__bytes(context->spans_capacity, sizeof *context->spans));
    trf__free(&hooks, context->ints, trf__bytes(context->ints_capacity, sizeof *context->ints));
    trf__free(&hooks, context->table, trf__bytes(context->table_capacity, sizeof *context->table));
    trf__free(&hooks, context, sizeof *context);
}

TRF_API trf_status trf_context_create(trf_context **context, const trf_device *device, const trf_hooks *hooks,
                                      trf_error *err)
{
    trf_device on = device ? *device : trf_device_default();
    trf_hooks none;
    trf_context *c;
    trf_status status;
    TRF__TRY(trf__begin(context, "context", err));
    *context = NULL;
    TRF__ZERO(none);
    if (!hooks) hooks = &none;
    TRF__TRY(trf__device_check(&on, err));
    TRF__TRY(trf__hooks_check(hooks, err));
    c = (trf_context *)trf__alloc_zeroed(hooks, sizeof *c);
    if (!c) return trf__fail(err, TRF_E_NOMEM, -1, "context", "no memory for a context");
    on.precision = TRF_PRECISION_FLOAT32;       /* callers' tensors are what the ops work on */
    c->run = trf__run_on(&on, hooks);
    status = c->run.backend->open(&c->run, err);
    if (status != TRF_OK) { trf__free(hooks, c, sizeof *c); return status; }
    status = c->run.backend->reserve(&c->run, 0, 1, TRF__CONTEXT_ROOM, err);
    if (status != TRF_OK) { trf_context_destroy(c); return status; }
    *context = c;
    return TRF_OK;
}

/* Brings memory of the host to the device for one op: 'i' what it reads, 'o' what it sets, 'a' what it adds to. */
TRF__FN void *trf__bring(trf_context *c, void *host, size_t bytes, char use)
{
    const trf__run *run = &c->run;
    trf__guest *guest = &c->guests[c->n_guests];
    if (!host || run->backend->on_host) return host;
    if (c->n_guests == TRF__GUESTS) { c->no_room = 1; return NULL; }
    guest->host = host;
    guest->bytes = bytes;
    guest->back = use != 'i';
    guest->device = run->backend->alloc(run, bytes);
    if (!guest->device) { c->no_room = 1; return NULL; }
    c->n_guests++;
    if (use != 'o') run->backend->upload(run, guest->device, host, bytes);
    return guest->device;
}

TRF__FN trf_real *trf__guest_of(trf_context *c, const trf_tensor *tensor, char use)
{
    size_t bytes = tensor ? trf__bytes(trf_tensor_count(tensor), sizeof(trf_real)) : 0;
    return (trf_real *)trf__bring(c, tensor ? tensor->data : NULL, bytes, use);
}

TRF__FN trf__act *trf__act_guest(trf_context *c, const trf_tensor *tensor, char use)
{
    return (trf__act *)(void *)trf__guest_of(c, tensor, use);
}

/* The caller's ids, lengths and targets are const. */
TRF__FN const int32_t *trf__list_guest(trf_context *c, const int32_t *list, int64_t n)
{
    return (const int32_t *)trf__bring(c, (void *)(uintptr_t)list, trf__bytes(n, sizeof *list), 'i');
}

/* After the op: outputs go home, if all went well, and all guests leave. */
TRF__FN trf_status trf__guests_leave(trf_context *c, trf_status status, trf_error *err)
{
    const trf__run *run = &c->run;
    int i;
    for (i = 0; status == TRF_OK && i < c->n_guests; i++)
        if (c->guests[i].back)
            run->backend->download(run, c->guests[i].host, c->guests[i].device, c->guests[i].bytes);
    if (status == TRF_OK) status = run->backend->sync(run, err);
    for (i = 0; i < c->n_guests; i++) run->backend->release(run, c->guests[i].device, c->guests[i].bytes);
    c->n_guests = c->no_room = 0;
    c->run.now = NULL;
    return status;
}

/* Before the op: whether all guests are there. If not, those that are leave. */
TRF__FN trf_status trf__guests_ready(trf_context *c, trf_error *err)
{
    if (!c->no_room) return TRF_OK;
    return trf__guests_leave(c, trf__fail(err, TRF_E_NOMEM, -1, "tensors", "no memory on the device for the tensors"),
                             err);
}

/* Columns of a (rows, columns) tensor; rows must be as given unless -1. */
TRF__FN trf_status trf__matrix(const trf_tensor *x, const char *name, int64_t rows, int64_t *columns, trf_error *err)
{
    *columns = 0;
    if (!x || !x->data) return trf__fail(err, TRF_E_INVALID_ARG, -1, name, "%s must be a tensor with data", name);
    if (x->rank != 2) return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have rank 2, got %d", name, x->rank);
    if (x->shape[0] < 0 || x->shape[1] < 1)
        return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have rows >= 0 and columns >= 1, got (%lld, %lld)",
                         name, (long long)x->shape[0], (long long)x->shape[1]);
    if (x->shape[0] > INT32_MAX || x->shape[1] > INT32_MAX)      /* CBLAS counts with int */
        return trf__fail(err, TRF_E_LIMIT, -1, name, "%s has shape (%lld, %lld); the limit is %d", name,
                         (long long)x->shape[0], (long long)x->shape[1], (int)INT32_MAX);
    *columns = x->shape[1];
    return trf__shape_check(x, name, rows < 0 ? x->shape[0] : rows, *columns, err);
}

/* A weight (*out, in): what has no outputs would give a tensor without columns, and those are refused everywhere. */
TRF__FN trf_status trf__weight_check(const trf_tensor *w, const char *name, int64_t *out, int64_t in, trf_error *err)
{
    int64_t k;
    TRF__TRY(trf__matrix(w, name, -1, &k, err));
    *out = w->shape[0];
    if (*out < 1) return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have one row or more, got none", name);
    return trf__shape_check(w, name, *out, in, err);
}

// >>blocks-embedding

TRF__FN trf_status trf__embedding_rows(trf_context *context, const trf_sequences *x,
                                       const trf_embedding_options *options, int64_t vocab, int64_t d,
                                       int64_t *rows, int64_t *longest, trf_error *err)
{
    int64_t at = 0, k;
    int32_t i;
    *longest = 0;
    *rows = 0;
    if (x->count < 0) return trf__fail_below(err, "x", 0, x->count);
    if (x->count > 0 && !x->lengths) return trf__fail_null(err, "x");
    for (i = 0; i < x->count; i++) {
        if (x->lengths[i] < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "x", "length of sequence %d must not be negative, got %d",
                             i, x->lengths[i]);
        if (x->lengths[i] > INT32_MAX - *rows)
            return trf__fail(err, TRF_E_LIMIT, i, "x", "x may have %d ids, sequence %d ends beyond", INT32_MAX, i);
        *rows += x->lengths[i];
        *longest = trf__max64(*longest, x->lengths[i]);
    }
    if (*rows > 0 && !x->ids) return trf__fail_null(err, "x");
    for (at = 0; at < *rows; at++)
        if (x->ids[at] < 0 || x->ids[at] >= vocab)
            return trf__fail(err, TRF_E_INVALID_ARG, at, "x", "id number %lld must be below %lld, got %d",
                             (long long)at, (long long)vocab, x->ids[at]);
    if (options->positions == TRF_POSITIONS_LEARNED) {
        TRF__TRY(trf__matrix(options->learned, "learned", -1, &k, err));
        if (k != d || *longest + options->position_offset > options->learned->shape[0])
            return trf__fail(err, TRF_E_SHAPE, -1, "learned", "learned positions must be (at least %lld, %lld)",
                             (long long)*longest + options->position_offset, (long long)d);
    }
    TRF__GROW(int32_t, context->ints, context->ints_capacity, 3 * *rows + 1, &context->run.hooks);
    for (i = 0, at = 0; i < x->count; i++) for (k = 0; k < x->lengths[i]; k++) context->ints[at++] = (int32_t)k;
    return TRF_OK;
}

TRF_API trf_status trf_embedding(trf_context *context, trf_tensor *y, const trf_sequences *x,
                                 const trf_tensor *weight, const trf_embedding_options *options, trf_error *err)
{
    trf__embed e;
    int64_t d, rows, longest, p;
    TRF__TRY(trf__begin(context, "context", err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__TRY(trf__check_range("positions", (double)options->positions, 0, 4, err));
    TRF__TRY(trf__check_range("position_offset", options->position_offset, 0, 1 << 20, err));
    TRF__TRY(trf__matrix(weight, "weight", -1, &d, err));
    TRF__TRY(trf__embedding_rows(context, x, options, weight->shape[0], d, &rows, &longest, err));
    TRF__TRY(trf__shape_check(y, "y", rows, d, err));
    TRF__ZERO(e);
    if (options->positions == TRF_POSITIONS_LEARNED)
        e.table = trf__guest_of(context, options->learned, 'i');
    else if (options->positions != TRF_POSITIONS_NONE) {
        TRF__GROW(trf_real, context->table, context->table_capacity, longest * d, &context->run.hooks);
        for (p = 0; p < longest; p++)
            trf__position_row(context->table + p * d, p + options->position_offset, d, (int)options->positions);
        e.table = (trf_real *)trf__bring(context, context->table, trf__bytes(longest * d, sizeof(trf_real)), 'i');
    }
    e.y = trf__act_guest(context, y, 'o');
    e.weight = trf__guest_of(context, weight, 'i');
    e.ids = trf__list_guest(context, x->ids, rows);
    e.at.position = trf__list_guest(context, context->ints, rows);
    e.rows = rows; e.d = d; e.scale = (trf_real)options->scale;
    TRF__TRY(trf__guests_ready(context, err));
    if (options->positions == TRF_POSITIONS_LEARNED) e.table += options->position_offset * d;
    context->run.backend->embed(&context->run, &e);
    return trf__guests_leave(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_embedding_backward(trf_context *context, trf_tensor *dweight, trf_tensor *dlearned,
                                          const trf_tensor *dy, const trf_sequences *x,
                                          const trf_embedding_options *options, trf_error *err)
{
    int64_t d, rows, longest;
    trf_embedding_options plain;
    trf__embed_gradient e;
    TRF__TRY(trf__begin(context, "context", err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__TRY(trf__check_range("position_offset", options->position_offset, 0, 1 << 20, err));
    if (dlearned && options->positions != TRF_POSITIONS_LEARNED)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "dlearned", "only learned positions have a gradient");
    TRF__TRY(trf__matrix(dweight, "dweight", -1, &d, err));
    if (dweight->shape[0] > 1 << 24)
        return trf__fail(err, TRF_E_LIMIT, -1, "dweight", "dweight has %lld rows, the limit is %d",
                         (long long)dweight->shape[0], 1 << 24);
    plain = *options;
    plain.learned = dlearned;
    if (!dlearned) plain.positions = TRF_POSITIONS_NONE;
    TRF__TRY(trf__embedding_rows(context, x, &plain, dweight->shape[0], d, &rows, &longest, err));
    TRF__TRY(trf__shape_check(dy, "dy", rows, d, err));
    TRF__ZERO(e);
    e.groups.n = trf__group_rows(context->ints + rows, context->ints + 2 * rows, x->ids, rows);
    e.groups.rows = trf__list_guest(context, context->ints + rows, rows);
    e.groups.first = trf__list_guest(context, context->ints + 2 * rows, rows + 1);
    e.dweight = trf__guest_of(context, dweight, 'a');
    e.dtable = trf__guest_of(context, dlearned, 'a');
    e.dy = trf__act_guest(context, dy, 'i');
    e.ids = trf__list_guest(context, x->ids, rows);
    e.at.position = trf__list_guest(context, context->ints, rows);
    e.rows = rows; e.d = d; e.vocab = dweight->shape[0]; e.scale = (trf_real)options->scale;
    TRF__TRY(trf__guests_ready(context, err));
    if (dlearned) {
        e.dtable += options->position_offset * d;
        e.positions = dlearned->shape[0] - options->position_offset;
    }
    context->run.backend->embed_gradient(&context->run, &e);
    return trf__guests_leave(context, TRF_OK, err);
}
#endif

// >>blocks-linear

TRF__FN trf__mat trf__mat_of(trf_context *c, const trf_tensor *w)
{
    trf__mat m;
    m.plain = trf__guest_of(c, w, 'i');
    m.copy = NULL;
    m.row = 0;
    return m;
}

TRF_API trf_status trf_linear(trf_context *context, trf_tensor *y, const trf_tensor *x, const trf_tensor *weight,
                              const trf_tensor *bias, trf_error *err)
{
    trf__linear l;
    int64_t in, out;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__matrix(x, "x", -1, &in, err));
    TRF__TRY(trf__weight_check(weight, "weight", &out, in, err));
    TRF__TRY(trf__shape_check(y, "y", x->shape[0], out, err));
    if (bias) TRF__TRY(trf__shape_check(bias, "bias", out, -1, err));
    l.y = trf__act_guest(context, y, 'o');
    l.x = trf__act_guest(context, x, 'i');
    l.w = trf__mat_of(context, weight);
    l.b = trf__guest_of(context, bias, 'i');
    l.rows = x->shape[0]; l.out = out; l.in = in;
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->linear(&context->run, &l);
    return trf__guests_leave(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_linear_backward(trf_context *context, trf_tensor *dx, trf_tensor *dweight, trf_tensor *dbias,
                                       const trf_tensor *dy, const trf_tensor *x, const trf_tensor *weight,
                                       trf_error *err)
{
    int64_t in, out, rows;
    trf__linear_dw dw;
    trf__linear_dx l;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__matrix(x, "x", -1, &in, err));
    rows = x->shape[0];
    TRF__TRY(trf__matrix(dy, "dy", rows, &out, err));
    TRF__TRY(trf__shape_check(weight, "weight", out, in, err));
    TRF__TRY(trf__shape_check(dweight, "dweight", out, in, err));
    if (dx) TRF__TRY(trf__shape_check(dx, "dx", rows, in, err));
    if (dbias) TRF__TRY(trf__shape_check(dbias, "dbias", out, -1, err));
    l.dx = trf__act_guest(context, dx, 'o');
    l.dy = trf__act_guest(context, dy, 'i');
    l.w = trf__mat_of(context, weight);
    l.rows = rows; l.out = out; l.in = in; l.add = 0;
    dw = trf__dw_of(trf__guest_of(context, dweight, 'a'), trf__guest_of(context, dbias, 'a'), l.dy,
                    trf__act_guest(context, x, 'i'), rows, out, in, 0);
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->linear_dw(&context->run, &dw, 1);
    if (dx) context->run.backend->linear_dx(&context->run, &l);
    return trf__guests_leave(context, TRF_OK, err);
}
#endif

// >>blocks-norm

TRF_API int64_t trf_layer_norm_saved(int64_t rows) { return trf__times(2, rows); }

TRF_API trf_status trf_layer_norm(trf_context *context, trf_tensor *y, const trf_tensor *x, const trf_tensor *gain,
                                  const trf_tensor *bias, double epsilon, trf_tensor *saved, trf_error *err)
{
    trf__norm n;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(y, "y", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(gain, "gain", n.d, -1, err));
    TRF__TRY(trf__shape_check(bias, "bias", n.d, -1, err));
    TRF__TRY(trf__check_range("epsilon", epsilon, 1e-30, 1, err));
    if (saved) TRF__TRY(trf__shape_check(saved, "saved", trf_layer_norm_saved(n.rows), -1, err));
    n.x = trf__act_guest(context, x, 'i'); n.y = trf__act_guest(context, y, 'o');
    n.gain = trf__guest_of(context, gain, 'i'); n.bias = trf__guest_of(context, bias, 'i');
    n.stats = trf__guest_of(context, saved, 'o');
    n.epsilon = epsilon;
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->add_norm(&context->run, &n);
    return trf__guests_leave(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_layer_norm_backward(trf_context *context, trf_tensor *dx, trf_tensor *dgain, trf_tensor *dbias,
                                           const trf_tensor *dy, const trf_tensor *x, const trf_tensor *gain,
                                           double epsilon, const trf_tensor *saved, trf_error *err)
{
    trf__norm_gradient n;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(dx, "dx", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(gain, "gain", n.d, -1, err));
    TRF__TRY(trf__shape_check(dgain, "dgain", n.d, -1, err));
    TRF__TRY(trf__shape_check(dbias, "dbias", n.d, -1, err));
    TRF__TRY(trf__shape_check(saved, "saved", trf_layer_norm_saved(n.rows), -1, err));
    n.s = trf__act_guest(context, x, 'i'); n.stats = trf__guest_of(context, saved, 'i');
    n.gain = trf__guest_of(context, gain, 'i'); n.epsilon = epsilon;
    n.dy = trf__act_guest(context, dy, 'i'); n.ds = trf__act_guest(context, dx, 'o');
    n.dgain = trf__guest_of(context, dgain, 'a'); n.dbias = trf__guest_of(context, dbias, 'a');
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->norm_gradient(&context->run, &n);
    return trf__guests_leave(context, TRF_OK, err);
}
#endif

// >>blocks-attention

TRF_API int64_t trf_attention_saved(int64_t query_rows, int32_t n_heads)
{
    return trf__times(trf__times(2, query_rows), n_heads);
}

/* Turns lengths into spans and checks them; sets all but the tensors of `a`. */
TRF__FN trf_status trf__attention_prepare(trf_context *context, const trf_attention_shape *shape, int64_t d,
                                          trf__attention_in *a, int64_t *queries, int64_t *keys, trf_error *err)
{
    int32_t i;
    TRF__ZERO(*a);
    *queries = *keys = 0;
    if (!shape) return trf__fail_null(err, "shape");
    if (shape->count < 0) return trf__fail_below(err, "count", 0, shape->count);
    TRF__TRY(trf__check_range("mask", (double)shape->mask, 0, 1, err));
    if (shape->count > 0 && (!shape->query_lengths || !shape->key_lengths)) return trf__fail_null(err, "lengths");
    if (shape->n_heads < 1 || d % shape->n_heads)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "n_heads", "n_heads must divide the width %lld, got %d",
                         (long long)d, shape->n_heads);
    TRF__GROW(trf__span, context->spans, context->spans_capacity, shape->count, &context->run.hooks);
    for (i = 0; i < shape->count; i++) {
        int32_t n_query = shape->query_lengths[i], n_key = shape->key_lengths[i];
        trf__span *span = &context->spans[i];
        if (n_query < 0 || n_key < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "lengths", "lengths of sequence %d must not be negative", i);
        if (shape->mask == TRF_CAUSAL && n_query != n_key)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "lengths",
                             "causal attention needs as many keys as queries; sequence %d has %d and %d", i, n_key,
                             n_query);
        if (*queries + n_query > INT32_MAX || *keys + n_key > INT32_MAX)
            return trf__fail(err, TRF_E_LIMIT, i, "lengths", "all lengths together must stay below 2^31");
        span->query = (int32_t)*queries; span->n_query = n_query;
        span->key = (int32_t)*keys; span->n_key = n_key;
        span->sentence = i;
        *queries += n_query;
        *keys += n_key;
        a->most_queries = trf__max64(a->most_queries, n_query);
        a->most_keys = trf__max64(a->most_keys, n_key);
    }
    a->n_spans = shape->count;
    a->heads = shape->n_heads; a->d_head = (int)(d / shape->n_heads); a->causal = shape->mask == TRF_CAUSAL;
    return TRF_OK;
}

TRF__FN const trf__span *trf__spans_guest(trf_context *c, int64_t n)
{
    return (const trf__span *)trf__bring(c, c->spans, trf__bytes(n, sizeof *c->spans), 'i');
}

TRF__FN trf_status trf__attention_args(trf_context *context, trf__attention_in *a, const trf_tensor *q,
                                       const trf_tensor *k, const trf_tensor *v, const trf_attention_shape *shape,
                                       const trf_tensor *saved, trf_error *err)
{
    int64_t d, queries, keys;
    TRF__TRY(trf__matrix(q, "q", -1, &d, err));
    TRF__TRY(trf__attention_prepare(context, shape, d, a, &queries, &keys, err));
    TRF__TRY(trf__shape_check(q, "q", queries, d, err));
    TRF__TRY(trf__shape_check(k, "k", keys, d, err));
    TRF__TRY(trf__shape_check(v, "v", keys, d, err));
    a->ldq = a->ldk = d;
    if (saved) TRF__TRY(trf__shape_check(saved, "saved", trf_attention_saved(queries, shape->n_heads), -1, err));
    return context->run.backend->reserve(&context->run, a->most_keys, a->d_head, 0, err);
}

TRF__FN void trf__attention_guests(trf_context *c, trf__attention_in *a, const trf_tensor *q, const trf_tensor *k,
                                   const trf_tensor *v)
{
    a->q = trf__act_guest(c, q, 'i');
    a->k = trf__act_guest(c, k, 'i');
    a->v = trf__act_guest(c, v, 'i');
    a->spans = trf__spans_guest(c, a->n_spans);
}

TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q, const trf_tensor *k,
                                 const trf_tensor *v, const trf_attention_shape *shape, trf_tensor *saved,
                                 trf_error *err)
{
    trf__attention a;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, err));
    TRF__TRY(trf__shape_check(out, "out", q->shape[0], q->shape[1], err));
    trf__attention_guests(context, &a.in, q, k, v);
    a.out = trf__act_guest(context, out, 'o');
    a.stats = trf__guest_of(context, saved, 'o');
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->attention(&context->run, &a);
    return trf__guests_leave(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk, trf_tensor *dv,
                                          const trf_tensor *dout, const trf_tensor *out, const trf_tensor *q,
                                          const trf_tensor *k, const trf_tensor *v,
                                          const trf_attention_shape *shape, const trf_tensor *saved, trf_error *err)
{
    trf__attention_gradient a;
    int64_t queries, keys, d;
    TRF__TRY(trf__begin(context, "context", err));
    if (!saved) return trf__fail(err, TRF_E_INVALID_ARG, -1, "saved", "saved must be what forward has filled");
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, err));
    queries = q->shape[0]; keys = k->shape[0]; d = q->shape[1];
    TRF__TRY(trf__shape_check(dq, "dq", queries, d, err));
    TRF__TRY(trf__shape_check(dk, "dk", keys, d, err));
    TRF__TRY(trf__shape_check(dv, "dv", keys, d, err));
    TRF__TRY(trf__shape_check(dout, "dout", queries, d, err));
    TRF__TRY(trf__shape_check(out, "out", queries, d, err));
    trf__attention_guests(context, &a.in, q, k, v);
    a.dq = trf__act_guest(context, dq, 'o');
    a.dk = trf__act_guest(context, dk, 'o');
    a.dv = trf__act_guest(context, dv, 'o');
    a.dout = trf__act_guest(context, dout, 'i');
    a.out = trf__act_guest(context, out, 'i');
    a.stats = trf__guest_of(context, saved, 'i');
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->attention_gradient(&context->run, &a);
    return trf__guests_leave(context, TRF_OK, err);
}
#endif

/* saved of multi-head attention: wide, inner, stats, memory, in this order (see >>sublayers). There is always room
   for 3d columns of `wide` and for `memory`, though no attention needs both: one formula for all. */
TRF_API int64_t trf_multi_head_attention_saved(int64_t query_rows, int64_t key_rows, int64_t d_model, int32_t n_heads)
{
    int64_t queries = trf__times(trf__times(4, query_rows), d_model);
    int64_t keys = trf__times(trf__times(2, key_rows), d_model), stats = trf_attention_saved(query_rows, n_heads);
    if (keys > INT64_MAX - queries || stats > INT64_MAX - queries - keys) return INT64_MAX;
    return queries + keys + stats;
}

TRF__FN trf_status trf__params_check(const trf_attention_params *p, int64_t d, trf_error *err)
{
    if (!p) return trf__fail_null(err, "params");
    TRF__TRY(trf__shape_check(&p->in_weight, "in_weight", 3 * d, d, err));
    TRF__TRY(trf__shape_check(&p->in_bias, "in_bias", 3 * d, -1, err));
    TRF__TRY(trf__shape_check(&p->out_weight, "out_weight", d, d, err));
    return trf__shape_check(&p->out_bias, "out_bias", d, -1, err);
}

/* Checks everything the two directions share. */
TRF__FN trf_status trf__multi_head_check(trf_context *context, trf__work *sub, const trf_tensor *x,
                                         const trf_tensor *memory, const trf_attention_params *params,
                                         const trf_attention_shape *shape, const trf_tensor *saved, trf_error *err)
{
    int64_t d, saved_numbers;
    TRF__ZERO(*sub);
    TRF__TRY(trf__matrix(x, "x", -1, &d, err));
    TRF__TRY(trf__params_check(params, d, err));
    TRF__TRY(trf__attention_prepare(context, shape, d, &sub->attention, &sub->rows, &sub->memory_rows, err));
    TRF__TRY(trf__shape_check(x, "x", sub->rows, d, err));
    TRF__TRY(trf__shape_check(memory ? memory : x, "memory", sub->memory_rows, d, err));
    sub->d = d;
    saved_numbers = trf_multi_head_attention_saved(sub->rows, sub->memory_rows, d, shape->n_heads);
    TRF__TRY(trf__shape_check(saved, "saved", saved_numbers, -1, err));
    return context->run.backend->reserve(&context->run, sub->attention.most_keys, sub->attention.d_head, 0, err);
}

/* Brings weights and spans, and lays `saved` out. */
TRF__FN void trf__multi_head_guests(trf_context *context, trf__work *sub, int self,
                                    const trf_attention_params *params, const trf_tensor *saved, char use)
{
    int64_t numbers = sub->rows * sub->d;
    trf_real *kept = trf__guest_of(context, saved, use);
    sub->in_w = trf__mat_of(context, &params->in_weight);
    sub->out_w = trf__mat_of(context, &params->out_weight);
    sub->in_b = trf__guest_of(context, &params->in_bias, 'i');
    sub->out_b = trf__guest_of(context, &params->out_bias, 'i');
    sub->attention.spans = trf__spans_guest(context, sub->attention.n_spans);
    if (!kept) return;
    sub->stats = kept + 4 * numbers;
    sub->wide = (trf__act *)(void *)kept;
    sub->inner = (trf__act *)(void *)(kept + 3 * numbers);
    if (!self)
        sub->memory = (trf__act *)(void *)(sub->stats + trf_attention_saved(sub->rows, sub->attention.heads));
    sub->fresh = sub->memory;
}

/* Self-attention, in whichever way it is said: then there is no memory. */
TRF__FN const trf_tensor *trf__other_memory(const trf_tensor *x, const trf_tensor *memory)
{
    return memory && x && memory->data == x->data && memory->shape[0] == x->shape[0] ? NULL : memory;
}

TRF_API trf_status trf_multi_head_attention(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                            const trf_tensor *memory, const trf_attention_params *params,
                                            const trf_attention_shape *shape, trf_tensor *saved, trf_error *err)
{
    trf__work sub;
    trf__act *out;
    const trf__act *in, *m;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, saved, err));
    TRF__TRY(trf__shape_check(y, "y", sub.rows, sub.d, err));
    trf__multi_head_guests(context, &sub, !memory, params, saved, 'o');
    out = trf__act_guest(context, y, 'o');
    in = trf__act_guest(context, x, 'i');
    m = trf__act_guest(context, memory, 'i');
    TRF__TRY(trf__guests_ready(context, err));
    trf__attention_forward(&context->run, &sub, out, in, m);
    return trf__guests_leave(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
/* Room for the gradients of wide, inner and memory. */
TRF__FN trf_status trf__work_room(trf_context *context, trf__work *sub, int64_t wide, int64_t inner, int64_t memory,
                                 trf_error *err)
{
    TRF__TRY(trf__room_for(&context->run, &context->room,
                           trf__bytes(wide + inner + memory, context->run.element), err));
    sub->dwide = (trf__act *)context->room.memory;
    sub->dinner = trf__act_at(&context->run, sub->dwide, wide);
    sub->dmemory = trf__act_at(&context->run, sub->dinner, inner);
    return TRF_OK;
}

TRF_API trf_status trf_multi_head_attention_backward(trf_context *context, trf_tensor *dx, trf_tensor *dmemory,
                                                     trf_attention_params *dparams, const trf_tensor *dy,
                                                     const trf_tensor *x, const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape, const trf_tensor *saved,
                                                     trf_error *err)
{
    trf__work sub;
    trf__act *out, *dm;
    const trf__act *in, *m, *dout;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, saved, err));
    TRF__TRY(trf__params_check(dparams, sub.d, err));
    TRF__TRY(trf__shape_check(dx, "dx", sub.rows, sub.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", sub.rows, sub.d, err));
    if (memory && (dmemory || sub.memory_rows > 0))
        TRF__TRY(trf__shape_check(dmemory, "dmemory", sub.memory_rows, sub.d, err));
    TRF__TRY(trf__work_room(context, &sub, 3 * sub.rows * sub.d, sub.rows * sub.d,
                           memory ? 2 * sub.memory_rows * sub.d : 0, err));
    trf__multi_head_guests(context, &sub, !memory, params, saved, 'i');
    sub.d_in_w = trf__guest_of(context, &dparams->in_weight, 'a');
    sub.d_in_b = trf__guest_of(context, &dparams->in_bias, 'a');
    sub.d_out_w = trf__guest_of(context, &dparams->out_weight, 'a');
    sub.d_out_b = trf__guest_of(context, &dparams->out_bias, 'a');
    out = trf__act_guest(context, dx, 'o');
    dm = trf__act_guest(context, memory ? dmemory : NULL, 'o');
    dout = trf__act_guest(context, dy, 'i');
    in = trf__act_guest(context, x, 'i');
    m = trf__act_guest(context, memory, 'i');
    TRF__TRY(trf__guests_ready(context, err));
    trf__attention_backward(&context->run, &sub, out, dm, 0, dout, in, m);
    return trf__guests_leave(context, TRF_OK, err);
}
#endif

// >>blocks-feed-forward

/* saved: wide, then inner. */
TRF_API int64_t trf_feed_forward_saved(int64_t rows, int64_t d_ff) { return trf__times(trf__times(2, rows), d_ff); }

TRF__FN trf_status trf__feed_forward_check(trf__work *sub, const trf_tensor *x, const trf_feed_forward_params *p,
                                           trf_activation activation, const trf_tensor *saved, trf_error *err)
{
    TRF__ZERO(*sub);
    TRF__TRY(trf__matrix(x, "x", -1, &sub->d, err));
    sub->rows = x->shape[0];
    sub->activation = (int)activation;
    if (!p) return trf__fail_null(err, "params");
    TRF__TRY(trf__check_range("activation", (double)activation, 0, 2, err));
    TRF__TRY(trf__weight_check(&p->w1, "w1", &sub->f, sub->d, err));
    TRF__TRY(trf__shape_check(&p->b1, "b1", sub->f, -1, err));
    TRF__TRY(trf__shape_check(&p->w2, "w2", sub->d, sub->f, err));
    TRF__TRY(trf__shape_check(&p->b2, "b2", sub->d, -1, err));
    return trf__shape_check(saved, "saved", trf_feed_forward_saved(sub->rows, sub->f), -1, err);
}

TRF__FN void trf__feed_forward_guests(trf_context *context, trf__work *sub, const trf_feed_forward_params *p,
                                      const trf_tensor *saved, char use)
{
    sub->wide = trf__act_guest(context, saved, use);
    sub->inner = trf__act_at(&context->run, sub->wide, sub->rows * sub->f);
    sub->in_w = trf__mat_of(context, &p->w1); sub->in_b = trf__guest_of(context, &p->b1, 'i');
    sub->out_w = trf__mat_of(context, &p->w2); sub->out_b = trf__guest_of(context, &p->b2, 'i');
}

TRF_API trf_status trf_feed_forward(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                    const trf_feed_forward_params *params, trf_activation activation,
                                    trf_tensor *saved, trf_error *err)
{
    trf__work sub;
    trf__act *out;
    const trf__act *in;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__feed_forward_check(&sub, x, params, activation, saved, err));
    TRF__TRY(trf__shape_check(y, "y", sub.rows, sub.d, err));
    trf__feed_forward_guests(context, &sub, params, saved, 'o');
    out = trf__act_guest(context, y, 'o');
    in = trf__act_guest(context, x, 'i');
    TRF__TRY(trf__guests_ready(context, err));
    trf__feed_forward(&context->run, &sub, out, in);
    return trf__guests_leave(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_feed_forward_backward(trf_context *context, trf_tensor *dx, trf_feed_forward_params *dparams,
                                             const trf_tensor *dy, const trf_tensor *x,
                                             const trf_feed_forward_params *params, trf_activation activation,
                                             const trf_tensor *saved, trf_error *err)
{
    trf__work sub, same;
    trf__act *out;
    const trf__act *in, *dout;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__feed_forward_check(&sub, x, params, activation, saved, err));
    TRF__TRY(trf__shape_check(dx, "dx", sub.rows, sub.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", sub.rows, sub.d, err));
    TRF__TRY(trf__feed_forward_check(&same, x, dparams, activation, saved, err));  /* gradients have those shapes */
    TRF__TRY(trf__work_room(context, &sub, sub.rows * sub.f, sub.rows * sub.f, 0, err));
    trf__feed_forward_guests(context, &sub, params, saved, 'i');
    sub.d_in_w = trf__guest_of(context, &dparams->w1, 'a'); sub.d_in_b = trf__guest_of(context, &dparams->b1, 'a');
    sub.d_out_w = trf__guest_of(context, &dparams->w2, 'a'); sub.d_out_b = trf__guest_of(context, &dparams->b2, 'a');
    out = trf__act_guest(context, dx, 'o');
    dout = trf__act_guest(context, dy, 'i');
    in = trf__act_guest(context, x, 'i');
    TRF__TRY(trf__guests_ready(context, err));
    trf__feed_forward_backward(&context->run, &sub, out, dout, in);
    return trf__guests_leave(context, TRF_OK, err);
}
#endif

// >>blocks-residual

TRF__FN trf_status trf__dropout_check(const trf_dropout *dropout, trf_error *err)
{
    return dropout ? trf__check_range("p", dropout->p, 0, TRF__BELOW_ONE, err) : TRF_OK;
}

/* The dropout of one op; `now` is the caller's, until the guests leave. */
TRF__FN trf__drop trf__dropout_guest(trf_context *c, const trf_dropout *dropout, trf__now *now)
{
    TRF__ZERO(*now);
    if (!dropout) return trf__drop_of(0, 0);
    now->key0 = (uint32_t)dropout->seed;
    now->key1 = (uint32_t)(dropout->seed >> 32);
    now->step = (uint32_t)dropout->step;
    c->run.now = (const trf__now *)trf__bring(c, now, sizeof *now, 'i');
    return trf__drop_of(dropout->p, (uint32_t)dropout->site);
}

TRF_API trf_status trf_residual(trf_context *context, trf_tensor *y, const trf_tensor *x, const trf_tensor *sub,
                                const trf_dropout *dropout, trf_error *err)
{
    trf__norm n;
    trf__now now;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__dropout_check(dropout, err));
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(sub, "sub", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(y, "y", n.rows, n.d, err));
    n.s = trf__act_guest(context, y, 'o');
    n.x = trf__act_guest(context, x, 'i');
    n.sub = trf__act_guest(context, sub, 'i');
    n.drop = trf__dropout_guest(context, dropout, &now);
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->add_norm(&context->run, &n);
    return trf__guests_leave(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_residual_backward(trf_context *context, trf_tensor *dx, trf_tensor *dsub, const trf_tensor *dy,
                                         const trf_dropout *dropout, trf_error *err)
{
    trf__norm_gradient n;
    trf__now now;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__dropout_check(dropout, err));
    TRF__TRY(trf__matrix(dy, "dy", -1, &n.d, err));
    n.rows = dy->shape[0];
    TRF__TRY(trf__shape_check(dx, "dx", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(dsub, "dsub", n.rows, n.d, err));
    n.ds = trf__act_guest(context, dx, 'o');
    n.dsub = trf__act_guest(context, dsub, 'o');
    n.dy = trf__act_guest(context, dy, 'i');
    n.drop = trf__dropout_guest(context, dropout, &now);
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->norm_gradient(&context->run, &n);
    return trf__guests_leave(context, TRF_OK, err);
}
#endif

// >>blocks-cross-entropy

TRF__FN trf_status trf__targets_check(const int32_t *targets, int64_t rows, int64_t vocab, trf_error *err)
{
    int64_t i;
    if (rows > 0 && !targets) return trf__fail_null(err, "targets");
    for (i = 0; i < rows; i++)
        if (targets[i] < 0 || targets[i] >= vocab)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "targets", "target number %lld must be below %lld, got %d",
                             (long long)i, (long long)vocab, targets[i]);
    return TRF_OK;
}

/* What a loss needs besides its tensors, cut out of the context's room if there is one. Returns its size. */
TRF__FN size_t trf__loss_layout(const trf_context *c, trf__loss *l, int cut)
{
    trf__cursor cursor = trf__cursor_at(cut ? c->room.memory : NULL);
    l->row_loss = (double *)trf__take(&cursor, l->rows, sizeof(double));
    l->row_nll = (double *)trf__take(&cursor, l->rows, sizeof(double));
    l->sums = (trf__sums *)trf__take(&cursor, 1, sizeof(trf__sums));
    l->room = trf__take(&cursor, 1, c->run.backend->loss_room(&c->run.device, l->rows, l->vocab, l->d, 0));
    return cursor.used;
}

TRF_API trf_status trf_cross_entropy(trf_context *context, double *loss, trf_tensor *dx, trf_tensor *dweight,
                                     trf_tensor *dbias, const trf_tensor *x, const trf_tensor *weight,
                                     const trf_tensor *bias, const int32_t *targets,
                                     const trf_cross_entropy_options *options, trf_error *err)
{
    trf__loss l;
    trf__sums sums;
    int64_t vocab, d, k, i;
    if (loss) *loss = 0;
    TRF__TRY(trf__begin(context, "context", err));
    if (!loss || !options) return trf__fail_null(err, loss ? "options" : "loss");
    TRF__ZERO(l);
    TRF__TRY(trf__matrix(x, "x", -1, &d, err));
    TRF__TRY(trf__matrix(weight, "weight", -1, &k, err));
    vocab = weight->shape[0];
    l.rows = x->shape[0];
    l.d = d;
    TRF__TRY(trf__shape_check(weight, "weight", vocab, d, err));
    TRF__TRY(trf__check_range("label_smoothing", options->label_smoothing, 0, TRF__BELOW_ONE, err));
    TRF__TRY(trf__check_range("rule", (double)options->rule, 0, 3, err));
    TRF__TRY(trf__check_range("pad", options->pad, -1, (double)vocab - 1, err));
    TRF__TRY(trf__check_range("vocab", (double)vocab, options->rule == TRF_SMOOTH_NO_PAD_KL ? 3 : 2, 1 << 24, err));
    if (options->rule == TRF_SMOOTH_NO_PAD_KL)
        TRF__TRY(trf__check_range("pad", options->pad, 0, (double)vocab - 1, err));
    if (bias) TRF__TRY(trf__shape_check(bias, "bias", vocab, -1, err));
    if (dx) TRF__TRY(trf__shape_check(dx, "dx", l.rows, d, err));
    if (dweight) TRF__TRY(trf__shape_check(dweight, "dweight", vocab, d, err));
    if (dbias) TRF__TRY(trf__shape_check(dbias, "dbias", vocab, -1, err));
#if defined(TRF_NO_TRAIN)
    if (dx) return trf__fail(err, TRF_E_UNSUPPORTED, -1, "dx", "this build has no gradients (TRF_NO_TRAIN)");
#endif
    if ((dweight || dbias) && !dx)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "dx",
                         "gradients of weight or bias are only computed together with dx");
    TRF__TRY(trf__targets_check(targets, l.rows, vocab, err));
    trf__smooth(&l, options->label_smoothing, (int)options->rule, vocab, options->pad);
    TRF__TRY(trf__room_for(&context->run, &context->room, trf__loss_layout(context, &l, 0), err));
    trf__loss_layout(context, &l, 1);
    TRF__GROW(int32_t, context->ints, context->ints_capacity, l.rows, &context->run.hooks);
    for (i = 0; i < l.rows; i++) context->ints[i] = targets[i] == options->pad ? -1 : targets[i];
    l.targets = trf__list_guest(context, context->ints, l.rows);
    l.dx = trf__act_guest(context, dx, 'o');
    l.dw = trf__guest_of(context, dweight, 'a'); l.db = trf__guest_of(context, dbias, 'a');
    l.x = trf__act_guest(context, x, 'i');
    l.w = trf__mat_of(context, weight); l.bias = trf__guest_of(context, bias, 'i');
    TRF__TRY(trf__guests_ready(context, err));
    context->run.backend->cross_entropy(&context->run, &l);
    context->run.backend->download(&context->run, &sums, l.sums, sizeof sums);
    TRF__TRY(trf__guests_leave(context, TRF_OK, err));
    *loss = sums.loss;
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>corpus         training pairs in batches, and where we are in them
//
// All ids lie in one array, source and target of pair 0, of pair 1, ...; a pair is a place in it and two
// lengths. An epoch is planned at its start, from (seed, epoch) alone: the pairs' order (shuffled, then
// with buckets stably sorted by target length and source length, so that equals stay shuffled), cut into
// batches wherever the next pair would break a limit, and with buckets the batches' order shuffled too.
// Without shuffling pairs come as added, with buckets in the order of their lengths. A pair that is
// over the budget alone has a batch of its own. Each pair comes exactly once an epoch.
//
// The position is (complete epochs, batches delivered of the next one); it moves on with every delivery,
// so behind the last batch of epoch e it is (e + 1, 0). With a fingerprint of all that decides the order it is
// a trf_place: each batch carries its own, so that a trainer knows how far it has come (>>step), and checkpoints
// store that (>>checkpoint). All buffers are made by the first next or seek; then nothing grows.
// -----------------------------------------------------------------------------------------------

typedef struct trf__pair {
    int64_t begin;              /* of the source in the ids; the target follows it */
    int32_t n_source, n_target;
} trf__pair;

struct trf_corpus {
    trf_corpus_options options;
    int32_t *ids;
    trf__pair *pairs;
    int64_t n_ids, id_capacity, n_pairs, pair_capacity;
    trf__text_ids texts[2];     /* of the pair that was added last as text */
    int64_t longest;            /* ids of the longest side of any pair */
    uint64_t hash;              /* of all pairs, kept up to date by every add */

    int64_t epoch, batch;       /* the position, */
    int64_t put_epoch, put_batch;   /* and where it was put last: by rewinding or resuming */
    int64_t planned;            /* the epoch that the plan is for, or -1 */
    int64_t n_batches;          /* of the plan */
    void *memory;               /* everything below; NULL until the first next or seek */
    size_t memory_bytes;
    int32_t *order;             /* (n_pairs) pair numbers in the order of the plan */
    int32_t *other;             /* (n_pairs) what sorting moves into; afterwards the batches' order */
    int32_t *first;             /* (n_pairs + 1) batch b has order[first[b]] to order[first[b + 1] - 1] */
    int32_t *counts;            /* (longest + 2) pairs per length, for sorting */
    int32_t *lengths[2];        /* the delivered batch, source and target */
    int32_t *batch_ids[2];
};

/* One step of a running 64-bit hash. */
TRF__FN uint64_t trf__hash_add(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

/* Random numbers drawn one after another under one key: an epoch's, or a sequence's (>>noise). */
typedef struct trf__draws { uint64_t key, next; uint32_t stream; } trf__draws;
enum { TRF__SHUFFLE_EPOCH = 0x7C000000, TRF__SHUFFLE_PAIRS, TRF__SHUFFLE_BATCHES };

/* Uniform in 0..n-1: draws below 2^64 mod n are thrown away, so what is left is a multiple of n. */
TRF__FN uint64_t trf__draw_below(trf__draws *draws, uint64_t n)
{
    uint64_t refused = (0 - n) % n, x;
    do x = trf__random64(draws->key, draws->stream, draws->next++); while (x < refused);
    return x % n;
}

/* Fisher and Yates: every order is equally likely. */
TRF__FN void trf__shuffle(int32_t *items, int64_t n, uint64_t key, uint32_t stream)
{
    trf__draws draws;
    int64_t i;
    draws.key = key;
    draws.next = 0;
    draws.stream = stream;
    for (i = n - 1; i > 0; i--) {
        uint64_t j = trf__draw_below(&draws, (uint64_t)i + 1);
        int32_t item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

/* Stable counting sort of the order by one side's length: O(pairs + longest). */
TRF__FN void trf__corpus_sort(trf_corpus *c, int by_target)
{
    int32_t *sorted = c->other;
    int64_t i;
    memset(c->counts, 0, (size_t)(c->longest + 2) * sizeof *c->counts);
    for (i = 0; i < c->n_pairs; i++) c->counts[(by_target ? c->pairs[i].n_target : c->pairs[i].n_source) + 1]++;
    for (i = 1; i <= c->longest; i++) c->counts[i] += c->counts[i - 1];     /* counts[l]: pairs shorter than l */
    for (i = 0; i < c->n_pairs; i++) {
        const trf__pair *pair = &c->pairs[c->order[i]];
        sorted[c->counts[by_target ? pair->n_target : pair->n_source]++] = c->order[i];
    }
    c->other = c->order;
    c->order = sorted;
}

/* Cuts the order into batches: `first` and n_batches. Each side of a pair has one token more than ids. */
TRF__FN void trf__corpus_cut(trf_corpus *c)
{
    const trf_corpus_options *o = &c->options;
    int64_t source = 0, target = 0, longest = 0, begin = 0, i;
    c->n_batches = 0;
    for (i = 0; i < c->n_pairs; i++) {
        const trf__pair *pair = &c->pairs[c->order[i]];
        int64_t s = (int64_t)pair->n_source + 1, t = (int64_t)pair->n_target + 1;
        int64_t longer = trf__max64(longest, trf__max64(s, t));
        int over = o->padded_budget ? longer * (i - begin + 1) > o->batch_tokens
                                    : source + s > o->batch_tokens || target + t > o->batch_tokens;
        if (i == 0 || over || i - begin >= o->batch_sentences) {
            c->first[c->n_batches++] = (int32_t)i;
            begin = i;
            source = target = 0;
            longer = trf__max64(s, t);
        }
        source += s;
        target += t;
        longest = longer;
    }
    c->first[c->n_batches] = (int32_t)c->n_pairs;
}

/* Makes the plan of an epoch, unless it is there. */
TRF__FN void trf__corpus_plan(trf_corpus *c, int64_t epoch)
{
    uint64_t key = trf__random64(c->options.seed, TRF__SHUFFLE_EPOCH, (uint64_t)epoch);
    int64_t i;
    if (c->planned == epoch) return;
    for (i = 0; i < c->n_pairs; i++) c->order[i] = (int32_t)i;
    if (c->options.shuffle) trf__shuffle(c->order, c->n_pairs, key, TRF__SHUFFLE_PAIRS);
    if (c->options.buckets) {
        trf__corpus_sort(c, 0);
        trf__corpus_sort(c, 1);
    }
    trf__corpus_cut(c);
    for (i = 0; i < c->n_batches; i++) c->other[i] = (int32_t)i;
    if (c->options.shuffle && c->options.buckets) trf__shuffle(c->other, c->n_batches, key, TRF__SHUFFLE_BATCHES);
    c->planned = epoch;
}

/* All buffers lie in one piece; returns its size. A batch holds no more than its limits and no more than there is. */
TRF__FN size_t trf__corpus_layout(trf_corpus *c, void *memory)
{
    int64_t sentences = trf__min64(c->options.batch_sentences, c->n_pairs);
    int64_t ids = trf__min64(trf__max64(c->options.batch_tokens, c->longest), c->n_ids);
    trf__cursor cursor = trf__cursor_at(memory);
    int side;
    c->order = (int32_t *)trf__take(&cursor, c->n_pairs, sizeof(int32_t));
    c->other = (int32_t *)trf__take(&cursor, c->n_pairs, sizeof(int32_t));
    c->first = (int32_t *)trf__take(&cursor, c->n_pairs + 1, sizeof(int32_t));
    c->counts = (int32_t *)trf__take(&cursor, c->longest + 2, sizeof(int32_t));
    for (side = 0; side < 2; side++) {
        c->lengths[side] = (int32_t *)trf__take(&cursor, sentences, sizeof(int32_t));
        c->batch_ids[side] = (int32_t *)trf__take(&cursor, ids, sizeof(int32_t));
    }
    return cursor.used;
}

TRF__FN trf_status trf__corpus_reserve(trf_corpus *c, trf_error *err)
{
    if (c->memory) return TRF_OK;
    c->memory_bytes = trf__corpus_layout(c, NULL);
    c->memory = trf__alloc(&c->options.hooks, c->memory_bytes);
    if (!c->memory)
        return trf__fail(err, TRF_E_NOMEM, -1, "corpus", "no memory to deliver %lld pairs", (long long)c->n_pairs);
    trf__corpus_layout(c, c->memory);
    return TRF_OK;
}

TRF__FN void trf__corpus_unreserve(trf_corpus *c)
{
    trf__free(&c->options.hooks, c->memory, c->memory_bytes);
    c->memory = NULL;
    c->planned = -1;
}

/* Copies batch number `batch` of the plan together. */
TRF__FN void trf__corpus_gather(trf_corpus *c, int64_t batch, trf_batch *out)
{
    int32_t begin = c->first[c->other[batch]], end = c->first[c->other[batch] + 1], i;
    int32_t *source = c->batch_ids[0], *target = c->batch_ids[1];
    for (i = begin; i < end; i++) {
        const trf__pair *pair = &c->pairs[c->order[i]];
        const int32_t *ids = c->ids + pair->begin;
        memcpy(source, ids, (size_t)pair->n_source * sizeof *ids);
        memcpy(target, ids + pair->n_source, (size_t)pair->n_target * sizeof *ids);
        source += pair->n_source;
        target += pair->n_target;
        c->lengths[0][i - begin] = pair->n_source;
        c->lengths[1][i - begin] = pair->n_target;
    }
    out->source.ids = c->batch_ids[0];
    out->target.ids = c->batch_ids[1];
    out->source.lengths = c->lengths[0];
    out->target.lengths = c->lengths[1];
    out->source.count = out->target.count = end - begin;
    out->ordinal = 0;
}

/* Moves there, as if everything before had been delivered; TRF_E_STATE if the data have no such place. Behind the
   last batch of an epoch the next one begins. */
TRF__FN trf_status trf__corpus_seek(trf_corpus *c, int64_t epoch, int64_t batch, trf_error *err)
{
    int first = !c->memory;
    int outside = epoch < 0 || batch < 0 || epoch > c->options.epochs || (epoch == c->options.epochs && batch > 0);
    if (c->n_pairs == 0) outside = epoch != 0 || batch != 0;
    if (!outside && c->n_pairs > 0) {
        TRF__TRY(trf__corpus_reserve(c, err));
        if (batch > 0) {
            trf__corpus_plan(c, epoch);
            outside = batch > c->n_batches;
            if (batch == c->n_batches) { epoch++; batch = 0; }
        }
    }
    if (outside) {
        if (first) trf__corpus_unreserve(c);
        return trf__fail(err, TRF_E_STATE, -1, "corpus", "expected a place in the data, got batch %lld of epoch %lld",
                         (long long)batch, (long long)epoch);
    }
    c->epoch = c->put_epoch = epoch;
    c->batch = c->put_batch = batch;
    return TRF_OK;
}

/* Two corpora with the same fingerprint deliver the same batches (but for one chance in 2^64), whatever
   has been delivered so far. */
TRF__FN uint64_t trf__corpus_fingerprint(const trf_corpus *c)
{
    const trf_corpus_options *o = &c->options;
    uint64_t hash = trf__hash_add(c->hash, (uint64_t)c->n_pairs);
    hash = trf__hash_add(hash, (uint64_t)o->batch_tokens);
    hash = trf__hash_add(hash, (uint64_t)o->batch_sentences);
    hash = trf__hash_add(hash, (uint64_t)(o->padded_budget + 2 * o->shuffle + 4 * o->buckets));
    return trf__hash_add(hash, o->seed);
}

/* Where the next batch stands. */
TRF__FN trf_place trf__corpus_place(const trf_corpus *c)
{
    trf_place place;
    place.corpus = trf__corpus_fingerprint(c);
    place.epoch = c->epoch;
    place.batch = c->batch;
    return place;
}

/* Position of the first padding that an id follows in its row, or -1. */
TRF__FN int64_t trf__find_inner_padding(const int32_t *padded, int32_t count, int32_t width, int32_t pad)
{
    int64_t row, last, i;
    for (row = 0; row < (int64_t)count * width; row += width) {
        last = row + width;
        while (last > row && padded[last - 1] == pad) last--;
        for (i = row; i < last; i++) if (padded[i] == pad) return i;
    }
    return -1;
}

TRF_API trf_status trf_from_padded(const int32_t *padded, int32_t count, int32_t width, int32_t pad,
                                   int32_t *ids, int32_t *lengths, int64_t *total, trf_error *err)
{
    int64_t n = 0, inner;
    int32_t row, i;
    trf__clear(err);
    if (total) *total = 0;
    if (count < 0) return trf__fail_below(err, "count", 0, count);
    if (width < 0) return trf__fail_below(err, "width", 0, width);
    if (!padded && count > 0 && width > 0) return trf__fail_null(err, "padded");
    if (!lengths && ids && count > 0) return trf__fail_null(err, "lengths");
    if (!total) return trf__fail_null(err, "total");
    inner = trf__find_inner_padding(padded, count, width, pad);
    if (inner >= 0)
        return trf__fail(err, TRF_E_INVALID_ARG, inner, "padded",
                         "expected padding only at the end of row %lld, got it in column %lld before an id",
                         (long long)(inner / width), (long long)(inner % width));
    for (row = 0; row < count; row++) {
        int64_t begin = (int64_t)row * width;
        for (i = 0; i < width && padded[begin + i] != pad; i++) if (ids) ids[n + i] = padded[begin + i];
        if (ids) lengths[row] = i;
        n += i;
    }
    *total = n;
    return TRF_OK;
}

TRF_API trf_status trf_to_padded(const trf_sequences *sequences, int32_t width, int32_t pad, int32_t *padded,
                                 trf_error *err)
{
    int64_t n = 0, k;
    int32_t row, i;
    TRF__TRY(trf__begin(sequences, "sequences", err));
    if (sequences->count < 0) return trf__fail_below(err, "count", 0, sequences->count);
    if (width < 0) return trf__fail_below(err, "width", 0, width);
    if (!sequences->lengths && sequences->count > 0) return trf__fail_null(err, "lengths");
    if (!padded && sequences->count > 0 && width > 0) return trf__fail_null(err, "padded");
    for (row = 0; row < sequences->count; row++) {
        int32_t length = sequences->lengths[row];
        if (length < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, row, "lengths", "lengths must be 0 or more, sequence %d has %d",
                             (int)row, (int)length);
        if (length > width)
            return trf__fail(err, TRF_E_LIMIT, row, "width", "expected at most %d ids a row, sequence %d has %d",
                             (int)width, (int)row, (int)length);
        n += length;
    }
    if (!sequences->ids && n > 0) return trf__fail_null(err, "ids");
    for (k = 0; k < n; k++)
        if (sequences->ids[k] == pad)
            return trf__fail(err, TRF_E_INVALID_ARG, k, "ids", "expected ids without padding (%d), got it at %lld",
                             (int)pad, (long long)k);
    for (n = k = row = 0; row < sequences->count; row++)
        for (i = 0; i < width; i++) padded[n++] = i < sequences->lengths[row] ? sequences->ids[k++] : pad;
    return TRF_OK;
}

TRF_API trf_corpus_options trf_corpus_defaults(void)
{
    trf_corpus_options o;
    TRF__ZERO(o);
    o.batch_tokens = 4096;
    o.batch_sentences = 1024;
    o.shuffle = 1;
    o.buckets = 1;
    o.max_length = 511;
    o.epochs = TRF_ENDLESS;
    return o;
}

TRF__FN trf_status trf__corpus_check(const trf_corpus_options *o, trf_error *err)
{
    TRF__RANGE(o, batch_tokens, 1, INT32_MAX);
    TRF__RANGE(o, batch_sentences, 1, INT32_MAX);
    TRF__RANGE(o, padded_budget, 0, 1);
    TRF__RANGE(o, shuffle, 0, 1);
    TRF__RANGE(o, buckets, 0, 1);
    TRF__RANGE(o, max_length, 1, INT32_MAX);
    TRF__RANGE(o, epochs, 1, (double)INT64_MAX);
    return trf__hooks_check(&o->hooks, err);
}

TRF_API trf_status trf_corpus_create(trf_corpus **corpus, const trf_corpus_options *options, trf_error *err)
{
    trf_corpus_options o = options ? *options : trf_corpus_defaults();
    TRF__TRY(trf__begin(corpus, "corpus", err));
    *corpus = NULL;
    TRF__TRY(trf__corpus_check(&o, err));
    *corpus = (trf_corpus *)trf__alloc_zeroed(&o.hooks, sizeof **corpus);
    if (!*corpus) return trf__fail(err, TRF_E_NOMEM, -1, "corpus", "no memory for a corpus");
    (*corpus)->options = o;
    (*corpus)->planned = -1;
    return TRF_OK;
}

TRF_API void trf_corpus_destroy(trf_corpus *corpus)
{
    trf_hooks hooks;
    if (!corpus) return;
    hooks = corpus->options.hooks;
    trf__corpus_unreserve(corpus);
    trf__free(&hooks, corpus->texts[0].ids, trf__bytes(corpus->texts[0].capacity, sizeof *corpus->ids));
    trf__free(&hooks, corpus->texts[1].ids, trf__bytes(corpus->texts[1].capacity, sizeof *corpus->ids));
    trf__free(&hooks, corpus->pairs, trf__bytes(corpus->pair_capacity, sizeof *corpus->pairs));
    trf__free(&hooks, corpus->ids, trf__bytes(corpus->id_capacity, sizeof *corpus->ids));
    trf__free(&hooks, corpus, sizeof *corpus);
}

/* One side of a new pair: length, pointer, and ids (or labels) from `least` on; trainers tell which are right. */
TRF__FN trf_status trf__corpus_check_side(const trf_corpus *c, const int32_t *ids, int32_t n, int32_t least,
                                          const char *what, const char *n_what, trf_error *err)
{
    int32_t i;
    if (n < 0) return trf__fail_below(err, n_what, 0, n);
    if (!ids && n > 0) return trf__fail_null(err, what);
    if (n > c->options.max_length)
        return trf__fail(err, TRF_E_LIMIT, c->options.max_length, n_what,
                         "%s of pair %lld must be at most max_length = %d, got %d",
                         n_what, (long long)c->n_pairs, (int)c->options.max_length, (int)n);
    for (i = 0; i < n; i++)
        if (ids[i] < least)
            return trf__fail(err, TRF_E_INVALID_ARG, i, what, "%s must be %d or more, pair %lld has %d at %d",
                             least ? "labels" : "ids", (int)least, (long long)c->n_pairs, (int)ids[i], (int)i);
    return TRF_OK;
}

TRF_API trf_status trf_corpus_add(trf_corpus *corpus, const int32_t *source, int32_t n_source,
                                  const int32_t *target, int32_t n_target, trf_error *err)
{
    trf__pair *pair;
    int64_t n_ids, i;
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (corpus->memory)
        return trf__fail(err, TRF_E_STATE, -1, "corpus", "expected pairs before the first batch, got one after it");
    if (corpus->n_pairs == INT32_MAX)
        return trf__fail(err, TRF_E_LIMIT, -1, "corpus", "expected at most 2147483647 pairs, got more");
    TRF__TRY(trf__corpus_check_side(corpus, source, n_source, 0, "source", "n_source", err));
    TRF__TRY(trf__corpus_check_side(corpus, target, n_target, -1, "target", "n_target", err));
    n_ids = corpus->n_ids + n_source + n_target;
    TRF__GROW(trf__pair, corpus->pairs, corpus->pair_capacity, corpus->n_pairs + 1, &corpus->options.hooks);
    TRF__GROW(int32_t, corpus->ids, corpus->id_capacity, n_ids, &corpus->options.hooks);
    pair = &corpus->pairs[corpus->n_pairs++];
    pair->begin = corpus->n_ids;
    pair->n_source = n_source;
    pair->n_target = n_target;
    if (n_source) memcpy(corpus->ids + pair->begin, source, (size_t)n_source * sizeof *source);
    if (n_target) memcpy(corpus->ids + pair->begin + n_source, target, (size_t)n_target * sizeof *target);
    corpus->n_ids = n_ids;
    corpus->longest = trf__max64(corpus->longest, trf__max64(n_source, n_target));
    corpus->hash = trf__hash_add(corpus->hash, (uint64_t)n_source << 32 | (uint32_t)n_target);
    for (i = pair->begin; i < n_ids; i++) corpus->hash = trf__hash_add(corpus->hash, (uint64_t)corpus->ids[i]);
    return TRF_OK;
}

TRF_API trf_status trf_corpus_add_chunks(trf_corpus *corpus, const int32_t *ids, int64_t n, int32_t length,
                                         trf_error *err)
{
    trf_status status = TRF_OK;
    trf_corpus before;
    int64_t i;
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    if (!ids && n > 0) return trf__fail_null(err, "ids");
    if (length < 1) return trf__fail_below(err, "length", 1, length);
    before = *corpus;
    for (i = 0; status == TRF_OK && i < n; i += length) {
        status = trf_corpus_add(corpus, NULL, 0, ids + i, (int32_t)trf__min64(length, n - i), err);
        if (status == TRF_E_INVALID_ARG && err) err->where += i;
    }
    if (status == TRF_OK) return TRF_OK;
    corpus->n_pairs = before.n_pairs;
    corpus->n_ids = before.n_ids;
    corpus->longest = before.longest;
    corpus->hash = before.hash;
    return status;
}

/* One side of a new pair from its text. Pieces take bytes that are not UTF-8 for U+FFFD. */
TRF__FN trf_status trf__corpus_encode(trf_corpus *c, int side, const trf_vocab *vocab, const char *text,
                                      const char *what, trf_error *err)
{
    c->texts[side].n = 0;
    if (!vocab) return TRF_OK;
    if (!text) return trf__fail_null(err, what);
    if (!vocab->pieces) TRF__TRY(trf__check_utf8(text, what, err));
    return trf__encode_all(vocab, text, &c->texts[side], &c->options.hooks, err);
}

TRF_API trf_status trf_corpus_add_text(trf_corpus *corpus, const trf_vocab *source_vocab, const char *source,
                                       const trf_vocab *target_vocab, const char *target, trf_error *err)
{
    const trf__text_ids *texts;
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (!source_vocab && !target_vocab)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "source_vocab", "one of the vocabularies must not be NULL");
    texts = corpus->texts;
    TRF__TRY(trf__corpus_encode(corpus, 0, source_vocab, source, "source", err));
    TRF__TRY(trf__corpus_encode(corpus, 1, target_vocab, target, "target", err));
    return trf_corpus_add(corpus, texts[0].ids, texts[0].n, texts[1].ids, texts[1].n, err);
}

TRF_API int64_t trf_corpus_size(const trf_corpus *corpus) { return corpus ? corpus->n_pairs : 0; }

TRF_API int64_t trf_corpus_epoch(const trf_corpus *corpus) { return corpus ? corpus->epoch : 0; }

TRF_API void trf_corpus_rewind(trf_corpus *corpus)
{
    if (corpus) corpus->epoch = corpus->batch = corpus->put_epoch = corpus->put_batch = 0;
}

TRF_API trf_status trf_corpus_next(trf_corpus *corpus, trf_batch *batch, trf_error *err)
{
    if (batch) TRF__ZERO(*batch);
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (!batch) return trf__fail_null(err, "batch");
    if (corpus->n_pairs == 0) return trf__fail(err, TRF_E_STATE, -1, "corpus", "expected one pair or more, got none");
    if (corpus->epoch >= corpus->options.epochs)
        return trf__fail(err, TRF_E_END, -1, "epochs", "expected at most %lld epochs, got a call for one more",
                         (long long)corpus->options.epochs);
    TRF__TRY(trf__corpus_reserve(corpus, err));
    trf__corpus_plan(corpus, corpus->epoch);
    batch->place = trf__corpus_place(corpus);
    trf__corpus_gather(corpus, corpus->batch++, batch);
    if (corpus->batch == corpus->n_batches) {
        corpus->epoch++;
        corpus->batch = 0;
    }
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>noise          batches to learn from out of plain text: masks, spans, prefixes
//
// The rules stand at trf_noise_kind. A sequence draws its numbers one after another with a key of its own, made from
// seed, place and ordinal. Neither side made of it has more ids, so one block is made at once for the whole batch:
//
//   source ids (n), target ids (n), their lengths (count each), and room for the sequence at hand (its n)
// -----------------------------------------------------------------------------------------------

enum { TRF__NOISE_EPOCH = 0x7D000000, TRF__NOISE_BATCH, TRF__NOISE_SEQUENCE, TRF__NOISE_ORDER, TRF__NOISE_DRAW };

struct trf_noise {
    trf_noise_options options;
    int32_t *numbers;
    int64_t capacity;
};

/* A sequence, what becomes of it, and its random numbers. */
typedef struct trf__noisy {
    const int32_t *ids;
    int32_t *source, *target, *room;
    int32_t n, n_source, n_target;
    trf__draws draws;
} trf__noisy;

/* Whether a word begins with `id` behind `last`; -1: with nothing before it. */
TRF__FN int trf__begins_word(const trf_vocab *v, int32_t last, int32_t id)
{
    const char *token = trf_vocab_token(v, id), *before = trf_vocab_token(v, last);
    size_t blank = strlen(TRF__SPACE), n;
    if (!token || !before || v->kind == TRF_WORDS) return 1;
    if (v->kind == TRF_CHARACTERS) return trf__is_blank(*token) || trf__is_blank(*before);
    if (!v->pieces->suffix) return *token == ' ' || !strncmp(token, TRF__SPACE, blank);
    n = strlen(before);
    return before[n - 1] == ' ' || (n >= blank && !strcmp(before + n - blank, TRF__SPACE));
}

TRF__FN void trf__noise_masks(const trf_noise_options *o, trf__noisy *x)
{
    const trf_vocab *words = o->whole_words ? o->words : NULL;
    uint64_t tokens = (uint64_t)o->vocab - 4;
    int32_t wanted = (int32_t)trf__max64(1, (int64_t)rint(o->density * x->n)), n_words = 0, n = 0, w, i;
    for (i = 0; i < x->n; i++) {
        x->source[i] = x->ids[i];
        x->target[i] = -1;
        if (trf__begins_word(words, i ? x->ids[i - 1] : -1, x->ids[i])) x->room[n_words++] = i;
    }
    trf__shuffle(x->room, n_words, x->draws.key, TRF__NOISE_ORDER);
    for (w = 0; w < n_words && n < wanted; w++) {
        int32_t end = x->room[w] + 1;
        while (end < x->n && !trf__begins_word(words, x->ids[end - 1], x->ids[end])) end++;
        if (end - x->room[w] > wanted - n && (n > 0 || w + 1 < n_words)) continue;
        for (i = x->room[w]; i < end; i++, n++) {
            double chance = trf__uniform(x->draws.key, x->draws.stream, x->draws.next++) - o->masked;
            x->target[i] = x->ids[i];
            if (chance < 0) x->source[i] = o->mask;
            else if (chance < o->randomised) x->source[i] = 4 + (int32_t)trf__draw_below(&x->draws, tokens);
        }
    }
    x->n_source = x->n_target = x->n;
}

/* Cuts `items` into so many pieces of one or more: each of the places that are left is one of the cuts
   that are left with the same probability (Knuth's algorithm S). */
TRF__FN void trf__noise_cut(trf__draws *draws, int32_t *lengths, int64_t items, int64_t pieces)
{
    uint64_t cuts = (uint64_t)pieces - 1, left;
    int32_t length = 1;
    for (left = (uint64_t)items - 1; left > 0; left--, length++)
        if (trf__draw_below(draws, left) < cuts) { *lengths++ = length; length = 0; cuts--; }
    *lengths = length;
}

TRF__FN void trf__noise_spans(const trf_noise_options *o, trf__noisy *x)
{
    int64_t k = trf__min64(trf__max64(1, (int64_t)rint(o->density * x->n)), x->n - 1), plain = x->n - k;
    int64_t spans = trf__max64(1, (int64_t)rint((double)k / o->mean_span)), s, i;
    const int32_t *from = x->ids;
    spans = trf__min64(spans, trf__min64(trf__min64(k, plain), o->n_sentinels));
    trf__noise_cut(&x->draws, x->room, k, spans);
    trf__noise_cut(&x->draws, x->room + spans, plain, spans);
    for (s = 0; s < spans; s++) {
        for (i = x->room[spans + s]; i > 0; i--) x->source[x->n_source++] = *from++;
        x->source[x->n_source++] = x->target[x->n_target++] = o->first_sentinel + (int32_t)s;
        for (i = x->room[s]; i > 0; i--) x->target[x->n_target++] = *from++;
    }
}

/* The first `cut` ids are the source, what follows the target. */
TRF__FN void trf__noise_prefix(trf__noisy *x, int32_t cut)
{
    for (; x->n_source < cut; x->n_source++) x->source[x->n_source] = x->ids[x->n_source];
    for (; cut + x->n_target < x->n; x->n_target++) x->target[x->n_target] = x->ids[cut + x->n_target];
}

TRF_API trf_noise_options trf_noise_defaults(void)
{
    trf_noise_options o;
    TRF__ZERO(o);
    o.density = 0.15;
    o.masked = 0.8;
    o.randomised = 0.1;
    o.mean_span = 3;
    return o;
}

TRF__FN trf_status trf__noise_check(const trf_noise_options *o, trf_error *err)
{
    int masks = o->kind == TRF_NOISE_MASKS, spans = o->kind == TRF_NOISE_SPANS;
    TRF__RANGE(o, kind, 0, TRF_NOISE_PREFIX);
    TRF__RANGE(o, density, 0, 1);
    TRF__RANGE(o, masked, 0, 1);
    TRF__RANGE(o, randomised, 0, 1);
    TRF__TRY(trf__check_range("masked + randomised", o->masked + o->randomised, 0, 1, err));
    TRF__RANGE(o, whole_words, 0, masks);
    TRF__RANGE(o, mean_span, 1, 1e6);
    TRF__RANGE(o, vocab, masks ? 5 : 0, 1 << 24);
    TRF__RANGE(o, mask, 0, masks ? o->vocab - 1 : 1 << 24);
    TRF__RANGE(o, first_sentinel, spans ? TRF__SPECIALS : 0, 1 << 24);
    TRF__RANGE(o, n_sentinels, spans, 1 << 24);
    if (o->words && !o->words->finished) return trf__fail_learning(err);
    return trf__hooks_check(&o->hooks, err);
}

TRF__COLD
TRF_API trf_status trf_noise_create(trf_noise **noise, const trf_noise_options *options, trf_error *err)
{
    trf_noise_options o = options ? *options : trf_noise_defaults();
    TRF__TRY(trf__begin(noise, "noise", err));
    *noise = NULL;
    TRF__TRY(trf__noise_check(&o, err));
    *noise = (trf_noise *)trf__alloc_zeroed(&o.hooks, sizeof **noise);
    if (!*noise) return trf__fail(err, TRF_E_NOMEM, -1, "noise", "no memory for a maker of noise");
    (*noise)->options = o;
    return TRF_OK;
}

TRF_API void trf_noise_destroy(trf_noise *noise)
{
    trf_hooks hooks;
    if (!noise) return;
    hooks = noise->options.hooks;
    trf__free(&hooks, noise->numbers, trf__bytes(noise->capacity, sizeof *noise->numbers));
    trf__free(&hooks, noise, sizeof *noise);
}

/* Checks the ids of sequence number i, which begins at id number `at` of the batch. */
TRF__FN trf_status trf__noise_check_ids(const trf_noise_options *o, const trf__noisy *x, int64_t at, int64_t i,
                                        trf_error *err)
{
    int32_t below = o->kind == TRF_NOISE_MASKS ? o->vocab : INT32_MAX, k;
    int32_t first = o->first_sentinel, sentinels = o->kind == TRF_NOISE_SPANS ? o->n_sentinels : 0;
    for (k = 0; k < x->n; k++) {
        int32_t id = x->ids[k], sentinel = id >= first && id - first < sentinels;
        if (id < 0 || id >= below || sentinel)
            return trf__fail(err, TRF_E_INVALID_ARG, at + k, "source",
                             "source sequence %lld, position %d: expected an id below %d%s, got %d", (long long)i, k,
                             below, sentinel ? " that is no sentinel" : "", id);
    }
    return TRF_OK;
}

TRF_API trf_status trf_noise_apply(trf_noise *noise, const trf_batch *plain, trf_batch *made, trf_error *err)
{
    const trf_noise_options *o;
    trf_batch batch;
    trf__noisy x;
    int32_t *lengths, i;
    int64_t n = 0, longest = 0, at;
    uint64_t key;
    TRF__ZERO(batch);
    TRF__ZERO(x);
    if (plain) batch = *plain;
    if (made) TRF__ZERO(*made);
    TRF__TRY(trf__begin(noise, "noise", err));
    if (!plain) return trf__fail_null(err, "plain");
    if (!made) return trf__fail_null(err, "made");
    o = &noise->options;
    TRF__TRY(trf__check_lengths(&batch.source, 0, INT32_MAX, "source", &n, &longest, err));
    TRF__GROW(int32_t, noise->numbers, noise->capacity, 2 * n + 2 * (int64_t)batch.source.count + longest, &o->hooks);
    lengths = noise->numbers + 2 * n;
    x.source = noise->numbers;
    x.target = noise->numbers + n;
    x.room = lengths + 2 * (int64_t)batch.source.count;
    key = trf__random64(o->seed, TRF__NOISE_EPOCH, (uint64_t)batch.place.epoch);
    key = trf__random64(key, TRF__NOISE_BATCH, (uint64_t)batch.place.batch);
    for (at = i = 0; i < batch.source.count; i++, at += x.n) {
        x.n = batch.source.lengths[i];
        x.ids = x.n ? batch.source.ids + at : NULL;
        x.n_source = x.n_target = 0;
        x.draws.key = trf__random64(key, TRF__NOISE_SEQUENCE, (uint64_t)batch.ordinal + (uint64_t)i);
        x.draws.next = 0;
        x.draws.stream = TRF__NOISE_DRAW;
        TRF__TRY(trf__noise_check_ids(o, &x, at, i, err));
        if (o->kind == TRF_NOISE_MASKS) trf__noise_masks(o, &x);
        else if (x.n < 2) trf__noise_prefix(&x, x.n);
        else if (o->kind == TRF_NOISE_SPANS) trf__noise_spans(o, &x);
        else trf__noise_prefix(&x, 1 + (int32_t)trf__draw_below(&x.draws, (uint64_t)x.n - 1));
        lengths[i] = x.n_source;
        lengths[batch.source.count + i] = x.n_target;
        x.source += x.n_source;
        x.target += x.n_target;
    }
    batch.target.count = batch.source.count;
    batch.source.ids = noise->numbers;
    batch.target.ids = noise->numbers + n;
    batch.source.lengths = lengths;
    batch.target.lengths = lengths + batch.source.count;
    *made = batch;
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>system         the operating system: files
//
// Everything the library asks about files is one of the functions trf_os_... here, called as
// TRF_OS(name)(...). A system that is neither POSIX nor Windows brings all of them, and TRF_OS_SLASH and _FOLDERS, in
// a header named by TRF_OS_HEADER (trf_os_hold only with #define TRF_OS_HOLDS 1); whoever defines TRF_OS before the
// include comes between, as tests do that make calls fail. A descriptor is an int, failure is a negative result with
// errno set. Strict C99 hides much of POSIX; what is used here stays visible.
//
// The functions below them add what the calls leave open: interrupted calls are repeated, short ones go
// on, and only regular files are read or replaced, so no pipe, device or folder can hang or confuse a reader.
// The small ones return 0 or an errno.
// -----------------------------------------------------------------------------------------------

typedef struct trf_os_facts { int regular, mode; uint64_t size; } trf_os_facts;     /* mode: nine permission bits */

#if !defined(TRF_OS)
#define TRF_OS(name) trf_os_##name
#endif

#if defined(TRF_OS_HEADER)
#include TRF_OS_HEADER
#elif defined(_WIN32)
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <wchar.h>
#if defined(__cplusplus)
extern "C" {
#endif
__declspec(dllimport) int __stdcall MoveFileExW(const wchar_t *, const wchar_t *, unsigned long);
__declspec(dllimport) int __stdcall MultiByteToWideChar(unsigned, unsigned long, const char *, int, wchar_t *, int);
#if defined(__cplusplus)
}
#endif

#define TRF_OS_SLASH '\\'
#define TRF_OS_FOLDERS 0                /* folders cannot be flushed; MoveFileExW writes through */

/* Paths are UTF-8 on every system. */
enum { TRF__WIDE_PATH = 1024 };
TRF__FN int trf__widen(wchar_t *wide, const char *path)
{
    if (MultiByteToWideChar(65001 /* CP_UTF8 */, 8 /* MB_ERR_INVALID_CHARS */, path, -1, wide,
                            TRF__WIDE_PATH) > 0) return 0;
    errno = EINVAL;
    return -1;
}
TRF__FN int trf_os_open(const char *path, int create, int mode)
{
    wchar_t wide[TRF__WIDE_PATH];
    int flags = create ? _O_WRONLY | _O_CREAT | _O_EXCL : _O_RDONLY;
    return trf__widen(wide, path) ? -1 : _wopen(wide, flags | _O_BINARY | _O_NOINHERIT, mode);
}
TRF__FN int trf_os_rename(const char *from, const char *to)
{
    wchar_t wide_from[TRF__WIDE_PATH], wide_to[TRF__WIDE_PATH];
    if (trf__widen(wide_from, from) || trf__widen(wide_to, to)) return -1;
    if (MoveFileExW(wide_from, wide_to, 1 | 8 /* replace existing, write through */)) return 0;
    errno = EACCES;
    return -1;
}
TRF__FN int trf_os_unlink(const char *path)
{
    wchar_t wide[TRF__WIDE_PATH];
    return trf__widen(wide, path) ? -1 : _wunlink(wide);
}
TRF__FN int trf_os_chmod(const char *path, int mode)
{
    wchar_t wide[TRF__WIDE_PATH];
    return trf__widen(wide, path) ? -1 : _wchmod(wide, mode & (_S_IREAD | _S_IWRITE));
}
TRF__FN int trf_os_stat(const char *path, int fd, trf_os_facts *facts)
{
    wchar_t wide[TRF__WIDE_PATH];
    struct _stat64 found;
    if (path ? trf__widen(wide, path) || _wstat64(wide, &found) : _fstat64(fd, &found)) return -1;
    facts->regular = (found.st_mode & _S_IFMT) == _S_IFREG;
    facts->mode = found.st_mode & 0777;
    facts->size = (uint64_t)found.st_size;
    return 0;
}
TRF__FN int trf_os_sync(int fd) { return _commit(fd); }
TRF__FN int trf_os_close(int fd) { return _close(fd); }
TRF__FN int trf_os_seek(int fd, uint64_t offset) { return _lseeki64(fd, (__int64)offset, SEEK_SET) < 0 ? -1 : 0; }
TRF__FN int64_t trf_os_read(int fd, void *to, size_t bytes) { return _read(fd, to, (unsigned)bytes); }
TRF__FN int64_t trf_os_write(int fd, const void *from, size_t bytes) { return _write(fd, from, (unsigned)bytes); }
TRF__FN uint32_t trf_os_pid(void) { return (uint32_t)_getpid(); }

#else
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define TRF_OS_SLASH '/'
#define TRF_OS_FOLDERS 1

/* Opens a file or a folder for reading, or makes a file that was not there. */
TRF__FN int trf_os_open(const char *path, int create, int mode)
{
    int flags = create ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY;        /* O_EXCL: never through a link */
#if defined(O_CLOEXEC)
    flags |= O_CLOEXEC;
#endif
#if defined(O_NONBLOCK)
    flags |= O_NONBLOCK;        /* a pipe may have taken the file's place between stat and open */
#endif
    return open(path, flags, (mode_t)mode);
}
TRF__FN int trf_os_rename(const char *from, const char *to) { return rename(from, to); }
TRF__FN int trf_os_unlink(const char *path) { return unlink(path); }
TRF__FN int trf_os_chmod(const char *path, int mode) { return chmod(path, (mode_t)mode); }
/* Of what is at path, or, if that is NULL, of an open file. */
TRF__FN int trf_os_stat(const char *path, int fd, trf_os_facts *facts)
{
    struct stat found;
    if (path ? stat(path, &found) : fstat(fd, &found)) return -1;
    facts->regular = S_ISREG(found.st_mode) ? 1 : 0;
    facts->mode = (int)(found.st_mode & 0777);
    facts->size = (uint64_t)found.st_size;
    return 0;
}
/* On macOS fsync leaves the data in the drive's cache; F_FULLFSYNC does not, but not every disk knows it. */
TRF__FN int trf_os_sync(int fd)
{
#if defined(F_FULLFSYNC)
    if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
    return fsync(fd);
}
TRF__FN int trf_os_close(int fd) { return close(fd); }
TRF__FN int trf_os_seek(int fd, uint64_t offset) { return lseek(fd, (off_t)offset, SEEK_SET) < 0 ? -1 : 0; }
TRF__FN int64_t trf_os_read(int fd, void *to, size_t bytes) { return (int64_t)read(fd, to, bytes); }
TRF__FN int64_t trf_os_write(int fd, const void *from, size_t bytes) { return (int64_t)write(fd, from, bytes); }
TRF__FN uint32_t trf_os_pid(void) { return (uint32_t)getpid(); }
#if defined(LOCK_EX)
#define TRF_OS_HOLDS 1
/* Holds a file, open as fd or, where that is -1, not yet: nobody else can until the descriptor that this returns is
   closed or the process ends. -1: errno EAGAIN if somebody does, or if the path is that of another file by now. */
TRF__FN int trf_os_hold(const char *path, int fd)
{
    struct stat mine, there;
    int held, error, flags = O_WRONLY;
#if defined(O_NOFOLLOW)
    flags |= O_NOFOLLOW;
#endif
#if defined(O_NONBLOCK)
    flags |= O_NONBLOCK;                /* a pipe of that name does not hang */
#endif
    held = fd >= 0 ? dup(fd) : open(path, flags);
    if (held < 0 && errno == EACCES) held = trf_os_open(path, 0, 0);    /* as a file that nobody may write */
    if (held < 0) return -1;
    (void)fcntl(held, F_SETFD, FD_CLOEXEC);
    error = flock(held, LOCK_EX | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? EAGAIN : errno;
    if (!error && (fstat(held, &mine) || stat(path, &there) || !S_ISREG(mine.st_mode) ||
                   mine.st_dev != there.st_dev || mine.st_ino != there.st_ino)) error = EAGAIN;
    if (!error) return held;
    close(held);
    errno = error;
    return -1;
}
#endif
#endif
#if !defined(TRF_OS_HOLDS)
#define TRF_OS_HOLDS 0
TRF__FN int trf_os_hold(const char *path, int fd) { (void)path; (void)fd; return -1; }
#endif

enum { TRF__IO_MOST = 1 << 30 };        /* bytes in one call: some systems refuse 2^31 */

/* errno of a call that failed; a call that forgot to set it still counts as failed. */
TRF__FN int trf__errno(void) { return errno ? errno : EIO; }

TRF__FN int trf__open(const char *path, int create, int mode, int *fd)
{
    do {
        errno = 0;
        *fd = TRF_OS(open)(path, create, mode);
    } while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? trf__errno() : 0;
}

/* Reads until `bytes` are there or the file ends; *got tells how many. */
TRF__FN int trf__read_all(int fd, void *to, size_t bytes, size_t *got)
{
    *got = 0;
    while (*got < bytes) {
        size_t part = bytes - *got < TRF__IO_MOST ? bytes - *got : (size_t)TRF__IO_MOST;
        int64_t n;
        errno = 0;
        n = TRF_OS(read)(fd, (char *)to + *got, part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return trf__errno();
        if (n == 0) return 0;
        *got += (size_t)n;
    }
    return 0;
}

TRF__FN int trf__write_all(int fd, const void *from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        size_t part = bytes - done < TRF__IO_MOST ? bytes - done : (size_t)TRF__IO_MOST;
        int64_t n;
        errno = 0;
        n = TRF_OS(write)(fd, (const char *)from + done, part);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return trf__errno();
        done += (size_t)n;
    }
    return 0;
}

TRF__FN int trf__sync(int fd)
{
    int result;
    do {
        errno = 0;
        result = TRF_OS(sync)(fd);
    } while (result < 0 && errno == EINTR);
    return result < 0 ? trf__errno() : 0;
}

/* An interrupted close has closed: a second one could close somebody else's file. */
TRF__FN int trf__close(int fd)
{
    errno = 0;
    return TRF_OS(close)(fd) < 0 && errno != EINTR ? trf__errno() : 0;
}

/* Opens a regular file for reading. Asks before opening, since opening a device can already do something,
   and again afterwards, since the name may have got another owner in between. */
TRF__FN trf_status trf__open_regular(const char *path, int *fd, trf_os_facts *facts, trf_error *err)
{
    int error;
    *fd = -1;
    errno = 0;
    if (TRF_OS(stat)(path, -1, facts) < 0) return trf__fail_io(err, trf__errno(), path, "find it");
    if (facts->regular) {
        error = trf__open(path, 0, 0, fd);
        if (error) return trf__fail_io(err, error, path, "open it");
        errno = 0;
        error = TRF_OS(stat)(NULL, *fd, facts) < 0 ? trf__errno() : 0;
        if (!error && facts->regular) return TRF_OK;
        trf__close(*fd);
        *fd = -1;
        if (error) return trf__fail_io(err, error, path, "look at");
    }
    return trf__fail(err, TRF_E_IO, -1, path, "expected a regular file, got a folder, a pipe or a device");
}

/* All bytes of a regular file and a NUL. */
TRF__FN trf_status trf__read_text(const char *path, char **text, size_t *n, const trf_hooks *hooks, trf_error *err)
{
    trf_os_facts facts;
    int fd, error;
    *text = NULL;
    TRF__TRY(trf__open_regular(path, &fd, &facts, err));
    *n = (size_t)facts.size;
    *text = facts.size < SIZE_MAX ? (char *)trf__alloc(hooks, *n + 1) : NULL;
    if (!*text) {
        trf__close(fd);
        return trf__fail(err, TRF_E_NOMEM, -1, path, "no memory for %llu bytes", (unsigned long long)facts.size);
    }
    error = trf__read_all(fd, *text, (size_t)facts.size, n);
    trf__close(fd);
    if (!error && *n == (size_t)facts.size) {
        (*text)[*n] = 0;
        return TRF_OK;
    }
    trf__free(hooks, *text, (size_t)facts.size + 1);
    *text = NULL;
    if (error) return trf__fail_io(err, error, path, "read it");
    return trf__fail(err, TRF_E_IO, -1, path, "the file became shorter while it was read");
}

TRF_API trf_status trf_vocab_load_sentencepiece(trf_vocab **vocab, const char *path, const trf_hooks *hooks,
                                                trf_error *err)
{
    trf_hooks none;
    trf_status status;
    char *bytes;
    size_t n;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (!path) return trf__fail_null(err, "path");
    TRF__ZERO(none);
    if (!hooks) hooks = &none;
    TRF__TRY(trf__hooks_check(hooks, err));
    status = trf__read_text(path, &bytes, &n, hooks, err);
    if (status == TRF_OK) {
        status = trf_vocab_from_sentencepiece(vocab, bytes, n, hooks, err);
        trf__free(hooks, bytes, n + 1);
    }
    return trf__name_file(status, path, err);
}

/* A file that appears whole or not at all: written under another name beside it, flushed, then renamed.
   Until the rename the old file is untouched; a link at `path` is replaced, not followed.
   The first names are for those who hold their file while it has one of them: what nobody holds was left behind by a
   process that is no more, and goes. A file is opened and then held, and its name may have gone to another one in
   between, so holding looks at the name again; after that only the holder renames or removes it. Where nobody can
   hold, names are made of the process's number, and stay. */
typedef struct trf__saving {
    const char *path;
    char *temporary;
    size_t bytes;           /* of temporary */
    int fd, held, made;     /* held: by this descriptor, or -1; made: the temporary file exists and is ours */
} trf__saving;

enum { TRF__HELD_NAMES = 4 };

/* "dir/model.safetensors" -> "dir/model.safetensors.tmp-00000000"; a very long name is cut to stay a
   legal one, between two characters. */
TRF__FN void trf__temporary_name(char *to, size_t size, const char *path, uint32_t attempt)
{
    const char *name = path + strlen(path);
    size_t length;
    while (name > path && name[-1] != '/' && name[-1] != TRF_OS_SLASH) name--;
    length = strlen(name);
    if (length > 200) for (length = 200; length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80; ) length--;
    if (attempt >= TRF__HELD_NAMES) attempt += TRF_OS(pid)() * 1024u;
    snprintf(to, size, "%.*s%.*s.tmp-%08lx", (int)(name - path), path, (int)length, name, (unsigned long)attempt);
}

/* Removes what processes that are no more have left behind. */
TRF__FN void trf__save_sweep(trf__saving *saving)
{
    uint32_t i;
    for (i = 0; i < TRF__HELD_NAMES; i++) {
        int held;
        trf__temporary_name(saving->temporary, saving->bytes, saving->path, i);
        held = TRF_OS(hold)(saving->temporary, -1);
        if (held < 0) continue;
        (void)TRF_OS(unlink)(saving->temporary);
        trf__close(held);
    }
}

/* Makes the temporary file, under a name that nobody has. */
TRF__FN int trf__save_open(trf__saving *saving, int mode)
{
    uint32_t attempt = TRF_OS_HOLDS ? 0 : TRF__HELD_NAMES;
    int error = EEXIST;
    for (; attempt < 1000 && saving->fd < 0; attempt++) {
        trf__temporary_name(saving->temporary, saving->bytes, saving->path, attempt);
        error = trf__open(saving->temporary, 1, mode, &saving->fd);
        if (error && error != EEXIST) return error;
        if (error || attempt >= TRF__HELD_NAMES) continue;
        errno = 0;
        saving->held = TRF_OS(hold)(saving->temporary, saving->fd);
        if (saving->held >= 0) return 0;
        if (errno != EAGAIN) {              /* nobody can hold a file here */
            (void)TRF_OS(unlink)(saving->temporary);
            attempt = TRF__HELD_NAMES - 1;
        }
        trf__close(saving->fd);             /* else it was swept away, or will be */
        saving->fd = -1;
        error = EEXIST;
    }
    return saving->fd < 0 ? error : 0;
}

TRF__FN trf_status trf__save_begin(trf__saving *saving, const trf_hooks *hooks, const char *path, trf_error *err)
{
    trf_os_facts old, now;
    int error, exists;
    TRF__ZERO(*saving);
    TRF__ZERO(old);
    saving->path = path;
    saving->fd = saving->held = -1;
    errno = 0;
    exists = TRF_OS(stat)(path, -1, &old) >= 0;
    if (!exists && errno != ENOENT) return trf__fail_io(err, trf__errno(), path, "find it");
    if (exists && !old.regular)
        return trf__fail(err, TRF_E_IO, -1, path, "this is a folder, a pipe or a device; it is not replaced");
    if (strlen(path) > INT_MAX - 64) return trf__fail(err, TRF_E_IO, -1, "path", "the path is too long");
    saving->bytes = strlen(path) + 32;
    saving->temporary = (char *)trf__alloc(hooks, saving->bytes);
    if (!saving->temporary) return trf__fail(err, TRF_E_NOMEM, -1, "memory", "no memory for a path");
    if (TRF_OS_HOLDS) trf__save_sweep(saving);
    error = trf__save_open(saving, exists ? old.mode : 0666);
    if (error) return trf__fail_io(err, error, saving->temporary, "create a temporary file beside it");
    saving->made = 1;
    if (!exists) return TRF_OK;
    errno = 0;          /* the umask may have taken permissions that the old file has */
    if (TRF_OS(stat)(NULL, saving->fd, &now) < 0 ||
        (now.mode != old.mode && TRF_OS(chmod)(saving->temporary, old.mode) < 0))
        return trf__fail_io(err, trf__errno(), saving->temporary, "give its permissions to the temporary file");
    return TRF_OK;
}

/* The folder's own data hold the name: without this a power failure can bring the old file back. Opened
   before the rename, so that a folder which cannot be opened is noticed while nothing has changed. */
TRF__FN int trf__open_folder(const trf__saving *saving, int *fd)
{
    char *slash = strrchr(saving->temporary, '/');
    char kept;
    int error;
    *fd = -1;
    if (!TRF_OS_FOLDERS) return 0;
    if (!slash) return trf__open(".", 0, 0, fd);
    kept = slash[1];
    slash[1] = 0;
    error = trf__open(saving->temporary, 0, 0, fd);
    slash[1] = kept;
    return error;
}

TRF__FN trf_status trf__save_commit(trf__saving *saving, trf_error *err)
{
    int folder = -1, error = trf__sync(saving->fd), closing = trf__close(saving->fd);
    saving->fd = -1;
    if (error || closing) return trf__fail_io(err, error ? error : closing, saving->temporary, "write it");
    error = trf__open_folder(saving, &folder);
    if (error) return trf__fail_io(err, error, saving->path, "open its folder");
    errno = 0;
    if (TRF_OS(rename)(saving->temporary, saving->path) < 0) {
        error = trf__errno();
        if (folder >= 0) trf__close(folder);
        return trf__fail_io(err, error, saving->path, "replace it");
    }
    saving->made = 0;
    if (folder < 0) return TRF_OK;
    error = trf__sync(folder);
    trf__close(folder);
    if (error == EINVAL) error = 0;         /* some file systems have nothing to flush in a folder */
    return error ? trf__fail_io(err, error, saving->path, "flush the folder of the new, complete file") : TRF_OK;
}

/* Ends what trf__save_begin began, whatever it returned: commits if `status` is TRF_OK, else leaves
   nothing behind. Only a folder that cannot be flushed is an error with the new file in place. */
TRF__FN trf_status trf__save_end(trf__saving *saving, const trf_hooks *hooks, trf_status status, trf_error *err)
{
    if (!status) status = trf__save_commit(saving, err);
    if (saving->fd >= 0) trf__close(saving->fd);
    if (saving->made) (void)TRF_OS(unlink)(saving->temporary);
    if (saving->held >= 0) trf__close(saving->held);
    trf__free(hooks, saving->temporary, saving->bytes);
    TRF__ZERO(*saving);
    saving->fd = saving->held = -1;
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>files          the safetensors container
//
//     bytes 0..7      N, the length of the header, little-endian
//     bytes 8..7+N    the header: one JSON object, UTF-8, blanks after it:
//                     {"__metadata__": {"key": "text", ...},
//                      "name": {"dtype": "F32", "shape": [4, 2], "data_offsets": [begin, end]}, ...}
//     the rest        the data, little-endian; offsets count from 8+N and cover all of it exactly once
//
// Nothing in a file is trusted. Order: regular file, its size, N, the limits, one allocation, UTF-8, one
// pass over the JSON without recursion into tables of fixed size, names unique, data covered. Strings are
// unescaped in place: names and metadata are pointers into the header. Only then may anybody ask for
// memory for tensors. What tensors mean is not known here.
// Metadata of ours: "trf.crc32", the CRC-32 of all data, eight lower-case hexadecimal digits.
// -----------------------------------------------------------------------------------------------

enum {
    TRF__FILE_HEADER = 16 << 20,        /* limits of a header: bytes, */
    TRF__FILE_TENSORS = 65536,
    TRF__FILE_TEXTS = 131072,           /* others' 120,000 and ours: one for each frozen parameter, too */
    TRF__FILE_RANK = 8,
    TRF__FILE_NAME = 255,               /* bytes */
    TRF__JSON_DEPTH = 64,
    TRF__CHUNK = 16384                  /* bytes read, converted or written at a time; on the stack */
};
#define TRF__FILE_INTEGER 281474976710655u      /* 2^48 - 1 */

/* What safetensors knows; 0 bytes: known, but not read here (complex numbers, parts of bytes). code: those whose
   numbers can be weights. */
typedef struct trf__dtype { char name[12], code; int32_t bytes; } trf__dtype;
TRF__FN const trf__dtype *trf__dtype_of(const char *name)
{
    static const trf__dtype known[] = {
        {"F32", 'F', 4}, {"F64", 'D', 8}, {"F16", 'H', 2}, {"BF16", 'B', 2}, {"I64", 0, 8}, {"I32", 0, 4},
        {"I16", 0, 2}, {"I8", 0, 1}, {"U64", 0, 8}, {"U32", 0, 4}, {"U16", 0, 2}, {"U8", 0, 1}, {"BOOL", 0, 1},
        {"F8_E4M3", 0, 1}, {"F8_E5M2", 0, 1}, {"F8_E8M0", 0, 1},
        {"C64", 0, 0}, {"F4", 0, 0}, {"F6_E2M3", 0, 0}, {"F6_E3M2", 0, 0}
    };
    size_t i;
    for (i = 0; i < sizeof known / sizeof known[0]; i++) if (!strcmp(name, known[i].name)) return &known[i];
    return NULL;
}

/* Where the bytes of a file are: in the caller's memory, or, where that is NULL, in an open file. */
typedef struct trf__origin { const unsigned char *memory; int fd; const char *path; uint64_t size; } trf__origin;

struct trf_file {
    trf_hooks hooks;
    size_t allocated;           /* bytes of this block: struct, tables, header */
    trf__origin from;
    int allow_nonfinite;
    char path[104];             /* its end, for messages */
    char wrapper[40];           /* what stands in front of all names, as >>store-match knows it */
    uint64_t data_begin;
    uint64_t summed;            /* the checksum is that of the data up to here; 0: nobody wants one */
    trf__crc crc;
    int32_t count, capacity;
    int32_t n_meta, meta_capacity;
    trf_file_entry *entries;    /* as in the header */
    trf__meta *meta;
    const void **by_name, **by_begin, **by_key;     /* the same, sorted */
    char *header;
    int64_t header_bytes;
};

/* ---- JSON: what a header needs of it ---- */

typedef struct trf__json {
    char *text;
    int64_t n, at;
    const char *name;           /* whose value is being read: for messages */
    trf_error *err;
} trf__json;

TRF__FN int trf__json_peek(const trf__json *s) { return s->at < s->n ? (int)(unsigned char)s->text[s->at] : -1; }

TRF__FN void trf__json_blanks(trf__json *s)
{
    while (s->at < s->n && s->text[s->at] && strchr(" \t\r\n", s->text[s->at])) s->at++;
}

/* "expected X, got Y". If Y nests deeper than anybody means, that is what is said. */
TRF__FN trf_status trf__json_refuse(const trf__json *s, const char *expected)
{
    int64_t i;
    int depth = 0, quoted = 0, c = trf__json_peek(s);
    for (i = s->at; i < s->n; i++) {
        char d = s->text[i];
        if (quoted) {
            if (d == '\\') i++;
            else if (d == '"') quoted = 0;
            continue;
        }
        if (d == '"') quoted = 1;
        else if (d == '[' || d == '{') depth++;
        else if (d == ']' || d == '}') depth--;
        if (depth > TRF__JSON_DEPTH)
            return trf__fail(s->err, TRF_E_LIMIT, 8 + i, s->name, "header: nested deeper than %d at byte %lld",
                             (int)TRF__JSON_DEPTH, (long long)(8 + i));
        if (depth <= 0 && !quoted) break;
    }
    if (c < 0)
        return trf__fail(s->err, TRF_E_FORMAT, 8 + s->at, s->name, "header: expected %s, got its end at byte %lld",
                         expected, (long long)(8 + s->at));
    return trf__fail(s->err, TRF_E_FORMAT, 8 + s->at, s->name,
                     c > 32 && c < 127 ? "header: expected %s, got '%c' at byte %lld"
                                       : "header: expected %s, got 0x%02X at byte %lld",
                     expected, c, (long long)(8 + s->at));
}

/* One step through an object or array: *more, or its end has been read. */
TRF__FN trf_status trf__json_next(trf__json *s, int first, char close, int *more)
{
    trf__json_blanks(s);
    *more = trf__json_peek(s) != close;
    if (!*more) { s->at++; return TRF_OK; }
    if (first) return TRF_OK;
    if (trf__json_peek(s) != ',') return trf__json_refuse(s, close == '}' ? "',' or '}'" : "',' or ']'");
    s->at++;
    trf__json_blanks(s);
    return TRF_OK;
}

TRF__FN trf_status trf__json_open(trf__json *s, char open, const char *expected)
{
    trf__json_blanks(s);
    if (trf__json_peek(s) != open) return trf__json_refuse(s, expected);
    s->at++;
    return TRF_OK;
}

/* Four hexadecimal digits, or -1. */
TRF__FN int32_t trf__json_hex(trf__json *s)
{
    int32_t value = 0;
    int i;
    for (i = 0; i < 4; i++) {
        int c = trf__json_peek(s);
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
        s->at++;
    }
    return value;
}

/* What follows a backslash. An escape is never shorter than what it stands for. */
TRF__FN trf_status trf__json_escape(trf__json *s, char **to)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    int c = trf__json_peek(s), extra, i;
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    int64_t begin = s->at;
    int32_t u, low;
    if (letter) {
        *(*to)++ = meant[letter - letters];
        s->at++;
        return TRF_OK;
    }
    if (c != 'u') return trf__json_refuse(s, "an escape: one of \" \\ / b f n r t u");
    s->at++;
    u = trf__json_hex(s);
    if (u < 0) return trf__json_refuse(s, "four hexadecimal digits");
    if (u >= 0xD800 && u < 0xDC00 && s->at + 1 < s->n && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u') {
        s->at += 2;
        low = trf__json_hex(s);
        u = low >= 0xDC00 && low < 0xE000 ? 0x10000 + (u - 0xD800) * 1024 + (low - 0xDC00) : u;
    }
    if (u == 0 || (u >= 0xD800 && u < 0xE000))
        return trf__fail(s->err, TRF_E_FORMAT, 8 + begin, s->name, "header: %s in a string at byte %lld",
                         u ? "half a surrogate pair" : "a NUL", (long long)(8 + begin));
    extra = u < 0x80 ? 0 : u < 0x800 ? 1 : u < 0x10000 ? 2 : 3;
    *(*to)++ = (char)(unsigned char)(extra ? (0xF00 >> (extra + 1) & 0xFF) | u >> 6 * extra : u);
    for (i = extra - 1; i >= 0; i--) *(*to)++ = (char)(unsigned char)(0x80 | (u >> 6 * i & 63));
    return TRF_OK;
}

TRF__FN trf_status trf__json_string(trf__json *s, const char **out, const char *expected)
{
    char *to;
    trf__json_blanks(s);
    if (trf__json_peek(s) != '"') return trf__json_refuse(s, expected);
    s->at++;
    to = s->text + s->at;
    *out = to;
    for (;;) {
        int c = trf__json_peek(s);
        if (c < 32) return trf__json_refuse(s, c < 0 ? "the end of a string" : "no control character in a string");
        s->at++;
        if (c == '"') break;
        if (c != '\\') { *to++ = (char)(unsigned char)c; continue; }
        TRF__TRY(trf__json_escape(s, &to));
    }
    *to = 0;            /* at most where the closing quote was */
    return TRF_OK;
}

TRF__FN trf_status trf__json_key(trf__json *s, const char **key)
{
    TRF__TRY(trf__json_string(s, key, "a name in double quotes"));
    return trf__json_open(s, ':', "':'");
}

/* 0 or [1-9][0-9]*. What does not fit 64 bits is no number to us; what does, but is beyond 2^48-1, is too large. */
TRF__FN trf_status trf__json_integer(trf__json *s, uint64_t *out)
{
    uint64_t value = 0;
    int64_t begin;
    trf__json_blanks(s);
    begin = s->at;
    while (trf__json_peek(s) >= '0' && trf__json_peek(s) <= '9' && !(value == 0 && s->at > begin)) {
        uint64_t digit = (uint64_t)(s->text[s->at] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return trf__fail(s->err, TRF_E_FORMAT, 8 + begin, s->name,
                             "header: a number beyond 64 bits at byte %lld", (long long)(8 + begin));
        value = value * 10 + digit;
        s->at++;
    }
    if (s->at == begin) return trf__json_refuse(s, "a whole number");
    if (value > TRF__FILE_INTEGER)
        return trf__fail(s->err, TRF_E_LIMIT, 8 + begin, s->name, "header: %llu at byte %lld, the limit is %llu",
                         (unsigned long long)value, (long long)(8 + begin), (unsigned long long)TRF__FILE_INTEGER);
    *out = value;
    return TRF_OK;
}

/* ---- the header ---- */

/* "[4, 2]" */
TRF__FN trf_status trf__file_shape(trf__json *s, trf_file_entry *entry)
{
    int more;
    uint64_t n = 0;
    TRF__TRY(trf__json_open(s, '[', "the shape, an array"));
    for (entry->rank = 0; ; entry->rank++) {
        TRF__TRY(trf__json_next(s, entry->rank == 0, ']', &more));
        if (!more) return TRF_OK;
        if (entry->rank == TRF__FILE_RANK)
            return trf__fail(s->err, TRF_E_LIMIT, 8 + s->at, s->name, "tensor \"%.100s\": more than %d dimensions",
                             s->name, (int)TRF__FILE_RANK);
        TRF__TRY(trf__json_integer(s, &n));
        entry->shape[entry->rank] = (int64_t)n;
    }
}

/* "[begin, end]", begin <= end; counted from the start of the data. */
TRF__FN trf_status trf__file_offsets(trf__json *s, trf_file_entry *entry)
{
    uint64_t offset[2];
    int i, more;
    TRF__TRY(trf__json_open(s, '[', "data_offsets, an array"));
    for (i = 0; i < 2; i++) {
        TRF__TRY(trf__json_next(s, i == 0, ']', &more));
        if (!more) break;
        TRF__TRY(trf__json_integer(s, &offset[i]));
    }
    if (i == 2) TRF__TRY(trf__json_open(s, ']', "two offsets and ']'"));
    if (i < 2 || offset[0] > offset[1])
        return trf__fail(s->err, TRF_E_FORMAT, 8 + s->at, s->name,
                         "tensor \"%.100s\": expected data_offsets [begin, end], got %s",
                         s->name, i < 2 ? "less than two numbers" : "an end before the begin");
    entry->begin = offset[0];
    entry->bytes = offset[1] - offset[0];
    return TRF_OK;
}

TRF__FN trf_status trf__file_type(trf__json *s, trf_file_entry *entry)
{
    int64_t begin = s->at;
    const char *text = NULL;
    const trf__dtype *dtype;
    TRF__TRY(trf__json_string(s, &text, "the dtype, a string"));
    dtype = trf__dtype_of(text);
    if (dtype && dtype->bytes) { entry->dtype = dtype->name; return TRF_OK; }
    return trf__fail(s->err, dtype ? TRF_E_UNSUPPORTED : TRF_E_FORMAT, 8 + begin, s->name,
                     "tensor \"%.100s\": %s dtype \"%.20s\"",
                     s->name, dtype ? "this version does not read" : "unknown", text);
}

/* Bytes that shape and dtype ask for. Each dimension counts as at least 1, so that a zero cannot hide
   numbers which would overflow somewhere else. */
TRF__FN trf_status trf__file_extent(const trf__json *s, const trf_file_entry *entry, int64_t where)
{
    uint64_t most = (uint64_t)trf__dtype_of(entry->dtype)->bytes, wanted = most;
    int32_t i;
    for (i = 0; i < entry->rank; i++) {
        uint64_t n = (uint64_t)entry->shape[i];
        if (n > 1 && most > TRF__FILE_INTEGER / n)
            return trf__fail(s->err, TRF_E_LIMIT, where, s->name,
                             "tensor \"%.100s\": its shape asks for more than %llu bytes", s->name,
                             (unsigned long long)TRF__FILE_INTEGER);
        if (n > 1) most *= n;
        wanted = n ? wanted * n : 0;
    }
    if (wanted == entry->bytes) return TRF_OK;
    return trf__fail(s->err, TRF_E_SHAPE, where, s->name,
                     "tensor \"%.100s\": expected %llu bytes for its shape and %s, got offsets for %llu",
                     s->name, (unsigned long long)wanted, entry->dtype, (unsigned long long)entry->bytes);
}

/* Where a string of the header stands in the file. */
TRF__FN int64_t trf__file_where(const trf_file *file, const char *text) { return 8 + (int64_t)(text - file->header); }

/* A name of a tensor, which `place` (byte, or tensor) number `where` has. */
TRF__FN trf_status trf__file_name(const char *name, const char *place, int64_t where, trf_error *err)
{
    size_t length = strlen(name), i;
    if (length == 0)
        return trf__fail(err, TRF_E_FORMAT, where, "header", "a tensor without a name at %s %lld", place,
                         (long long)where);
    if (length > TRF__FILE_NAME)
        return trf__fail(err, TRF_E_LIMIT, where, name,
                         "a tensor's name of %llu bytes at %s %lld, the limit is %d",
                         (unsigned long long)length, place, (long long)where, (int)TRF__FILE_NAME);
    for (i = 0; i < length; i++)
        if ((unsigned char)name[i] < 32 || name[i] == 127 ||
            ((unsigned char)name[i] == 0xC2 && (unsigned char)name[i + 1] < 0xA0))
            return trf__fail(err, TRF_E_FORMAT, where, name,
                             "a control character in the name of a tensor at %s %lld", place, (long long)where);
    return TRF_OK;
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, in any order, each once. */
TRF__FN trf_status trf__file_tensor(trf__json *s, trf_file *file, const char *name)
{
    static const char fields[3][16] = { "dtype", "shape", "data_offsets" };
    trf_file_entry *entry = file->entries + file->count;
    int seen = 0, first = 1, more, i;
    TRF__TRY(trf__file_name(name, "byte", trf__file_where(file, name), s->err));
    if (file->count == file->capacity)
        return trf__fail(s->err, TRF_E_LIMIT, 8 + s->at, name, "more than %d tensors", (int)file->capacity);
    entry->name = name;
    for (i = 0; i < TRF__FILE_RANK; i++) entry->shape[i] = 1;
    TRF__TRY(trf__json_open(s, '{', "an object that describes a tensor"));
    for (;; first = 0) {
        const char *field = NULL;
        TRF__TRY(trf__json_next(s, first, '}', &more));
        if (!more) break;
        TRF__TRY(trf__json_key(s, &field));
        for (i = 0; i < 3 && strcmp(field, fields[i]); i++) { }
        if (i == 3) { trf__json_blanks(s); return trf__json_refuse(s, "no field but dtype, shape and data_offsets"); }
        if (seen & 1 << i)
            return trf__fail(s->err, TRF_E_FORMAT, trf__file_where(file, field), name,
                             "tensor \"%.100s\" has \"%s\" twice", name, fields[i]);
        seen |= 1 << i;
        TRF__TRY(i == 0 ? trf__file_type(s, entry) : i == 1 ? trf__file_shape(s, entry)
                                                            : trf__file_offsets(s, entry));
    }
    for (i = 0; i < 3; i++)
        if (!(seen & 1 << i))
            return trf__fail(s->err, TRF_E_FORMAT, 8 + s->at, name, "tensor \"%.100s\" has no \"%s\"", name,
                             fields[i]);
    TRF__TRY(trf__file_extent(s, entry, trf__file_where(file, name)));
    file->count++;
    return TRF_OK;
}

TRF__FN trf_status trf__file_texts(trf__json *s, trf_file *file)
{
    int more, first = 1;
    TRF__TRY(trf__json_open(s, '{', "an object of texts"));
    for (;; first = 0) {
        trf__meta *pair = file->meta + file->n_meta;
        TRF__TRY(trf__json_next(s, first, '}', &more));
        if (!more) return TRF_OK;
        if (file->n_meta == file->meta_capacity)
            return trf__fail(s->err, TRF_E_LIMIT, 8 + s->at, s->name, "more than %d texts", (int)file->meta_capacity);
        TRF__TRY(trf__json_key(s, &pair->key));
        TRF__TRY(trf__json_string(s, &pair->value, "a text in double quotes"));
        file->n_meta++;
    }
}

TRF__FN trf_status trf__file_parse(trf__json *s, trf_file *file)
{
    int more, first = 1, texts = 0;
    int64_t bad = trf__utf8_fault(s->text, (size_t)s->n);
    if (bad >= 0)
        return trf__fail(s->err, TRF_E_FORMAT, 8 + bad, s->name, "header: not UTF-8 at byte %lld",
                         (long long)(8 + bad));
    if (s->n >= 3 && !memcmp(s->text, "\xEF\xBB\xBF", 3))
        return trf__fail(s->err, TRF_E_FORMAT, 8, s->name, "header: a byte order mark, expected '{'");
    TRF__TRY(trf__json_open(s, '{', "an object"));
    for (;; first = 0) {
        const char *name = NULL;
        s->name = "header";
        TRF__TRY(trf__json_next(s, first, '}', &more));
        if (!more) break;
        TRF__TRY(trf__json_key(s, &name));
        s->name = name;
        if (strcmp(name, "__metadata__")) TRF__TRY(trf__file_tensor(s, file, name));
        else if (texts++)
            return trf__fail(s->err, TRF_E_FORMAT, trf__file_where(file, name), name, "header: two \"__metadata__\"");
        else TRF__TRY(trf__file_texts(s, file));
    }
    trf__json_blanks(s);
    return s->at < s->n ? trf__json_refuse(s, "blanks after the last '}'") : TRF_OK;
}

/* ---- what must hold between the entries ---- */

/* Tensors and texts alike begin with a pointer to their name. */
TRF__FN const char *trf__name_of(const void *item) { return *(const char *const *)item; }
TRF__FN int trf__by_name(const void *context, const void *a, const void *b)
{
    (void)context;
    return strcmp(trf__name_of(a), trf__name_of(b));
}
TRF__FN int trf__by_begin(const void *context, const void *a, const void *b)
{
    const trf_file_entry *x = (const trf_file_entry *)a, *y = (const trf_file_entry *)b;
    (void)context;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;     /* an empty tensor before the one that begins there */
}

/* The item of that name in a sorted list, or NULL. */
TRF__FN const void *trf__find_name(const void *const *items, int32_t n, const char *name)
{
    int32_t low = 0, high = n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(trf__name_of(items[middle]), name);
        if (order == 0) return items[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* Sorts a list by name; no two may be the same. The place of the second one: its byte in the file, or, where there is
   none yet, its number in the caller's array of items of `bytes`. */
TRF__FN trf_status trf__file_unique(const trf_file *file, const void **items, int32_t n, const char *what,
                                    const void *array, size_t bytes, trf_error *err)
{
    int32_t i;
    trf__sort(items, (size_t)n, trf__by_name, NULL);
    for (i = 1; i < n; i++) {
        const char *name = trf__name_of(items[i]), *other = trf__name_of(items[i - 1]);
        const char *later = (const char *)(items[i] > items[i - 1] ? items[i] : items[i - 1]);
        if (!strcmp(other, name))
            return trf__fail(err, TRF_E_FORMAT, file ? trf__file_where(file, other > name ? other : name)
                                                     : (int64_t)((size_t)(later - (const char *)array) / bytes),
                             name, "duplicate %s \"%.100s\"", what, name);
    }
    return TRF_OK;
}

/* The data are covered exactly once: no hole, no overlap, nothing behind. Afterwards entries' begins count
   from the start of the file. */
TRF__FN trf_status trf__file_cover(trf_file *file, trf_error *err)
{
    uint64_t end = 0, needs, data = file->from.size - file->data_begin;
    const char *last = "header";
    int32_t i;
    for (i = 0; i < file->count; i++) file->by_begin[i] = file->entries + i;
    trf__sort(file->by_begin, (size_t)file->count, trf__by_begin, NULL);
    for (i = 0; i < file->count; i++) {
        const trf_file_entry *entry = (const trf_file_entry *)file->by_begin[i];
        if (entry->begin != end)
            return trf__fail(err, TRF_E_FORMAT, trf__file_where(file, entry->name), entry->name,
                             "tensor \"%.100s\" begins at %llu, expected %llu, where \"%.40s\" ends: %s",
                             entry->name, (unsigned long long)entry->begin, (unsigned long long)end, last,
                             entry->begin < end ? "an overlap" : "a hole");
        end += entry->bytes;
        last = entry->name;
    }
    needs = file->data_begin + end;
    if (end > data)
        return trf__fail(err, TRF_E_FORMAT, (int64_t)file->from.size, last,
                         "file is %llu bytes, needs %llu: truncated?",
                         (unsigned long long)file->from.size, (unsigned long long)needs);
    if (end < data)
        return trf__fail(err, TRF_E_FORMAT, (int64_t)needs, last,
                         "file is %llu bytes, its tensors end at %llu: something was appended?",
                         (unsigned long long)file->from.size, (unsigned long long)needs);
    for (i = 0; i < file->count; i++) file->entries[i].begin += file->data_begin;
    return TRF_OK;
}

/* ---- opening ---- */

/* Reads exactly `bytes` at `offset`; less is an error, since the size is known to hold them. */
TRF__FN trf_status trf__file_fetch(const trf__origin *from, uint64_t offset, void *to, size_t bytes, trf_error *err)
{
    size_t got = 0;
    int error = 0;
    trf_status status;
    if (from->memory) {
        if (bytes > 0) memcpy(to, from->memory + (size_t)offset, bytes);
        return TRF_OK;
    }
    errno = 0;
    if (TRF_OS(seek)(from->fd, offset) < 0) error = trf__errno();
    if (!error) error = trf__read_all(from->fd, to, bytes, &got);
    if (!error && got == bytes) return TRF_OK;
    if (error) status = trf__fail_io(err, error, from->path, "read it");
    else status = trf__fail(err, TRF_E_IO, -1, from->path,
                            "the file ended at byte %llu, expected %llu: it changed while it was read",
                            (unsigned long long)(offset + got), (unsigned long long)(offset + bytes));
    if (err) err->where = (int64_t)(offset + got);
    return status;
}

/* What people mistake for safetensors. Asked only once the length makes no sense. */
TRF__FN const char *trf__file_guess(const unsigned char *begin, uint64_t n)
{
    static const struct { char bytes[8]; int32_t n; char what[44]; } known[] = {
        {"PK\3\4", 4, "a zip archive, as torch.save writes"},
        {"\x80\2", 2, "a Python pickle"}, {"\x80\3", 2, "a Python pickle"},
        {"\x80\4", 2, "a Python pickle"}, {"\x80\5", 2, "a Python pickle"},
        {"GGUF", 4, "a GGUF file"},
        {"<!DOC", 5, "a web page"}, {"<!doc", 5, "a web page"}, {"<html", 5, "a web page"},
        {"version", 7, "a git-lfs pointer, not the file itself"},
        {"\x89HDF", 4, "an HDF5 file"}, {"\x93NUMPY", 6, "a NumPy array"},
        {"\x1F\x8B", 2, "a gzip file"}, {"{", 1, "JSON text"}
    };
    int64_t fault;
    size_t i;
    for (i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!memcmp(begin, known[i].bytes, (size_t)known[i].n) &&
            (begin[0] != 0x80 || n > TRF__FILE_HEADER))         /* else a header's length that looks like a pickle */
            return known[i].what;
    for (i = 0; i < 8; i++) if (begin[i] < 32 && (begin[i] == 0 || !strchr("\t\n\r", begin[i]))) return NULL;
    fault = trf__utf8_fault((const char *)begin, 8);
    return fault < 0 || fault > 4 ? "text" : NULL;      /* the last character may be cut */
}

/* The first eight bytes, held against the size of the file and the limits. */
TRF__FN trf_status trf__file_length(const trf__origin *from, uint64_t *length, trf_error *err)
{
    unsigned char begin[8];
    const char *guess, *path = from->path;
    uint64_t n = 0, size = from->size;
    int i;
    if (size < 8)
        return trf__fail(err, TRF_E_FORMAT, (int64_t)size, path,
                         "not a safetensors file, or truncated: %llu bytes, not even 8", (unsigned long long)size);
    TRF__TRY(trf__file_fetch(from, 0, begin, 8, err));
    for (i = 7; i >= 0; i--) n = n << 8 | begin[i];
    *length = n;
    if (n > 0 && n <= TRF__FILE_HEADER && n <= size - 8) return TRF_OK;
    guess = trf__file_guess(begin, n);
    if (guess)
        return trf__fail(err, TRF_E_FORMAT, 0, path, "not a safetensors file: it looks like %s", guess);
    if (n == 0) return trf__fail(err, TRF_E_FORMAT, 0, path, "not a safetensors file: its header has the length 0");
    if (n > TRF__FILE_HEADER)
        return trf__fail(err, TRF_E_LIMIT, 0, path,
                         n > size - 8 ? "not a safetensors file: a header of %llu bytes, the limit is %d"
                                      : "a header of %llu bytes, the limit is %d",
                         (unsigned long long)n, (int)TRF__FILE_HEADER);
    return trf__fail(err, TRF_E_FORMAT, (int64_t)size, path,
                     "file is %llu bytes, needs at least %llu for its header: truncated?",
                     (unsigned long long)size, (unsigned long long)(n + 8));
}

/* One block: the struct, the tables, the header and a NUL. The shortest tensor takes 50 bytes of header,
   the shortest text 5, so tables are never larger than the header by more than a small factor. */
TRF__FN trf_file *trf__file_alloc(const trf_hooks *hooks, int64_t header)
{
    int32_t tensors = (int32_t)trf__min64(header / 50 + 1, TRF__FILE_TENSORS);
    int32_t texts = (int32_t)trf__min64(header / 5 + 1, TRF__FILE_TEXTS);
    size_t fixed = (sizeof(trf_file) + 63) / 64 * 64;
    size_t bytes = fixed + (size_t)tensors * (sizeof(trf_file_entry) + 2 * sizeof(void *))
                 + (size_t)texts * (sizeof(trf__meta) + sizeof(void *)) + (size_t)header + 1;
    char *block = (char *)trf__alloc(hooks, bytes);
    trf_file *file = (trf_file *)(void *)block;
    if (!block) return NULL;
    TRF__ZERO(*file);
    file->hooks = *hooks;
    file->allocated = bytes;
    file->capacity = tensors;
    file->meta_capacity = texts;
    file->entries = (trf_file_entry *)(void *)(block + fixed);
    file->by_name = (const void **)(void *)(file->entries + tensors);
    file->by_begin = file->by_name + tensors;
    file->by_key = file->by_begin + tensors;
    file->meta = (trf__meta *)(void *)(file->by_key + texts);
    file->header = (char *)(file->meta + texts);
    file->header_bytes = header;
    return file;
}

TRF__FN trf_status trf__file_load(trf_file *file, trf_error *err)
{
    trf__json s;
    int32_t i;
    TRF__TRY(trf__file_fetch(&file->from, 8, file->header, (size_t)file->header_bytes, err));
    TRF__ZERO(s);
    s.text = file->header;
    s.n = file->header_bytes;
    s.name = "header";
    s.err = err;
    TRF__TRY(trf__file_parse(&s, file));
    for (i = 0; i < file->count; i++) file->by_name[i] = file->entries + i;
    for (i = 0; i < file->n_meta; i++) file->by_key[i] = file->meta + i;
    TRF__TRY(trf__file_unique(file, file->by_name, file->count, "tensor", NULL, 1, err));
    TRF__TRY(trf__file_unique(file, file->by_key, file->n_meta, "metadata", NULL, 1, err));
    return trf__file_cover(file, err);
}

/* ---- reading tensors ---- */

/* Index of a tensor, or -1. */
TRF__FN int32_t trf__file_find(const trf_file *file, const char *name)
{
    const void *found = trf__find_name(file->by_name, file->count, name);
    return found ? (int32_t)((const trf_file_entry *)found - file->entries) : -1;
}

TRF__FN void trf__to_little(unsigned char *p, uint64_t value, int bytes)
{
    int i;
    for (i = 0; i < bytes; i++) p[i] = (unsigned char)(value >> 8 * i & 255);
}

/* IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. */
TRF__FN double trf__from_half(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double x = exponent == 0 ? ldexp((double)fraction, -24) : ldexp((double)(1024 + fraction), exponent - 25);
    if (exponent == 31) x = fraction ? (double)NAN : (double)INFINITY;
    return bits >> 15 & 1 ? -x : x;
}

TRF__FN double trf__from_double(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }

/* One number of a dtype with that code. */
TRF__FN double trf__from_file(const unsigned char *p, char code)
{
    switch (code) {
    case 'F': return trf__from_float((uint32_t)trf__from_little(p, 4));
    case 'D': return trf__from_double(trf__from_little(p, 8));
    case 'H': return trf__from_half((uint32_t)trf__from_little(p, 2));
    default: return trf__from_float((uint32_t)trf__from_little(p, 2) << 16);
    }
}

/* Numbers as a little-endian machine has them too, sixteen at a time, up to one that is not finite; returns how many
   bytes of them. */
TRF__FN size_t trf__take_finite(trf_real *values, const unsigned char *p, size_t bytes)
{
    const uint32_t one = 1;
    size_t i;
    if (*(const unsigned char *)&one != 1) return 0;
    for (i = 0; i + TRF__WIDE * sizeof *values <= bytes; i += TRF__WIDE * sizeof *values) {
        trf__v16 x;
        trf_real difference;
        memcpy(values + i / sizeof *values, p + i, TRF__WIDE * sizeof *values);
        x = trf__load(values + i / sizeof *values);
        difference = trf__sum(trf__sub(x, x));
        if (!(difference == 0)) break;
    }
    return i;
}

TRF__FN void trf__file_sum(trf_file *file)
{
    trf__crc_begin(&file->crc);
    file->summed = file->data_begin;
}

/* Some of the data. What is read in the order of the file goes into the checksum on the way. */
TRF__FN trf_status trf__file_data(trf_file *file, uint64_t at, void *to, size_t bytes, trf_error *err)
{
    TRF__TRY(trf__file_fetch(&file->from, at, to, bytes, err));
    if (at != file->summed) return TRF_OK;
    trf__crc_add(&file->crc, to, bytes);
    file->summed += bytes;
    return TRF_OK;
}

TRF__FN trf_status trf__file_numbers(trf_file *file, int32_t index, int64_t first, trf_real *values, int64_t count,
                                     trf_error *err)
{
    const trf_file_entry *entry;
    const trf__dtype *dtype;
    unsigned char chunk[TRF__CHUNK];
    uint64_t at, end;
    size_t n, i;
    if (index < 0 || index >= file->count)
        return trf__fail(err, TRF_E_INVALID_ARG, index, "index", "the file has %d tensors, got the index %d",
                         (int)file->count, (int)index);
    if (!values && count > 0) return trf__fail_null(err, "values");
    entry = file->entries + index;
    dtype = trf__dtype_of(entry->dtype);
    if (!dtype->code)
        return trf__fail(err, TRF_E_UNSUPPORTED, (int64_t)entry->begin, entry->name,
                         "tensor \"%.100s\": expected F32, F64, F16 or BF16, got %s", entry->name, entry->dtype);
    if (first < 0 || count < 0 || count > (int64_t)(entry->bytes / (uint64_t)dtype->bytes) - first)
        return trf__fail(err, TRF_E_SHAPE, (int64_t)entry->begin, entry->name,
                         "tensor \"%.100s\" has %lld numbers, got a call for %lld from number %lld on", entry->name,
                         (long long)(entry->bytes / (uint64_t)dtype->bytes), (long long)count, (long long)first);
    at = entry->begin + (uint64_t)(first * dtype->bytes);
    end = at + (uint64_t)(count * dtype->bytes);
    for (; at < end; at += n) {
        n = end - at < sizeof chunk ? (size_t)(end - at) : sizeof chunk;
        TRF__TRY(trf__file_data(file, at, chunk, n, err));
        i = dtype->code == (TRF__REAL_BYTES == 4 ? 'F' : 'D') ? trf__take_finite(values, chunk, n) : 0;
        for (values += i / sizeof *values; i < n; i += (size_t)dtype->bytes, values++) {
            *values = (trf_real)trf__from_file(chunk + i, dtype->code);
            if (!trf__is_finite((double)*values) && !file->allow_nonfinite)
                return trf__fail(err, TRF_E_NONFINITE, (int64_t)(at + i), entry->name,
                                 "tensor \"%.100s\": element %llu is infinite or not a number", entry->name,
                                 (unsigned long long)((at + i - entry->begin) / (uint64_t)dtype->bytes));
        }
    }
    return TRF_OK;
}

TRF_API trf_status trf_file_read(trf_file *file, int32_t index, int64_t first, trf_real *values, int64_t count,
                                 trf_error *err)
{
    TRF__TRY(trf__begin(file, "file", err));
    return trf__name_file(trf__file_numbers(file, index, first, values, count, err), file->path, err);
}

/* Compares the data with metadata "trf.crc32", reading what is left of them; a file without it passes. */
TRF__FN trf_status trf__file_check_crc(trf_file *file, trf_error *err)
{
    unsigned char chunk[TRF__CHUNK];
    const char *text = trf_file_metadata(file, "trf.crc32");
    char found[16];
    uint64_t left;
    if (!text) return TRF_OK;
    if (strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8)
        return trf__fail(err, TRF_E_FORMAT, trf__file_where(file, text), "trf.crc32",
                         "expected 8 lower-case hexadecimal digits, got \"%.20s\"", text);
    if (!file->summed) trf__file_sum(file);
    while ((left = file->from.size - file->summed) > 0)
        TRF__TRY(trf__file_data(file, file->summed, chunk, left < sizeof chunk ? (size_t)left : sizeof chunk, err));
    snprintf(found, sizeof found, "%08lx", (unsigned long)file->crc.value);
    if (!strcmp(found, text)) return TRF_OK;
    return trf__fail(err, TRF_E_CHECKSUM, (int64_t)file->data_begin, "trf.crc32",
                     "the data have CRC-32 %s, expected %s: the file was damaged", found, text);
}

/* ---- writing ---- */

/* A tensor in the making. */
typedef struct trf__out {
    char name[TRF__FILE_NAME + 1];
    int32_t rank;
    int64_t shape[4];
    const char *dtype;          /* "F32", "F64", "BF16", "F16", "I32", "I64" or "U8" */
    uint64_t bytes;             /* in the file */
    const void *data;           /* numbers in the machine's order, */
    const trf__run *home;       /* on this device; NULL: in the host's memory */
} trf__out;

/* Where a file is written to: a path, or, where that is NULL, memory; *bytes is how much it takes. */
typedef struct trf__destination { const char *path; void *memory; size_t size, *bytes; } trf__destination;

#define TRF__DTYPE (sizeof(trf_real) == 8 ? "F64" : "F32")      /* of all our numbers */

/* The name is prefix + name. */
TRF__FN trf__out trf__out_of(const char *prefix, const char *name, const char *dtype, int32_t rank,
                             const int64_t *shape, const void *data, const trf__run *home)
{
    trf__out out;
    int32_t k;
    TRF__ZERO(out);
    snprintf(out.name, sizeof out.name, "%s%s", prefix, name);
    out.rank = rank;
    out.dtype = dtype;
    out.bytes = (uint64_t)trf__dtype_of(dtype)->bytes;
    for (k = 0; k < rank; k++) out.bytes *= (uint64_t)(out.shape[k] = shape[k]);
    out.data = data;
    out.home = home;
    return out;
}

/* Writes notes, each with trf__note, the same ones at each call. */
typedef void (*trf__notes)(trf__text *text, const void *of);

TRF__FN void trf__note(trf__text *text, const char *key, const char *value)
{
    trf__put(text, ",");
    trf__put_string(text, key);
    trf__put(text, ":");
    trf__put_string(text, value);
}

TRF__FN void trf__put_header(trf__text *text, const trf__out *tensors, int32_t n, trf__notes notes, const void *of,
                             uint32_t crc)
{
    uint64_t at = 0;
    int32_t i, k;
    trf__putf(text, "{\"__metadata__\":{\"trf.crc32\":\"%08lx\"", (unsigned long)crc);
    if (notes) notes(text, of);
    trf__put(text, "}");
    for (i = 0; i < n; i++) {
        trf__put(text, ",");
        trf__put_string(text, tensors[i].name);
        trf__putf(text, ":{\"dtype\":\"%s\",\"shape\":[", tensors[i].dtype);
        for (k = 0; k < tensors[i].rank; k++) trf__putf(text, k ? ",%lld" : "%lld", (long long)tensors[i].shape[k]);
        trf__putf(text, "],\"data_offsets\":[%llu,", (unsigned long long)at);
        trf__putf(text, "%llu]}", (unsigned long long)(at += tensors[i].bytes));
    }
    trf__put(text, "}");
    while (text->n % 8) trf__put(text, " ");        /* the data begin at a multiple of 8 */
}

/* The nearest number of 16 bits, with so many of them a fraction's and as many others an exponent's, of two as
   near the even one. Infinite where there is none: all bits of the exponent. */
TRF__FN uint32_t trf__narrow(double x, int fraction)
{
    const int lowest = fraction == 7 ? -126 : -14;      /* exponent of the least normal number */
    const uint32_t infinite = (fraction == 7 ? 255u : 31u) << fraction;
    uint64_t bits, whole, rest, middle, kept;
    uint32_t sign;
    int exponent, shift;
    memcpy(&bits, &x, sizeof bits);
    sign = (uint32_t)(bits >> 63) << 15;
    exponent = (int)(bits >> 52 & 2047) - 1023;
    whole = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1 << 52;
    if (exponent == 1024) return sign | infinite | (uint32_t)((bits & 0xFFFFFFFFFFFFFu ? 1u : 0u) << (fraction - 1));
    shift = 52 - fraction + (exponent < lowest ? lowest - exponent : 0);
    if (shift > 53) return sign;                        /* below half of the least one; 0 too */
    kept = whole >> shift;
    rest = whole & (((uint64_t)1 << shift) - 1);
    middle = (uint64_t)1 << (shift - 1);
    kept += rest > middle || (rest == middle && (kept & 1));
    if (exponent >= lowest) kept += ((uint64_t)(exponent - lowest + 1) << fraction) - ((uint64_t)1 << fraction);
    return sign | (kept > infinite ? infinite : (uint32_t)kept);
}

/* n numbers with 16 bits each; their number `at` is the tensor's. */
TRF__FN trf_status trf__narrow_chunk(const trf__out *out, const trf_real *from, size_t n, uint64_t at,
                                     unsigned char *chunk, trf_error *err)
{
    const int fraction = out->dtype[0] == 'B' ? 7 : 10;
    const uint32_t infinite = (fraction == 7 ? 255u : 31u) << fraction;
    size_t i;
    for (i = 0; i < n; i++) {
        uint32_t bits = trf__narrow((double)from[i], fraction);
        if ((bits & infinite) == infinite && trf__is_finite((double)from[i]))
            return trf__fail(err, TRF_E_NONFINITE, (int64_t)(at + i), out->name,
                             "tensor \"%.100s\": number %llu is %g, which %s cannot hold", out->name,
                             (unsigned long long)(at + i), (double)from[i], out->dtype);
        trf__to_little(chunk + 2 * i, bits, 2);
    }
    return TRF_OK;
}

/* Up to TRF__CHUNK bytes of a tensor, as they stand in the file, and how many. */
TRF__FN trf_status trf__out_chunk(const trf__out *out, uint64_t at, unsigned char *chunk, size_t *bytes,
                                  trf_error *err)
{
    trf_real reals[TRF__CHUNK / sizeof(trf_real)];
    const unsigned char *from = (const unsigned char *)reals;
    int width = trf__dtype_of(out->dtype)->bytes;
    size_t own = width == 2 ? sizeof(trf_real) : (size_t)width;      /* bytes of a number in memory */
    uint64_t left = (out->bytes - at) / (uint64_t)width;
    size_t n = left < TRF__CHUNK / own ? (size_t)left : (size_t)(TRF__CHUNK / own), i;
    uint64_t begin = at / (uint64_t)width * own;
    if (!out->home) from = (const unsigned char *)out->data + begin;
    else {
        out->home->backend->download(out->home, reals, (const unsigned char *)out->data + begin, n * own);
        TRF__TRY(out->home->backend->sync(out->home, err));
    }
    *bytes = n * (size_t)width;
    if (width == 2)
        return trf__narrow_chunk(out, (const trf_real *)(const void *)from, n, at / (uint64_t)width, chunk, err);
    for (i = 0; i < *bytes; i += (size_t)width) {
        uint64_t bits = from[i];
        uint32_t narrow;
        if (width == 8) memcpy(&bits, from + i, 8);
        else if (width == 4) { memcpy(&narrow, from + i, 4); bits = narrow; }
        trf__to_little(chunk + i, bits, width);
    }
    return TRF_OK;
}

TRF__FN trf_status trf__out_crc(const trf__out *tensors, int32_t n, uint32_t *sum, trf_error *err)
{
    unsigned char chunk[TRF__CHUNK];
    trf__crc crc;
    uint64_t at;
    size_t bytes;
    int32_t i;
    trf__crc_begin(&crc);
    for (i = 0; i < n; i++)
        for (at = 0; at < tensors[i].bytes; at += bytes) {
            TRF__TRY(trf__out_chunk(tensors + i, at, chunk, &bytes, err));
            trf__crc_add(&crc, chunk, bytes);
        }
    *sum = crc.value;
    return TRF_OK;
}

/* Some bytes more: into a file that is being saved, or, where that is NULL, into memory. */
TRF__FN int trf__out_put(const trf__saving *to, unsigned char **memory, const void *bytes, size_t n)
{
    if (to) return trf__write_all(to->fd, bytes, n);
    memcpy(*memory, bytes, n);
    *memory += n;
    return 0;
}

TRF__FN trf_status trf__out_write(const trf__saving *to, void *memory, const char *header, size_t header_bytes,
                                  const trf__out *tensors, int32_t n, trf_error *err)
{
    unsigned char chunk[TRF__CHUNK], *at_memory = (unsigned char *)memory;
    uint64_t at;
    size_t bytes;
    int32_t i;
    int error;
    trf__to_little(chunk, header_bytes, 8);
    error = trf__out_put(to, &at_memory, chunk, 8);
    if (!error) error = trf__out_put(to, &at_memory, header, header_bytes);
    for (i = 0; i < n; i++)
        for (at = 0; !error && at < tensors[i].bytes; at += bytes) {
            TRF__TRY(trf__out_chunk(tensors + i, at, chunk, &bytes, err));
            error = trf__out_put(to, &at_memory, chunk, bytes);
        }
    return error ? trf__fail_io(err, error, to->temporary, "write it") : TRF_OK;
}

/* Whether all of it has room in the memory that it goes to. */
TRF__FN trf_status trf__out_fits(const trf__destination *to, size_t header, const trf__out *tensors, int32_t n,
                                 trf_error *err)
{
    uint64_t bytes = 8 + (uint64_t)header;
    int32_t i;
    if (to->path) return TRF_OK;
    for (i = 0; i < n; i++) bytes += tensors[i].bytes;
    if (bytes > SIZE_MAX)
        return trf__fail(err, TRF_E_LIMIT, -1, "size", "%llu bytes are more than memory can have",
                         (unsigned long long)bytes);
    if (to->bytes) *to->bytes = (size_t)bytes;
    if (bytes <= to->size) return TRF_OK;
    return trf__fail(err, TRF_E_LIMIT, (int64_t)to->size, "size", "expected room for %llu bytes, got %llu",
                     (unsigned long long)bytes, (unsigned long long)to->size);
}

/* Writes a whole file, or changes nothing. Names and keys differ, and are UTF-8: callers have no others. */
TRF__COLD
TRF__FN trf_status trf__file_write(const trf_hooks *hooks, const trf__destination *to, const trf__out *tensors,
                                   int32_t n, trf__notes notes, const void *of, trf_error *err)
{
    trf__saving saving;
    trf__text header;
    size_t bytes;
    uint32_t sum;
    trf_status status;
    if (to->path && !*to->path) return trf__fail(err, TRF_E_INVALID_ARG, -1, "path", "expected a path, got nothing");
    TRF__ZERO(header);
    trf__put_header(&header, tensors, n, notes, of, 0);
    bytes = header.n;
    if (bytes > TRF__FILE_HEADER)
        return trf__fail(err, TRF_E_LIMIT, -1, "header",
                         "names and texts need a header of %llu bytes, the limit is %d",
                         (unsigned long long)bytes, (int)TRF__FILE_HEADER);
    TRF__TRY(trf__out_fits(to, bytes, tensors, n, err));
    header.to = (char *)trf__alloc(hooks, bytes);
    if (!header.to)
        return trf__fail(err, TRF_E_NOMEM, -1, "memory", "no memory for a header of %llu bytes",
                         (unsigned long long)bytes);
    status = trf__out_crc(tensors, n, &sum, err);
    if (!status) {
        header.n = 0;
        trf__put_header(&header, tensors, n, notes, of, sum);
        if (to->path) {
            status = trf__save_begin(&saving, hooks, to->path, err);
            if (!status) status = trf__out_write(&saving, NULL, header.to, bytes, tensors, n, err);
            status = trf__save_end(&saving, hooks, status, err);
        } else status = trf__out_write(NULL, to->memory, header.to, bytes, tensors, n, err);
    }
    trf__free(hooks, header.to, bytes);
    return status;
}

TRF__FN trf__destination trf__to_path(const char *path)
{
    trf__destination to = { path, NULL, 0, NULL };
    return to;
}

/* Texts of the caller's: `of` is the list key, value, ..., NULL. */
TRF__FN void trf__note_texts(trf__text *notes, const void *of)
{
    const char *const *texts = (const char *const *)of;
    for (; texts && *texts; texts += 2) trf__note(notes, texts[0], texts[1]);
}

TRF__FN trf_status trf__texts_check(const char *const *texts, int32_t *n, trf_error *err)
{
    for (*n = 0; texts && *texts; texts += 2, ++*n) {
        TRF__TRY(trf__check_utf8(texts[0], "metadata", err));
        if (!texts[1] || !strncmp(texts[0], "trf.", 4))
            return trf__fail(err, TRF_E_INVALID_ARG, *n, "metadata",
                             texts[1] ? "text %d: the key %.100s belongs to the library"
                                      : "text %d: the key %.100s has no value", (int)*n, texts[0]);
        TRF__TRY(trf__check_utf8(texts[1], "metadata", err));
        if (*n == TRF__META_MOST)
            return trf__fail(err, TRF_E_LIMIT, *n, "metadata", "more than %d texts", (int)TRF__META_MOST);
    }
    return TRF_OK;
}

/* Tensor number i of trf_file_save. */
TRF__FN trf_status trf__out_tensor(trf__out *out, const trf_tensor *t, int32_t i, trf_error *err)
{
    int64_t most = sizeof(trf_real);        /* bytes, if no dimension were 0: readers ask for that */
    int32_t k;
    if (!t->name) return trf__fail(err, TRF_E_INVALID_ARG, i, "name", "tensor %d has no name", (int)i);
    TRF__TRY(trf__file_name(t->name, "tensor", i, err));
    TRF__TRY(trf__check_utf8(t->name, "name", err));
    if (!strcmp(t->name, "__metadata__") || t->rank < 0 || t->rank > TRF_MAX_RANK ||
        (!t->data && !t->home && trf_tensor_count(t) > 0))
        return trf__fail(err, TRF_E_INVALID_ARG, i, t->name,
                         "tensor %d: expected a rank of 0 to %d, numbers, and another name than __metadata__", (int)i,
                         (int)TRF_MAX_RANK);
    for (k = 0; k < t->rank; k++) {
        if (t->shape[k] > 1) most = trf__times(most, t->shape[k]);
        if (t->shape[k] < 0 || most > (int64_t)TRF__FILE_INTEGER)
            return trf__fail(err, TRF_E_SHAPE, i, t->name, "the shape of tensor %d makes no sense", (int)i);
    }
    *out = trf__out_of("", t->name, TRF__DTYPE, t->rank, t->shape, t->data ? t->data : t->there,
                       t->data ? NULL : (const trf__run *)t->home);
    return TRF_OK;
}

/* ---- public ---- */

TRF__FN trf_status trf__tensors_save(const char *path, const trf_tensor *tensors, int32_t n,
                                     const char *const *metadata, const trf_hooks *hooks, trf_error *err)
{
    const trf__destination to = trf__to_path(path);
    trf__out *out;
    const void **items;
    size_t bytes, room;
    int32_t i, n_texts;
    trf_status status = TRF_OK;
    if (!tensors && n != 0) return trf__fail_null(err, "tensors");
    TRF__TRY(trf__check_range("n", n, 0, TRF__FILE_TENSORS, err));
    TRF__TRY(trf__hooks_check(hooks, err));
    TRF__TRY(trf__texts_check(metadata, &n_texts, err));
    bytes = trf__bytes(n, sizeof *out);
    room = trf__bytes(n > n_texts ? n : n_texts, sizeof *items);
    out = (trf__out *)trf__alloc_zeroed(hooks, bytes);
    items = (const void **)trf__alloc(hooks, room);
    if (!out || !items) status = trf__fail(err, TRF_E_NOMEM, -1, "tensors", "no memory for %d tensors", (int)n);
    for (i = 0; !status && i < n_texts; i++) items[i] = metadata + 2 * i;
    if (!status) status = trf__file_unique(NULL, items, n_texts, "key", metadata, 2 * sizeof *metadata, err);
    for (i = 0; !status && i < n; i++) {
        status = trf__out_tensor(&out[i], &tensors[i], i, err);
        items[i] = &tensors[i];
    }
    if (!status) status = trf__file_unique(NULL, items, n, "tensor", tensors, sizeof *tensors, err);
    if (!status) status = trf__file_write(hooks, &to, out, n, trf__note_texts, metadata, err);
    trf__free(hooks, (void *)items, room);
    trf__free(hooks, out, bytes);
    return status;
}

TRF__COLD
TRF_API trf_status trf_file_save(const char *path, const trf_tensor *tensors, int32_t n,
                                 const char *const *metadata, const trf_hooks *hooks, trf_error *err)
{
    trf_hooks none;
    TRF__ZERO(none);
    TRF__TRY(trf__begin(path, "path", err));
    return trf__name_file(trf__tensors_save(path, tensors, n, metadata, hooks ? hooks : &none, err), path, err);
}

TRF_API trf_load_options trf_load_defaults(void)
{
    trf_load_options options;
    TRF__ZERO(options);
    options.max_bytes = (uint64_t)64 << 30;
    options.device = trf_device_default();
    return options;
}

TRF_API void trf_file_close(trf_file *file)
{
    trf_hooks hooks;
    if (!file) return;
    hooks = file->hooks;
    if (file->from.fd >= 0) trf__close(file->from.fd);
    trf__free(&hooks, file, file->allocated);
}

TRF_API int32_t trf_file_count(const trf_file *file) { return file ? file->count : 0; }

TRF_API trf_file_entry trf_file_at(const trf_file *file, int32_t index)
{
    trf_file_entry none;
    if (file && index >= 0 && index < file->count) return file->entries[index];
    TRF__ZERO(none);
    return none;
}

TRF_API int32_t trf_file_metadata_count(const trf_file *file) { return file ? file->n_meta : 0; }

TRF_API void trf_file_metadata_at(const trf_file *file, int32_t index, const char **key, const char **value)
{
    int inside = file && index >= 0 && index < file->n_meta;
    if (key) *key = inside ? file->meta[index].key : NULL;
    if (value) *value = inside ? file->meta[index].value : NULL;
}

TRF_API const char *trf_file_metadata(const trf_file *file, const char *key)
{
    const void *found = file && key ? trf__find_name(file->by_key, file->n_meta, key) : NULL;
    return found ? ((const trf__meta *)found)->value : NULL;
}

/* Opens what is in memory, or at a path, or leaves nothing open. */
TRF__COLD
TRF__FN trf_status trf__file_start(trf_file **file, trf__origin from, const trf_load_options *options, trf_error *err)
{
    trf_load_options chosen = options ? *options : trf_load_defaults();
    trf_os_facts facts;
    uint64_t length = 0;
    trf_status status = TRF_OK;
    TRF__ZERO(facts);
    if (chosen.max_bytes == 0)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "max_bytes",
                         "expected a limit above 0 (trf_load_defaults), got 0");
    TRF__TRY(trf__hooks_check(&chosen.hooks, err));
    if (!from.memory) {
        TRF__TRY(trf__open_regular(from.path, &from.fd, &facts, err));
        from.size = facts.size;
    }
    if (from.size > chosen.max_bytes)
        status = trf__fail(err, TRF_E_LIMIT, -1, from.path, "file is %llu bytes, the limit is %llu (max_bytes)",
                           (unsigned long long)from.size, (unsigned long long)chosen.max_bytes);
    if (!status) status = trf__file_length(&from, &length, err);
    if (!status) {
        *file = trf__file_alloc(&chosen.hooks, (int64_t)length);
        if (!*file)
            status = trf__fail(err, TRF_E_NOMEM, -1, "memory", "no memory for a header of %llu bytes",
                               (unsigned long long)length);
    }
    if (status) { if (from.fd >= 0) trf__close(from.fd); return status; }
    trf__copy_text((*file)->path, sizeof (*file)->path, trf__path_end(from.path));
    from.path = (*file)->path;
    (*file)->from = from;
    (*file)->allow_nonfinite = chosen.allow_nonfinite;
    (*file)->data_begin = 8 + length;
    status = trf__file_load(*file, err);
    if (status) { trf_file_close(*file); *file = NULL; }
    return status;
}

TRF_API trf_status trf_file_open(trf_file **file, const char *path, const trf_load_options *options, trf_error *err)
{
    trf__origin from = { NULL, -1, path, 0 };
    TRF__TRY(trf__begin(file, "file", err));
    *file = NULL;
    if (!path || !*path) return trf__fail(err, TRF_E_INVALID_ARG, -1, "path", "expected a path, got nothing");
    return trf__name_file(trf__file_start(file, from, options, err), path, err);
}

TRF_API trf_status trf_file_open_memory(trf_file **file, const void *bytes, size_t n,
                                        const trf_load_options *options, trf_error *err)
{
    trf__origin from = { (const unsigned char *)bytes, -1, "memory", n };
    TRF__TRY(trf__begin(file, "file", err));
    *file = NULL;
    if (!bytes) return trf__fail_null(err, "bytes");
    return trf__name_file(trf__file_start(file, from, options, err), "memory", err);
}

// -----------------------------------------------------------------------------------------------
// >>store          models and checkpoints as safetensors
//
//   tensors            the parameters, with the names and shapes of trf_parameter; a tied matrix once, under
//                      src_embed.weight (all tied) or tgt_embed.weight. A checkpoint adds Adam's moments:
//                      optimizer.m.NAME and optimizer.v.NAME. Last, of type U8, trf.source_vocab and
//                      trf.target_vocab: the tokens from id 4 on, each with a NUL behind it; or a SentencePiece
//                      model.
//   __metadata__       trf.format = 3; trf.version, of the library that wrote it; trf.content = model | checkpoint;
//                      trf.config.FIELD, each field as decimal text (enumerators as numbers, doubles with 17
//                      digits); trf.source_vocab and trf.target_vocab = words | characters |
//                      sentencepiece; trf.crc32 of the data. A checkpoint adds trf.train.FIELD, trf.step,
//                      trf.updates, with a corpus trf.corpus.epoch, .batch and .fingerprint, and, where parameters
//                      are frozen, trf.frozen: 1 or 0 for each, in the order of trf_parameter; trf.missed.NAME of
//                      one that is or was: updates meanwhile, less all that there were when it froze.
//                      "format": "pt" is for PyTorch's users. All other keys are the program's own
//                      (trf_model_set_metadata), or of those who wrote the file before.
//
// Vocabularies are tensors, not texts of the header: bytes need no escapes there and may be any, a header has 16 MiB,
// and the checksum covers them. load_state_dict(strict=False) passes over them.
//
// Loading finds a tied matrix under any of its names (several must hold the same bits), accepts the prefix
// `transformer.` that a wrapping nn.Module adds, behind `module.` and `_orig_mod.` (DistributedDataParallel, compile)
// where all names begin so, and refuses every tensor that it has no use for. Nothing is
// allocated for weights before the whole header has been proven to fit the configuration.
// -----------------------------------------------------------------------------------------------

/* The format moves with every change that a reader of another one would not understand. What format 2 lacks (3 in the
   tables' last column) has its default there. */
enum { TRF__FORMAT = 3, TRF__FORMAT_READ = 2, TRF__NOTE_SIZE = 40 };
static const char *const trf__vocab_names[2] = {"trf.source_vocab", "trf.target_vocab"};
static const char *const trf__kind_names[3] = {"words", "characters", "sentencepiece"};

TRF__FN void trf__note_int(trf__text *notes, const char *key, int64_t value)
{
    char text[TRF__NOTE_SIZE];
    snprintf(text, sizeof text, "%lld", (long long)value);
    trf__note(notes, key, text);
}

TRF__FN void trf__note_real(trf__text *notes, const char *key, double value)
{
    char text[TRF__NOTE_SIZE];
    trf__print_real(text, sizeof text, value, 17);
    trf__note(notes, key, text);
}

/* Number `key` of the metadata, real or whole and of so many bytes: missing or malformed is an error. */
TRF__FN trf_status trf__read_number(const trf_file *file, const char *key, double *real, int64_t *whole, size_t bytes,
                                    trf_error *err)
{
    const char *text = trf_file_metadata(file, key);
    if (!text) return trf__fail(err, TRF_E_FORMAT, -1, key, "the metadata lack %s", key);
    if (real ? !trf__parse_real(text, real) : !trf__parse_int(text, whole))
        return trf__fail(err, TRF_E_FORMAT, -1, key, "%s must be a %snumber, got \"%.40s\"", key,
                         real ? "" : "whole ", text);
    if (real || bytes != 4 || *whole == (int64_t)(int32_t)*whole) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, *whole, key, "%s must fit into 32 bits, got %lld", key, (long long)*whole);
}

TRF__FN trf_status trf__read_int(const trf_file *file, const char *key, int64_t *value, trf_error *err)
{
    return trf__read_number(file, key, NULL, value, sizeof *value, err);
}

/* A field of a table as a note, and back into its own type. Half of one is 0 in every type but double. */
#define TRF__IS_REAL(type) ((type)0.5 != 0)
#define TRF__NOTE_FIELD(prefix, object, type, field, stored) \
    if ((stored) && TRF__IS_REAL(type)) trf__note_real(notes, prefix #field, (double)(object)->field); \
    else if (stored) trf__note_int(notes, prefix #field, (int64_t)(object)->field);
#define TRF__READ_FIELD(prefix, object, type, field, stored) \
    if ((stored) && (stored) <= format) { \
        double real = 0; \
        int64_t whole = 0; \
        TRF__TRY(trf__read_number(file, prefix #field, TRF__IS_REAL(type) ? &real : NULL, &whole, sizeof(type), \
                                  err)); \
        (object)->field = TRF__IS_REAL(type) ? (type)real : (type)whole; \
    }

/* What a configuration from a file does wrong is the file's fault, not an argument's. err is not NULL. */
TRF__FN trf_status trf__file_fault(trf_status status, trf_error *err)
{
    static const char *const special[4] = {"pad", "bos", "eos", "unk"};
    int i;
    if (status != TRF_E_INVALID_ARG) return status;
    for (i = 0; i < 4; i++)
        if (!strcmp(err->what, special[i])) return (trf_status)(err->status = TRF_E_SHAPE);
    err->status = TRF_E_FORMAT;
    return TRF_E_FORMAT;
}

TRF__FN trf_status trf__read_config(const trf_file *file, const trf_load_options *options, trf_config *c,
                                    trf_error *err)
{
    const char *version = trf_file_metadata(file, "trf.version");
    int ours = trf_file_metadata(file, "trf.format") != NULL;
    int64_t format;
    *c = trf_config_tiny();
    if (ours) {
        TRF__TRY(trf__read_int(file, "trf.format", &format, err));
        if (format < TRF__FORMAT_READ || format > TRF__FORMAT)
            return trf__fail(err, TRF_E_UNSUPPORTED, format, "trf.format",
                             "the file has format %lld, of transformer.h %.20s; this is " TRF_VERSION
                             ", which reads formats %d to %d",
                             (long long)format, version ? version : "0.1", (int)TRF__FORMAT_READ, (int)TRF__FORMAT);
#define TRF__X(type, field, low, high, stored) TRF__READ_FIELD("trf.config.", c, type, field, stored)
        TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    } else if (options->config) *c = *options->config;
    else return trf__fail(err, TRF_E_INVALID_ARG, -1, "config",
                          "the file has no trf.format: give its configuration in the load options");
    c->device = options->device;
    c->hooks = options->hooks;
    return ours ? trf__file_fault(trf__config_check(c, err), err) : trf__config_check(c, err);
}

// >>store-match    tensors of a file against the parameters of a configuration
//
// Two questions: has every parameter its tensor, and every tensor its parameter? Only then are numbers read.

/* Notes what PyTorch's DataParallel, DistributedDataParallel and compile have put in front of every name. */
TRF__FN void trf__find_wrapper(trf_file *file)
{
    static const char *const known[2] = {"module.", "_orig_mod."};
    size_t at = 0, length;
    int32_t i, k = 0;
    while (k < 2 && file->count > 0) {
        length = strlen(known[k]);
        for (i = 0; i < file->count && !strncmp(file->entries[i].name + at, known[k], length); i++) { }
        if (i < file->count || at + length >= sizeof file->wrapper) { k++; continue; }
        at += length;
        k = 0;
    }
    if (at) memcpy(file->wrapper, file->entries[0].name, at);
    file->wrapper[at] = 0;
}

/* The tensor called prefix + name, with or without `transformer.` in front; -1 if there is none. */
TRF__FN int32_t trf__find_tensor(const trf_file *file, const char *prefix, const char *name)
{
    char whole[192];
    int32_t index;
    snprintf(whole, sizeof whole, "%s%s%s", file->wrapper, prefix, name);
    index = trf__file_find(file, whole);
    if (index >= 0) return index;
    snprintf(whole, sizeof whole, "%stransformer.%s%s", file->wrapper, prefix, name);
    return trf__file_find(file, whole);
}

/* A tensor of the file with something else in front of the name, or NULL. */
TRF__FN const char *trf__find_prefixed(const trf_file *file, const char *name)
{
    size_t length = strlen(name), whole;
    int32_t i;
    for (i = 0; i < file->count; i++) {
        const char *other = file->entries[i].name;
        whole = strlen(other);
        if (whole > length && other[whole - length - 1] == '.' && !strcmp(other + whole - length, name)) return other;
    }
    return NULL;
}

TRF__FN trf_status trf__fail_lacking(const trf_file *file, const char *prefix, const trf__param *p, trf_error *err)
{
    const char *other = trf__find_prefixed(file, p->name);
    if (other)
        return trf__fail(err, TRF_E_SHAPE, -1, p->name, "the file lacks tensor \"%s%s\" and has \"%.60s\"; prefixes "
                         "that are known: transformer., module., _orig_mod.", prefix, p->name, other);
    return trf__fail(err, TRF_E_SHAPE, -1, p->name, "the file lacks tensor \"%s%s\" of shape (%lld, %lld)", prefix,
                     p->name, (long long)p->shape[0], (long long)p->shape[1]);
}

/* Other names under which files of other programs keep a tied matrix; NULL if none. */
TRF__FN const char *trf__alias(const trf_config *c, const trf__param *p, int number)
{
    static const char *const names[2] = {"generator.weight", "tgt_embed.weight"};
    if (c->tying == TRF_TIED_ALL && !strcmp(p->name, "src_embed.weight")) return number < 2 ? names[number] : NULL;
    if (c->tying == TRF_TIED_DECODER && !strcmp(p->name, "tgt_embed.weight")) return number < 1 ? names[0] : NULL;
    return NULL;
}

TRF__FN trf_status trf__match_shape(const trf_file_entry *e, const trf__param *p, trf_error *err)
{
    if (!trf__dtype_of(e->dtype)->code)
        return trf__fail(err, TRF_E_SHAPE, (int64_t)e->begin, e->name,
                         "tensor \"%.100s\" must be of type F32, F64, F16 or BF16, got %s", e->name, e->dtype);
    if (e->rank == p->rank && e->shape[0] == p->shape[0] &&
        (p->rank == 1 || e->shape[1] == p->shape[1])) return TRF_OK;
    return trf__fail(err, TRF_E_SHAPE, (int64_t)e->begin, e->name,
                     "tensor \"%.100s\" must have rank %d and shape (%lld, %lld), got rank %d and (%lld, %lld)",
                     e->name, p->rank, (long long)p->shape[0], (long long)p->shape[1], e->rank,
                     (long long)(e->rank > 0 ? e->shape[0] : 1),
                     (long long)(e->rank > 1 ? e->shape[1] : 1));
}

/* Every parameter has its tensor (with this prefix), of the right shape; known[i] becomes 1 for tensors of use. */
TRF__FN trf_status trf__match(const trf_file *file, const trf_model *model, const char *prefix, char *known,
                              trf_error *err)
{
    int32_t i;
    for (i = 0; i < model->layout.n_params; i++) {
        const trf__param *p = &model->layout.params[i];
        const char *name = p->name;
        int32_t index, n = 0, found = 0;
        for (; name; name = trf__alias(&model->config, p, n++)) {
            index = trf__find_tensor(file, prefix, name);
            if (index < 0) continue;
            TRF__TRY(trf__match_shape(&file->entries[index], p, err));
            known[index] = 1;
            found = 1;
        }
        if (!found) return trf__fail_lacking(file, prefix, p, err);
    }
    return TRF_OK;
}

TRF__FN trf_status trf__match_tensors(const trf_file *file, const trf_model *model, int checkpoint, trf_error *err)
{
    const trf_hooks *hooks = &model->config.hooks;
    char *known = (char *)trf__alloc_zeroed(hooks, (size_t)file->count);
    trf_status status;
    int32_t i;
    if (!known) return trf__fail(err, TRF_E_NOMEM, -1, "tensors", "no memory to compare %d tensors", file->count);
    status = trf__match(file, model, "", known, err);
    if (!status && checkpoint) status = trf__match(file, model, "optimizer.m.", known, err);
    if (!status && checkpoint) status = trf__match(file, model, "optimizer.v.", known, err);
    for (i = 0; i < 2; i++) {
        int32_t index = trf__file_find(file, trf__vocab_names[i]);
        if (index >= 0) known[index] = 1;
    }
    for (i = 0; !status && i < file->count; i++)
        if (!known[i])
            status = trf__fail(err, TRF_E_SHAPE, (int64_t)file->entries[i].begin, file->entries[i].name,
                               "tensor \"%.100s\" belongs to no parameter of this configuration",
                               file->entries[i].name);
    trf__free(hooks, known, (size_t)file->count);
    return status;
}

/* One tensor into the place of a parameter, or, if that has been read already, compared with what is there. */
TRF__FN trf_status trf__read_param(trf_file *file, int32_t index, const trf_model *model, trf_real *arena,
                                   const trf__param *p, int have, trf_error *err)
{
    trf_real numbers[TRF__CHUNK / sizeof(trf_real)], there[TRF__CHUNK / sizeof(trf_real)];
    const char *name = trf_file_at(file, index).name;
    int64_t at, n, i, size = trf__param_size(p);
    int squares = strstr(name, "optimizer.v.") != NULL;
    for (at = 0; at < size; at += n) {
        n = trf__min64(size - at, (int64_t)(sizeof numbers / sizeof *numbers));
        TRF__TRY(trf_file_read(file, index, at, numbers, n, err));
        for (i = 0; squares && i < n; i++)
            if (!(numbers[i] >= 0))
                return trf__fail(err, TRF_E_STATE, at + i, name, "a second moment must not be negative, got %g",
                                 (double)numbers[i]);
        if (!have) { trf__arena_put(model, arena, p->offset + at, numbers, n); continue; }
        TRF__TRY(trf__arena_get(model, arena, p->offset + at, there, n, err));
        if (!memcmp(numbers, there, (size_t)n * sizeof *there)) continue;
        return trf__fail(err, TRF_E_SHAPE, -1, name, "\"%.90s\" is tied to \"%s\", but its values differ", name,
                         p->name);
    }
    return TRF_OK;
}

/* Reads one arena; a matrix found under several names must be the same under all of them. */
TRF__FN trf_status trf__read_arena(trf_file *file, const trf_model *model, const char *prefix, trf_real *arena,
                                   trf_error *err)
{
    int32_t i, n;
    for (i = 0; i < model->layout.n_params; i++) {
        const trf__param *p = &model->layout.params[i];
        const char *name = p->name;
        int have = 0;
        for (n = 0; name; name = trf__alias(&model->config, p, n++)) {
            int32_t index = trf__find_tensor(file, prefix, name);
            if (index < 0) continue;
            TRF__TRY(trf__read_param(file, index, model, arena, p, have, err));
            have = 1;
        }
    }
    return model->run.backend->sync(&model->run, err);
}

/* The weights of a model, and the checksum of its file. Damage is told first, whatever else the numbers do. */
TRF__FN trf_status trf__read_weights(trf_file *file, trf_model *model, trf_error *err)
{
    trf_error damage;
    trf_status status, checked;
    if (trf_file_metadata(file, "trf.crc32")) trf__file_sum(file);
    status = trf__read_arena(file, model, "", model->weights, err);
    checked = trf__file_check_crc(file, status ? &damage : err);
    if (!status || checked != TRF_E_CHECKSUM) return status ? status : checked;
    *err = damage;
    return checked;
}

/* The bytes of a vocabulary: subwords all at once, tokens in pieces that hold the longest one and its NUL, so that
   memory grows with what has been found to be tokens, whatever size the file claims. */
TRF__FN trf_status trf__read_tokens(trf_file *file, const trf_file_entry *e, trf_token_kind kind, trf_vocab **vocab,
                                    const trf_hooks *hooks, trf_error *err)
{
    int64_t n = (int64_t)e->bytes, most = n, at, used;
    trf_vocab *made = NULL;
    trf_status status = TRF_OK;
    size_t room;
    char *bytes;
    if (kind != TRF_SENTENCEPIECE) most = trf__min64(n, TRF__MAX_TOKEN_BYTES + 1);
    room = trf__bytes(most, 1);
    bytes = (char *)trf__alloc(hooks, room);
    if (!bytes) return trf__fail(err, TRF_E_NOMEM, -1, e->name, "no memory to read a vocabulary");
    if (kind == TRF_SENTENCEPIECE) {
        status = trf__file_fetch(&file->from, e->begin, bytes, (size_t)n, err);
        if (!status) status = trf__vocab_from_bytes(vocab, kind, bytes, n, hooks, err);
        trf__free(hooks, bytes, room);
        return status;
    }
    status = trf_vocab_create(&made, kind, hooks, err);
    for (at = used = 0; !status && at < n; at += used) {
        int64_t piece = trf__min64(most, n - at);
        status = trf__file_fetch(&file->from, e->begin + (uint64_t)at, bytes, (size_t)piece, err);
        if (!status) status = trf__vocab_insert_stored(made, bytes, piece, at, &used, err);
    }
    trf__free(hooks, bytes, room);
    return trf__vocab_finished(vocab, made, status);
}

/* A vocabulary: its kind is a text of the metadata, its tokens are a tensor of the same name. */
TRF__FN trf_status trf__read_vocab(trf_file *file, const char *name, trf_vocab **vocab, const trf_hooks *hooks,
                                   trf_error *err)
{
    const char *kind = trf_file_metadata(file, name);
    int32_t index = trf__file_find(file, name);
    trf_file_entry e = trf_file_at(file, index);
    int number;
    if (!kind && index < 0) return TRF_OK;
    if (!kind || index < 0 || strcmp(e.dtype, "U8"))
        return trf__fail(err, TRF_E_FORMAT, -1, name, "a vocabulary is a text and a tensor of type U8, called %s",
                         name);
    for (number = 0; number < 3 && strcmp(kind, trf__kind_names[number]); number++) { }
    if (number == 3)
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, name,
                         "this version knows words, characters and sentencepiece, got \"%.40s\"", kind);
    return trf__read_tokens(file, &e, (trf_token_kind)number, vocab, hooks, err);
}

TRF__FN trf_status trf__read_vocabs(trf_file *file, trf_model *model, trf_error *err)
{
    const trf_config *c = &model->config;
    TRF__TRY(trf__read_vocab(file, trf__vocab_names[0], &model->source, &c->hooks, err));
    TRF__TRY(trf__read_vocab(file, trf__vocab_names[1], &model->target, &c->hooks, err));
    if (model->source || model->target) TRF__TRY(trf__vocab_ids(c, err));
    if (trf__has_source(c)) TRF__TRY(trf__vocab_fits(model->source, c->source_vocab, "source_vocab", err));
    return trf__has_target(c) ? trf__vocab_fits(model->target, c->target_vocab, "target_vocab", err) : TRF_OK;
}

/* What other programs, and the caller's own, have written into the metadata. */
TRF__FN trf_status trf__read_metadata(const trf_file *file, trf_model *model, trf_error *err)
{
    size_t bytes = trf__bytes(file->n_meta, sizeof(trf__meta));
    trf__meta *list = (trf__meta *)trf__alloc(&model->config.hooks, bytes);
    size_t texts = 0;
    trf_status status;
    int32_t i, n = 0;
    if (!list) return trf__fail(err, TRF_E_NOMEM, -1, "metadata", "no memory for %d texts", (int)file->n_meta);
    for (i = 0; i < file->n_meta; i++) {
        const trf__meta *text = (const trf__meta *)file->by_key[i];
        if (trf__our_key(text->key)) continue;
        texts += strlen(text->key) + strlen(text->value);
        list[n++] = *text;
    }
    if (n > TRF__META_LOADED || texts > TRF__META_LOADED_BYTES)
        status = trf__fail(err, TRF_E_LIMIT, n, "metadata", "%d texts of other programs, %llu bytes; the limits are "
                           "%d and %d", (int)n, (unsigned long long)texts, (int)TRF__META_LOADED,
                           (int)TRF__META_LOADED_BYTES);
    else status = trf__metadata_keep(model, list, n, err);
    trf__free(&model->config.hooks, list, bytes);
    return status;
}

TRF__FN int trf__is_checkpoint(const trf_file *file)
{
    const char *content = trf_file_metadata(file, "trf.content");
    return content && !strcmp(content, "checkpoint");
}

/* A model from an open file: configuration, proof that everything fits, weights, vocabularies, others' metadata. */
TRF__COLD
TRF__FN trf_status trf__model_read(trf_model **out, trf_file *file, const trf_load_options *options, trf_error *err)
{
    trf_config config;
    trf_model *model;
    trf_status status;
    TRF__TRY(trf__read_config(file, options, &config, err));
    TRF__TRY(trf__model_frame(&model, &config, err));
    trf__find_wrapper(file);
    status = trf__match_tensors(file, model, trf__is_checkpoint(file), err);
    if (status == TRF_OK) status = trf__model_weights(model, err);
    if (status == TRF_OK) status = trf__read_weights(file, model, err);
    if (status == TRF_OK) status = trf__read_vocabs(file, model, err);
    if (status == TRF_OK) status = trf__read_metadata(file, model, err);
    if (status != TRF_OK) { trf_model_destroy(model); return status; }
    trf__warn_if_slow(model);
    *out = model;
    return TRF_OK;
}

/* A model from a path, or, where that is NULL, from memory. */
TRF__FN trf_status trf__model_open(trf_model **model, const char *path, const void *bytes, size_t n,
                                   const trf_load_options *options, trf_error *err)
{
    trf_error own;
    trf_load_options defaults = trf_load_defaults();
    trf_file *file;
    trf_status status;
    if (!err) err = &own;       /* trf__file_fault reads it */
    TRF__TRY(trf__begin(model, "model", err));
    *model = NULL;
    if (!options) options = &defaults;
    TRF__TRY(trf__device_check(&options->device, err));
    TRF__TRY(bytes ? trf_file_open_memory(&file, bytes, n, options, err) : trf_file_open(&file, path, options, err));
    status = trf__model_read(model, file, options, err);
    trf_file_close(file);
    return trf__name_file(status, bytes ? "memory" : path, err);
}

TRF__COLD
TRF_API trf_status trf_model_load(trf_model **model, const char *path, const trf_load_options *options,
                                  trf_error *err)
{
    return trf__model_open(model, path, NULL, 0, options, err);
}

TRF_API trf_status trf_model_load_memory(trf_model **model, const void *bytes, size_t n,
                                         const trf_load_options *options, trf_error *err)
{
    TRF__TRY(trf__begin(model, "model", err));
    *model = NULL;
    if (!bytes) return trf__fail_null(err, "bytes");
    return trf__model_open(model, NULL, bytes, n, options, err);
}

// >>store-write    the parameters as a list of tensors, everything else as notes in the metadata

TRF__FN void trf__put_arena(trf__out *out, const trf_model *model, const char *prefix, const trf_real *arena,
                            trf_weights weights)
{
    static const char *const dtypes[3] = {TRF__DTYPE, "BF16", "F16"};
    int32_t i;
    for (i = 0; i < model->layout.n_params; i++, out++) {
        const trf__param *p = &model->layout.params[i];
        *out = trf__out_of(prefix, p->name, dtypes[weights], p->rank, p->shape, arena + p->offset, &model->run);
    }
}

/* Writes the model, and with moments a checkpoint. The vocabularies stand last: they leave numbers aligned. */
TRF__FN trf_status trf__write_model(const trf_model *model, const trf_real *m, const trf_real *v, trf__notes notes,
                                    const void *of, const trf__destination *to, trf_weights weights, trf_error *err)
{
    const trf_hooks *hooks = &model->config.hooks;
    const trf_vocab *const vocabs[2] = {model->source, model->target};
    const char *name = to->path ? to->path : "memory";
    int32_t n = model->layout.n_params, all = m ? 3 * n : n, i;
    size_t bytes = trf__bytes(all + 2, sizeof(trf__out));
    trf__out *out;
    trf_status status;
    out = (trf__out *)trf__alloc_zeroed(hooks, bytes);
    if (!out)
        return trf__name_file(trf__fail(err, TRF_E_NOMEM, -1, "tensors", "no memory for a list of %d tensors", all),
                              name, err);
    trf__put_arena(out, model, "", model->weights, weights);
    if (m) {
        trf__put_arena(out + n, model, "optimizer.m.", m, TRF_WEIGHTS_FULL);
        trf__put_arena(out + 2 * n, model, "optimizer.v.", v, TRF_WEIGHTS_FULL);
    }
    for (i = 0; i < 2; i++) {
        int64_t n_bytes = vocabs[i] ? trf__vocab_n_bytes(vocabs[i]) : 0;
        if (vocabs[i])
            out[all++] = trf__out_of("", trf__vocab_names[i], "U8", 1, &n_bytes, trf__vocab_bytes(vocabs[i]), NULL);
    }
    status = trf__file_write(hooks, to, out, all, notes, of, err);
    trf__free(hooks, out, bytes);
    return trf__name_file(status, name, err);
}

/* Memory that a caller gives to be written to. */
TRF__FN trf_status trf__to_memory(trf__destination *to, void *buffer, size_t size, size_t *bytes, trf_error *err)
{
    TRF__ZERO(*to);
    if (bytes) *bytes = 0;
    if (!buffer && size > 0) return trf__fail_null(err, "buffer");
    to->memory = buffer;
    to->size = size;
    to->bytes = bytes;
    return TRF_OK;
}

TRF__COLD
TRF__FN void trf__note_content(trf__text *notes, const trf_model *model, const char *content)
{
    const trf_config *c = &model->config;
    int32_t i;
    trf__note(notes, "format", "pt");
    trf__note_int(notes, "trf.format", TRF__FORMAT);
    trf__note(notes, "trf.version", TRF_VERSION);
    trf__note(notes, "trf.content", content);
    if (model->source) trf__note(notes, trf__vocab_names[0], trf__kind_names[model->source->kind]);
    if (model->target) trf__note(notes, trf__vocab_names[1], trf__kind_names[model->target->kind]);
#define TRF__X(type, field, low, high, stored) TRF__NOTE_FIELD("trf.config.", c, type, field, stored)
    TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    for (i = 0; i < model->n_metadata; i++) trf__note(notes, model->metadata[i].key, model->metadata[i].value);
}

TRF__FN void trf__note_model(trf__text *notes, const void *model)
{
    trf__note_content(notes, (const trf_model *)model, "model");
}

TRF__FN trf_status trf__check_weights(trf_weights weights, trf_error *err)
{
    return trf__check_range("weights", (double)weights, TRF_WEIGHTS_FULL, TRF_WEIGHTS_F16, err);
}

TRF_API trf_status trf_model_save_as(const trf_model *model, const char *path, trf_weights weights, trf_error *err)
{
    const trf__destination to = trf__to_path(path);
    trf__clear(err);
    if (!model || !path) return trf__fail_null(err, model ? "path" : "model");
    TRF__TRY(trf__check_weights(weights, err));
    return trf__write_model(model, NULL, NULL, trf__note_model, model, &to, weights, err);
}

TRF_API trf_status trf_model_save(const trf_model *model, const char *path, trf_error *err)
{
    return trf_model_save_as(model, path, TRF_WEIGHTS_FULL, err);
}

TRF_API trf_status trf_model_save_memory(const trf_model *model, trf_weights weights, void *buffer, size_t size,
                                         size_t *bytes, trf_error *err)
{
    trf__destination to;
    trf__clear(err);
    if (bytes) *bytes = 0;
    if (!model) return trf__fail_null(err, "model");
    TRF__TRY(trf__check_weights(weights, err));
    TRF__TRY(trf__to_memory(&to, buffer, size, bytes, err));
    return trf__write_model(model, NULL, NULL, trf__note_model, model, &to, weights, err);
}

// >>checkpoint     a model, and everything needed to go on with the same bits
//
// Beside the weights: Adam's moments, the numbers of the step and of the moments' updates, the training options, what
// is frozen, and the place in the corpus where the step begins that is not complete: batches delivered for it are
// delivered again.
// Random numbers need no state of their own: they follow from the seed, the step and where in the batch a number
// stands (>>dropout).

#if !defined(TRF_NO_TRAIN)

/* Where a resumed run begins: at the trainer's place, unless that is in other data; where the corpus was put, if it
   is not at that place yet, and so has delivered nothing that the trainer has seen. */
TRF__FN trf_place trf__resume_place(const trf_trainer *trainer, const trf_corpus *corpus)
{
    trf_place next = trf__corpus_place(corpus), begin = trainer->begin;
    int behind = begin.epoch > next.epoch || (begin.epoch == next.epoch && begin.batch > next.batch);
    if (begin.corpus != next.corpus) return next;
    if (behind) { begin.epoch = corpus->put_epoch; begin.batch = corpus->put_batch; }
    return begin;
}

enum { TRF__KEY_SIZE = 160 };

TRF__FN void trf__missed_key(char *to, size_t size, const trf__param *p)
{
    snprintf(to, size, "trf.missed.%s", p->name);
}

typedef struct trf__resume { const trf_trainer *trainer; const trf_corpus *corpus; int64_t updates; } trf__resume;

TRF__COLD
TRF__FN void trf__note_checkpoint(trf__text *notes, const void *of)
{
    const trf__resume *resume = (const trf__resume *)of;
    const trf_trainer *trainer = resume->trainer;
    const trf__layout *layout = &trainer->model->layout;
    char key[TRF__KEY_SIZE];
    int32_t i;
    trf__note_content(notes, trainer->model, "checkpoint");
    trf__note_int(notes, "trf.step", trainer->step);
    trf__note_int(notes, "trf.updates", resume->updates);
    if (strchr(trainer->frozen, '1')) trf__note(notes, "trf.frozen", trainer->frozen);
    for (i = 0; i < layout->n_params; i++)
        if (trainer->missed[i] != 0 || trainer->frozen[i] == '1') {
            trf__missed_key(key, sizeof key, &layout->params[i]);
            trf__note_int(notes, key, trainer->missed[i]);
        }
    if (resume->corpus) {
        trf_place place = trf__resume_place(trainer, resume->corpus);
        trf__note_int(notes, "trf.corpus.fingerprint", (int64_t)place.corpus);
        trf__note_int(notes, "trf.corpus.epoch", place.epoch);
        trf__note_int(notes, "trf.corpus.batch", place.batch);
    }
#define TRF__X(type, field, low, high, stored) TRF__NOTE_FIELD("trf.train.", &trainer->options, type, field, stored)
    TRF__TRAIN_FIELDS(TRF__X)
#undef TRF__X
}

TRF__FN trf_status trf__checkpoint_write(const trf_trainer *trainer, const trf_corpus *corpus,
                                         const trf__destination *to, trf_error *err)
{
    trf__resume of;
    trf__verdict verdict;
    TRF__TRY(trf__no_gradients(trainer, err));
    TRF__TRY(trf__verdict_of(trainer, &verdict, err));
    of.trainer = trainer;
    of.corpus = corpus;
    of.updates = verdict.updates;
    return trf__write_model(trainer->model, trainer->m, trainer->v, trf__note_checkpoint, &of, to, TRF_WEIGHTS_FULL,
                            err);
}

TRF_API trf_status trf_checkpoint_save(const trf_trainer *trainer, const trf_corpus *corpus, const char *path,
                                       trf_error *err)
{
    const trf__destination to = trf__to_path(path);
    trf__clear(err);
    if (!trainer || !path) return trf__fail_null(err, trainer ? "path" : "trainer");
    return trf__checkpoint_write(trainer, corpus, &to, err);
}

TRF_API trf_status trf_checkpoint_save_memory(const trf_trainer *trainer, const trf_corpus *corpus, void *buffer,
                                              size_t size, size_t *bytes, trf_error *err)
{
    trf__destination to;
    trf__clear(err);
    if (bytes) *bytes = 0;
    if (!trainer) return trf__fail_null(err, "trainer");
    TRF__TRY(trf__to_memory(&to, buffer, size, bytes, err));
    return trf__checkpoint_write(trainer, corpus, &to, err);
}

TRF__FN trf_status trf__read_training(const trf_file *file, const trf_config *c, trf_train_options *o, trf_error *err)
{
    const trf_train_options d = trf_train_defaults();
    int64_t format;
    *o = d;
    TRF__TRY(trf__read_int(file, "trf.format", &format, err));
#define TRF__X(type, field, low, high, stored) TRF__READ_FIELD("trf.train.", o, type, field, stored)
    TRF__TRAIN_FIELDS(TRF__X)
#undef TRF__X
    o->hooks = c->hooks;
    TRF__TRY(trf__file_fault(trf__train_check(o, c, err), err));
    /* the limits are only a plan, which grows: a file cannot make us plan for more than the defaults */
    o->source_tokens = o->source_tokens < d.source_tokens ? o->source_tokens : d.source_tokens;
    o->target_tokens = o->target_tokens < d.target_tokens ? o->target_tokens : d.target_tokens;
    o->sequences = o->sequences < d.sequences ? o->sequences : d.sequences;
    o->longest = o->longest < d.longest ? o->longest : d.longest;
    return TRF_OK;
}

TRF__FN trf_status trf__read_place(const trf_file *file, trf_place *place, trf_error *err)
{
    int64_t fingerprint;
    if (!trf_file_metadata(file, "trf.corpus.fingerprint")) return TRF_OK;
    TRF__TRY(trf__read_int(file, "trf.corpus.fingerprint", &fingerprint, err));
    TRF__TRY(trf__read_int(file, "trf.corpus.epoch", &place->epoch, err));
    TRF__TRY(trf__read_int(file, "trf.corpus.batch", &place->batch, err));
    place->corpus = (uint64_t)fingerprint;
    if (place->epoch >= 0 && place->batch >= 0) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "corpus", "expected a place in the data, got batch %lld of epoch %lld",
                     (long long)place->batch, (long long)place->epoch);
}

TRF_API trf_status trf_corpus_resume(trf_corpus *corpus, const trf_trainer *trainer, trf_error *err)
{
    uint64_t fingerprint;
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (!trainer) return trf__fail_null(err, "trainer");
    TRF__TRY(trf__no_gradients(trainer, err));
    fingerprint = trf__corpus_fingerprint(corpus);
    if (trainer->begin.corpus == 0)
        return trf__fail(err, TRF_E_STATE, -1, "corpus", "the trainer has no place in the data");
    if (trainer->begin.corpus != fingerprint)
        return trf__fail(err, TRF_E_STATE, -1, "corpus",
                         "the corpus is not the one of the trainer: fingerprint %016llx, expected %016llx",
                         (unsigned long long)fingerprint, (unsigned long long)trainer->begin.corpus);
    return trf__corpus_seek(corpus, trainer->begin.epoch, trainer->begin.batch, err);
}

/* What is frozen, and has been, after `updates` updates. */
TRF__FN trf_status trf__read_frozen(const trf_file *file, trf_trainer *t, int64_t updates, trf_error *err)
{
    const char *frozen = trf_file_metadata(file, "trf.frozen");
    const trf__layout *layout = &t->model->layout;
    size_t n = (size_t)layout->n_params;
    char key[TRF__KEY_SIZE];
    int32_t i;
    if (frozen && (strlen(frozen) != n || strspn(frozen, "01") != n))
        return trf__fail(err, TRF_E_FORMAT, -1, "trf.frozen",
                         "expected a 0 or a 1 for each of %d parameters, got \"%.40s\"", (int)n, frozen);
    if (frozen) memcpy(t->frozen, frozen, n);
    for (i = 0; i < layout->n_params; i++) {
        int64_t least = t->frozen[i] == '1' ? -updates : 0;
        trf__missed_key(key, sizeof key, &layout->params[i]);
        t->missed[i] = least;           /* what a file says that does not know of it */
        if (!trf_file_metadata(file, key)) continue;
        TRF__TRY(trf__read_int(file, key, &t->missed[i], err));
        if (t->missed[i] < least || t->missed[i] > least + updates)
            return trf__fail(err, TRF_E_FORMAT, t->missed[i], "trf.missed",
                             "%s: expected %lld to %lld updates, got %lld", key, (long long)least,
                             (long long)(least + updates), (long long)t->missed[i]);
    }
    trf__cut_tiles(t, t->options.decay_all);
    return TRF_OK;
}

TRF__FN trf_status trf__trainer_read(trf_trainer **out, trf_model *model, trf_file *file,
                                     const trf_train_options *training, trf_error *err)
{
    trf_train_options stored;
    trf_trainer *t;
    trf_status status;
    trf_place place;
    int64_t step, updates;
    TRF__ZERO(place);
    TRF__TRY(trf__read_int(file, "trf.step", &step, err));
    TRF__TRY(trf__read_int(file, "trf.updates", &updates, err));
    TRF__TRY(trf__read_place(file, &place, err));
    if (!training) {
        TRF__TRY(trf__read_training(file, &model->config, &stored, err));
        training = &stored;
    }
    TRF__TRY(trf_trainer_create(&t, model, training, err));
    t->begin = t->before = t->behind = place;
    status = trf__trainer_moved(t, step, updates, err);
    if (status == TRF_OK) status = trf__read_frozen(file, t, updates, err);
    if (status == TRF_OK) status = trf__read_arena(file, model, "optimizer.m.", t->m, err);
    if (status == TRF_OK) status = trf__read_arena(file, model, "optimizer.v.", t->v, err);
    if (status != TRF_OK) { trf_trainer_destroy(t); return status; }
    *out = t;
    return TRF_OK;
}

/* A checkpoint from a path, or, where that is NULL, from memory. */
TRF__COLD
TRF__FN trf_status trf__checkpoint_open(trf_model **model, trf_trainer **trainer, trf_corpus *corpus,
                                        const char *path, const void *bytes, size_t n,
                                        const trf_train_options *training, const trf_load_options *options,
                                        trf_error *err)
{
    trf_error own;
    trf_load_options defaults = trf_load_defaults();
    trf_file *file;
    trf_model *m = NULL;
    trf_trainer *t = NULL;
    const char *content;
    trf_status status;
    if (!err) err = &own;       /* trf__file_fault reads it */
    trf__clear(err);
    if (model) *model = NULL;
    if (trainer) *trainer = NULL;
    if (!model || !trainer) return trf__fail_null(err, model ? "trainer" : "model");
    if (!options) options = &defaults;
    TRF__TRY(trf__device_check(&options->device, err));
    TRF__TRY(bytes ? trf_file_open_memory(&file, bytes, n, options, err) : trf_file_open(&file, path, options, err));
    content = trf_file_metadata(file, "trf.content");
    status = trf__is_checkpoint(file) ? TRF_OK
           : trf__fail(err, TRF_E_STATE, -1, "trf.content",
                       "the file is no checkpoint, its trf.content is \"%.20s\": load a model with trf_model_load",
                       content ? content : "");
    if (status == TRF_OK) status = trf__model_read(&m, file, options, err);
    if (status == TRF_OK) status = trf__trainer_read(&t, m, file, training, err);
    if (status == TRF_OK && corpus) status = trf_corpus_resume(corpus, t, err);
    trf_file_close(file);
    if (status != TRF_OK) {
        trf_trainer_destroy(t);
        trf_model_destroy(m);
        return trf__name_file(status, bytes ? "memory" : path, err);
    }
    *model = m;
    *trainer = t;
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_checkpoint_load(trf_model **model, trf_trainer **trainer, trf_corpus *corpus, const char *path,
                                       const trf_train_options *training, const trf_load_options *options,
                                       trf_error *err)
{
    return trf__checkpoint_open(model, trainer, corpus, path, NULL, 0, training, options, err);
}

TRF_API trf_status trf_checkpoint_load_memory(trf_model **model, trf_trainer **trainer, trf_corpus *corpus,
                                              const void *bytes, size_t n, const trf_train_options *training,
                                              const trf_load_options *options, trf_error *err)
{
    trf__clear(err);
    if (model) *model = NULL;
    if (trainer) *trainer = NULL;
    if (!bytes) return trf__fail_null(err, "bytes");
    return trf__checkpoint_open(model, trainer, corpus, NULL, bytes, n, training, options, err);
}

#endif

// -----------------------------------------------------------------------------------------------
// >>generate       one token at a time, drawn on the host
//
// Row p of a sequence reads its start (p = 0) or its id p - 1; the last row's logits choose the next id. Keys and
// values of a sequence stand in an area of its own, as `remember` stores them for attention: nobody has ancestors.
// Beginnings are read but for their last row, many rows at a time; a step reads the last row of every sequence that
// lives, brings its logits to the host and draws there (>>draw).
//
// On the CPU a row's bits depend on its sequence alone: so few rows never go to CBLAS, our own product is one chain
// over k for every element, whatever its neighbours are (>>gemm), softmax and norm are a row's own. So it is all one
// whether keys and values were made one by one or together, and a file needs only ids (>>session). (Sources are
// encoded together: more than 512 rows may go to CBLAS.)
//
// A decoder-only model reads the last ids of a sequence, from number `first` on: none has left as long as there
// are W or fewer; then the older half of those that are read leaves at a time, and the rest is read again,
// since positions count from there. `first` follows from the number of ids alone, so it does not matter where a
// beginning ended.
// -----------------------------------------------------------------------------------------------

/* As in >>config; files keep the rules. */
#define TRF__SAMPLING_FIELDS(X) \
    X(double,   temperature,        0, 1e6, 1) \
    X(int32_t,  top_k,              0, INT32_MAX, 1) \
    X(double,   top_p,              0, 1, 1) \
    X(double,   min_p,              0, 1, 1) \
    X(double,   repetition_penalty, 1e-6, 1e6, 1) \
    X(int32_t,  max_tokens,         1, INT32_MAX, 1) \
    X(int32_t,  min_tokens,         0, INT32_MAX, 1) \
    X(int32_t,  allow_unk,          0, 1, 2) \
    X(int32_t,  window,             0, INT32_MAX, 2) \
    X(uint64_t, seed,               0, 2e19, 1) \
    X(int32_t,  threads,            0, TRF__MAX_THREADS, 0)

enum { TRF__DRAW_NUMBERS = 1 << 22 };           /* logits at a time */

/* A sequence: beginning, then answer, `limit` ids at most. */
typedef struct trf__story {
    trf_hypothesis answer;
    int32_t *ids;
    double *each;                               /* of the answer's ids and EOS: log-probabilities */
    int32_t n, n_begin, limit, n_source;        /* n_source: rows */
    int32_t first;                              /* the first id that is read */
    int32_t read;                               /* rows whose keys and values are in the cache */
    int32_t told;               /* so many ids of the answer have had their text told to the callback */
    int32_t from;               /* to tell more, decoding begins at this one (>>spoken) */
} trf__story;

struct trf_generator {
    const trf_model *model;
    trf_sampling sampling;
    trf__pass pass;
    size_t bytes, device_bytes;
    int32_t count;
    int64_t ordinal;                            /* of the batch */
    int64_t n_source;                           /* ids of all sources */
    int64_t rows;                               /* the length of the lists */
    int64_t together;                           /* sequences that are drawn at a time, at most */
    char *arena, *device_arena, *text;
    int64_t text_capacity;
    trf__lists there, here;
    trf__cache cache;                           /* on the device */
    trf__act *scores;                           /* (together, vocab) */
    trf__story *stories;                        /* on the host */
    int32_t *sources, *source_lengths;          /* as they came */
    int32_t *ids; double *each;                 /* (count, room), (count, room + 1), outside the arenas: they grow */
    int64_t room;
    trf_real *logits;                           /* (together, vocab) */
    double *weights; int32_t *order;            /* (vocab) of one draw */
};

TRF__FN trf_status trf__sampling_check(const trf_sampling *s, trf_error *err)
{
#define TRF__X(type, field, low, high, stored) TRF__RANGE(s, field, low, high);
    TRF__SAMPLING_FIELDS(TRF__X)
#undef TRF__X
    return trf__hooks_check(&s->hooks, err);
}

TRF_API trf_sampling trf_sampling_defaults(void)
{
    trf_sampling s;
    TRF__ZERO(s);
    s.temperature = s.top_p = s.repetition_penalty = 1;
    s.max_tokens = 256;
    s.window = INT32_MAX;
    return s;
}

// >>draw           a token from its logits z
//
//   s = z, of ids that stand there already z / penalty (z > 0) or z * penalty      w = exp((s - max s) / temperature)
//
// All filters keep a prefix of the ids by falling w, equal ones by rising id: the best are taken from a heap one by
// one until the filters have had enough. The vocabulary is never sorted; without filters there is no heap.

TRF__FN int trf__likelier(const double *w, int32_t a, int32_t b) { return w[a] > w[b] || (w[a] == w[b] && a < b); }

/* A heap of n ids, whose root is the best, of what is one but for entry i. */
TRF__FN void trf__sink(int32_t *heap, int64_t n, int64_t i, const double *w)
{
    int32_t id = heap[i];
    int64_t child;
    for (; (child = 2 * i + 1) < n; heap[i] = heap[child], i = child) {
        if (child + 1 < n && trf__likelier(w, heap[child + 1], heap[child])) child++;
        if (!trf__likelier(w, heap[child], id)) break;
    }
    heap[i] = id;
}

/* The best of a heap of n goes behind the others; returns its weight. */
TRF__FN double trf__pop(int32_t *heap, int64_t n, const double *w)
{
    int32_t best = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = best;
    trf__sink(heap, n - 1, 0, w);
    return w[best];
}

/* Returns how many ids the filters leave, the best at order[*m - 1], the next one before it; *mass: their sum. */
TRF__FN int64_t trf__filter(const trf_sampling *o, const double *w, int64_t vocab, int32_t *order, int64_t *m,
                            double *mass)
{
    int64_t i, popped = 0, most, kept = 0;
    double total = 0, x = 0;
    for (*m = i = 0; i < vocab; i++) if (w[i] > 0) { order[(*m)++] = (int32_t)i; total += w[i]; }
    for (i = *m / 2 - 1; i >= 0; i--) trf__sink(order, *m, i, w);
    most = *m;
    if (o->top_k > 0 && o->top_k < *m) {
        for (total = 0; popped < *m && (popped < o->top_k || w[order[0]] == x); popped++)
            total += x = trf__pop(order, *m - popped, w);
        most = popped;
    }
    for (*mass = 0; kept < most; kept++, *mass += x) {
        if (kept == popped) { trf__pop(order, *m - popped, w); popped++; }
        x = w[order[*m - 1 - kept]];
        if (kept > 0 && (x < o->min_p || (o->top_p < 1 && *mass >= o->top_p * total))) break;
    }
    return kept;
}

/* The id that is drawn and its log-probability under z alone; -1: z or what may be drawn has no finite maximum. */
TRF__FN int32_t trf__draw(trf_generator *g, const trf__story *s, const trf_real *z, double *log_probability)
{
    const trf_config *c = &g->model->config;
    const trf_sampling *o = &g->sampling;
    int64_t vocab = c->target_vocab, i, m = vocab, kept = vocab;
    uint64_t number = (uint64_t)g->ordinal + (uint64_t)(s - g->stories);
    double *w = g->weights, most = -HUGE_VAL, best = -HUGE_VAL, sum = 0, mass = 0, u;
    int32_t id = -1, filtered = o->top_k > 0 || o->top_p < 1 || o->min_p > 0;
    for (i = 0; i < vocab; i++) {
        if (!((w[i] = (double)z[i]) < HUGE_VAL)) return -1;
        if (w[i] > most) most = w[i];
    }
    for (i = 0; i < vocab; i++) sum += exp(w[i] - most);
    for (i = 0; o->repetition_penalty != 1 && i < s->n; i++) {
        double *x = &w[s->ids[i]];
        if (*x == (double)z[s->ids[i]]) *x = *x < 0 ? *x * o->repetition_penalty : *x / o->repetition_penalty;
    }
    w[c->pad] = w[c->bos] = -HUGE_VAL;
    if (!o->allow_unk) w[c->unk] = -HUGE_VAL;
    if (s->answer.n < o->min_tokens) w[c->eos] = -HUGE_VAL;
    for (i = 0; i < vocab; i++) if (w[i] > best) { best = w[i]; id = (int32_t)i; }
    if (id >= 0 && o->temperature > 0) {
        for (i = 0; i < vocab; i++) {
            double below = w[i] - best;         /* divided by next to nothing it would overflow */
            mass += w[i] = below < -800 * o->temperature ? 0 : exp(below / o->temperature);
        }
        if (filtered) kept = trf__filter(o, w, vocab, g->order, &m, &mass);
        u = trf__uniform(o->seed, 0x80000000u | (uint32_t)s->n, number) * mass;
        for (mass = 0, i = 0; i < kept && mass <= u; i++) {
            int32_t next = filtered ? g->order[m - 1 - i] : (int32_t)i;
            if (w[next] > 0) { mass += w[next]; id = next; }
        }
    }
    if (id >= 0) *log_probability = (double)z[id] - most - log(sum);
    return id;
}

// >>spoken         the text of an answer that grows
//
// A token's text depends on what stands before it: words are joined by a blank, subwords lose theirs where an answer
// begins. So a few ids before what is new, from `from` on, are decoded with it and without; what the longer text has
// more is new. `from` moves on to ids that have a text even as the first.

/* Whether m bytes, which are no character, may be the first ones of one. */
TRF__FN int trf__utf8_begins(const char *bytes, int m)
{
    char whole[4] = {0, '\x80', '\x80', '\x80'};
    if (m > 3) return 0;
    memcpy(whole, bytes, (size_t)m);
    if (trf__utf8_at(whole, 4) > m) return 1;
    if (m == 1) whole[1] = '\xA0';      /* for those whose second byte is not below it (Unicode, table 3-7) */
    return trf__utf8_at(whole, 4) > m;
}

/* How many of n ids, from `told` on, are whole characters: bytes at the end may be the first of one. */
TRF__FN int32_t trf__whole_ids(const trf_vocab *v, const int32_t *ids, int32_t told, int32_t n)
{
    while (v && v->pieces && told < n) {
        char bytes[4];
        int m = trf__piece_bytes(v, ids + told, n - told, bytes), k = m ? trf__utf8_at(bytes, (size_t)m) : 1;
        if (!k && told + m == n && trf__utf8_begins(bytes, m)) return told;
        told += k ? k : 1;
    }
    return n;
}

/* What the text of the answer grows by; all of it, if it has ended. On failure nothing has changed. */
TRF__FN trf_status trf__spoken(trf_generator *g, trf__story *s, int ended, const char **text, size_t *bytes,
                               trf_error *err)
{
    const trf_vocab *v = g->model->target;
    const int32_t *ids = s->answer.ids;
    int32_t n = s->n - s->n_begin, end = ended ? n : trf__whole_ids(v, ids, s->told, n);
    size_t before, all, alone;
    *text = "";
    if (!v || end == s->told) return TRF_OK;
    (void)trf_vocab_decode(v, ids + s->from, s->told - s->from, NULL, 0, &before, NULL);
    (void)trf_vocab_decode(v, ids + s->told, end - s->told, NULL, 0, &alone, NULL);
    (void)trf_vocab_decode(v, ids + s->from, end - s->from, NULL, 0, &all, NULL);
    TRF__GROW(char, g->text, g->text_capacity, (int64_t)all + 1, &g->sampling.hooks);
    TRF__TRY(trf_vocab_decode(v, ids + s->from, end - s->from, g->text, all + 1, NULL, err));
    if (alone > 0) s->from = s->told;
    s->told = end;
    *text = g->text + before;
    *bytes = all - before;
    return TRF_OK;
}

/* How many ids are read at a time, at most; 0: there is no window. */
TRF__FN int32_t trf__window(const trf_generator *g)
{
    const trf_config *c = &g->model->config;
    if (c->kind != TRF_DECODER_ONLY) return 0;
    return (int32_t)trf__min64(g->sampling.window, (int64_t)c->max_length - 1);
}

/* The first of n ids that is read in a window. */
TRF__FN int32_t trf__window_first(int32_t n, int32_t window)
{
    int32_t leave = window + 1 - (window + 1) / 2;
    return window == 0 || n <= window ? 0 : (int32_t)(trf__ceil_div((int64_t)n - window, leave) * leave);
}

/* Room for `room` ids of each sequence. On failure nothing has changed. */
TRF__FN trf_status trf__stories_room(trf_generator *g, int64_t room, trf_error *err)
{
    const trf_hooks *hooks = &g->sampling.hooks;
    size_t n_ids = trf__bytes(g->count, trf__bytes(room, sizeof *g->ids));
    size_t n_each = trf__bytes(g->count, trf__bytes(room + 1, sizeof *g->each));
    int32_t *ids = (int32_t *)trf__alloc(hooks, n_ids), i;
    double *each = (double *)trf__alloc(hooks, n_each);
    if (!ids || !each) {
        trf__free(hooks, ids, n_ids);
        trf__free(hooks, each, n_each);
        return trf__fail(err, TRF_E_NOMEM, -1, "ids", "no memory for %lld ids of each of %d sequences",
                         (long long)room, (int)g->count);
    }
    for (i = 0; i < g->count; i++) {
        trf__story *s = &g->stories[i];
        if (s->n > 0) memcpy(ids + i * room, s->ids, (size_t)s->n * sizeof *ids);
        if (s->each) memcpy(each + i * (room + 1), s->each, ((size_t)s->answer.n + 1) * sizeof *each);
        s->ids = ids + i * room;
        s->each = each + i * (room + 1);
        s->answer.ids = s->ids + s->n_begin;
        if (s->answer.log_probabilities) s->answer.log_probabilities = s->each;
    }
    trf__free(hooks, g->ids, trf__bytes(g->count, trf__bytes(g->room, sizeof *g->ids)));
    trf__free(hooks, g->each, trf__bytes(g->count, trf__bytes(g->room + 1, sizeof *g->each)));
    g->ids = ids;
    g->each = each;
    g->room = room;
    return TRF_OK;
}

/* The sequence goes on with an id, or ends; the callback is told. On failure nothing has changed. */
TRF__FN trf_status trf__go_on(trf_generator *g, trf__story *s, int32_t id, double log_probability, trf_error *err)
{
    int eos = id == g->model->config.eos;
    const char *text = "";
    size_t bytes = 0;
    trf_ended ended = eos ? TRF_ENDED_EOS : s->n + 1 == s->limit ? TRF_ENDED_MAX_LENGTH : TRF_ENDED_NOT_YET;
    trf_status status = TRF_OK;
    if (s->n >= g->room) TRF__TRY(trf__stories_room(g, trf__min64(s->limit, g->room + g->room / 2 + 16), err));
    if (!eos) s->ids[s->n++] = id;
    if (g->sampling.token) status = trf__spoken(g, s, ended != TRF_ENDED_NOT_YET, &text, &bytes, err);
    if (status != TRF_OK) { s->n -= !eos; return status; }
    s->each[s->answer.n] = log_probability;
    s->answer.n = s->n - s->n_begin;
    s->answer.ended = ended;
    s->answer.score = s->answer.log_probability += log_probability;
    s->first = trf__window_first(s->n, trf__window(g));
    if (g->sampling.token) g->sampling.token(g->sampling.user, (int32_t)(s - g->stories), id, text, bytes);
    return TRF_OK;
}

/* Rows that are read together: so few that no product is CBLAS's. */
TRF__FN int64_t trf__rows_together(const trf_config *c) { return c->d_model % 16 ? TRF__SKINNY : TRF__PACKED_ROWS; }

/* Lines up rows that have not been read of sequences that live, from number *next on: up to `most`, and with `last`
   the last ones too. Returns the number of sequences; a span notes which. */
TRF__FN int64_t trf__line_stories(trf_generator *g, int32_t *next, int last, int64_t most)
{
    const trf__lists *l = &g->here;
    trf__stack *stack = &g->pass.decoder;
    int64_t rows = 0, n = 0, k, todo = 0;
    stack->most_queries = 1;
    for (; *next < g->count && rows < most; ++*next) {
        const trf__story *s = &g->stories[*next];
        trf__span *span = &l->self[n], *cross = &l->cross[n];
        if (s->answer.ended != TRF_ENDED_NOT_YET || (todo = s->n - s->first + last - s->read) <= 0) continue;
        span->sentence = *next;
        span->query = (int32_t)rows;
        span->n_query = (int32_t)trf__min64(todo, most - rows);
        span->key = (int32_t)(*next * g->cache.self_area);
        span->n_key = s->read + span->n_query;
        for (k = s->read; k < span->n_key; k++, rows++) {
            l->ids[rows] = k == 0 ? trf__start_id(&g->model->config) : s->ids[s->first + k - 1];
            l->position[rows] = (int32_t)k;
            l->slots[rows] = (int32_t)(span->key + k);
        }
        *cross = *span;
        cross->key = (int32_t)(*next * g->cache.area);
        cross->n_key = s->n_source;
        stack->most_queries = trf__max64(stack->most_queries, span->n_query);
        n++;
        if (span->n_query < todo) break;                /* the rest of it comes next */
    }
    stack->rows = rows;
    stack->n_self = n;
    stack->n_cross = g->pass.sides & TRF__SOURCE ? n : 0;
    stack->most_keys = g->cache.self_area;
    stack->most_memory = g->cache.area;
    stack->device = g->there;
    return n;
}

/* Reads what sequences that live have not read yet, but for their last rows; or, with `last`, those, and draws. */
TRF__COLD
TRF__FN trf_status trf__read_stories(trf_generator *g, int last, trf_error *err)
{
    trf__pass *pass = &g->pass;
    const trf__run *run = &pass->run;
    trf__stack *stack = &pass->decoder;
    int64_t vocab = pass->config->target_vocab, n, i;
    int32_t next = 0;
    while ((n = trf__line_stories(g, &next, last, last ? g->together : trf__rows_together(pass->config))) > 0) {
        const trf__limits *l = &pass->limits;
        trf__shape shape = { { (int64_t)(intptr_t)pass->arena, (int64_t)(intptr_t)g->device_arena, g->cache.self_area,
                               g->cache.area, g->rows, g->together, stack->rows, g->count, l->source_rows,
                               l->target_rows, l->sentences, l->longest } };
        trf_status status = trf__cancel_status(&run->hooks, err);
        run->backend->upload(run, g->there.ids, g->here.ids,
                             (size_t)((char *)(void *)(g->here.cross + n) - (char *)(void *)g->here.ids));
        pass->cache = &g->cache;
        while (status == TRF_OK && !(last && run->backend->replay(run, &shape))) {
            status = trf__stack_forward(pass, stack, err);
            if (status == TRF_OK && last)
                trf__project(run, g->scores, stack->out, trf__weight(pass, pass->layout->whole.generator_w),
                             trf__generator_bias(pass), stack->rows, vocab, pass->config->d_model);
            if (!last || run->backend->asked(run, status == TRF_OK)) break;
        }
        pass->cache = NULL;
        TRF__TRY(status);
        if (last) run->backend->fetch(run, g->logits, g->scores, stack->rows * vocab);
        TRF__TRY(run->backend->sync(run, err));
        for (i = 0; i < n; i++) {
            trf__story *s = &g->stories[g->here.self[i].sentence];
            double log_probability = 0;
            int32_t first = s->first, id = last ? trf__draw(g, s, g->logits + i * vocab, &log_probability) : 0;
            if (id < 0)
                return trf__fail(err, TRF_E_NONFINITE, s - g->stories, "logits", "sequence %lld, token %d of the "
                                 "answer: a logit is infinite or not a number, or no token may be drawn",
                                 (long long)(s - g->stories), (int)s->answer.n);
            if (last) TRF__TRY(trf__go_on(g, s, id, log_probability, err));
            s->read = s->first == first ? g->here.self[i].n_key : 0;    /* else all positions have moved */
        }
    }
    return TRF_OK;
}

TRF__FN void trf__generator_free(trf_generator *g)
{
    if (g->pass.run.backend) g->pass.run.backend->release(&g->pass.run, g->device_arena, g->device_bytes);
    trf__free(&g->sampling.hooks, g->ids, trf__bytes(g->count, trf__bytes(g->room, sizeof *g->ids)));
    trf__free(&g->sampling.hooks, g->each, trf__bytes(g->count, trf__bytes(g->room + 1, sizeof *g->each)));
    trf__free(&g->sampling.hooks, g->arena, g->bytes);
    g->arena = g->device_arena = NULL;
    g->ids = NULL;
    g->each = NULL;
    g->room = 0;
    g->count = 0;
}

/* Lays both arenas out, and sets their sizes. */
TRF__FN void trf__generator_layout(trf_generator *g)
{
    const trf__pass *pass = &g->pass;
    int64_t layers = pass->config->decoder_layers, width = 2 * (int64_t)pass->config->d_model;
    int64_t vocab = pass->config->target_vocab;
    trf__cursor device = trf__cursor_at(g->device_arena), host = trf__cursor_at(g->arena);
    trf__take_lists(&device, &g->there, pass, g->rows, g->rows, g->rows);
    trf__take_lists(&host, &g->here, pass, g->rows, g->rows, g->rows);
    g->there.slots = g->there.targets;
    g->here.slots = g->here.targets;
    g->cache.self_layer = g->count * g->cache.self_area * width;
    g->cache.cross_layer = g->count * g->cache.area * width;
    g->cache.self = trf__take_acts(&device, pass, layers, g->cache.self_layer);
    g->cache.cross = trf__take_acts(&device, pass, layers, g->cache.cross_layer);
    g->scores = trf__take_acts(&device, pass, g->together, vocab);
    g->stories = (trf__story *)trf__take(&host, g->count, sizeof(trf__story));
    g->sources = (int32_t *)trf__take(&host, g->n_source, sizeof(int32_t));
    g->source_lengths = (int32_t *)trf__take(&host, g->count, sizeof(int32_t));
    g->logits = trf__take_reals(&host, g->together, vocab);
    g->weights = (double *)trf__take(&host, vocab, sizeof(double));
    g->order = (int32_t *)trf__take(&host, vocab, sizeof(int32_t));
    g->bytes = host.used;
    g->device_bytes = device.used;
}

TRF_API void trf_generator_destroy(trf_generator *g)
{
    trf_hooks hooks;
    if (!g) return;
    hooks = g->sampling.hooks;
    trf__generator_free(g);
    trf__pass_close(&g->pass);
    trf__free(&hooks, g->text, (size_t)g->text_capacity);
    trf__free(&hooks, g, sizeof *g);
}

TRF__COLD
TRF_API trf_status trf_generator_create(trf_generator **generator, const trf_model *model,
                                        const trf_sampling *sampling, trf_error *err)
{
    trf_sampling defaults = trf_sampling_defaults();
    trf__limits limits = {0, 1, 1, 1, 0};
    trf_generator *g;
    trf_status status;
    TRF__TRY(trf__begin(generator, "generator", err));
    *generator = NULL;
    if (!model) return trf__fail_null(err, "model");
    if (!sampling) sampling = &defaults;
    TRF__TRY(trf__sampling_check(sampling, err));
    TRF__TRY(trf__needs_target(&model->config, err));
    g = (trf_generator *)trf__alloc_zeroed(&sampling->hooks, sizeof *g);
    if (!g) return trf__fail(err, TRF_E_NOMEM, -1, "generator", "no memory for a generator");
    g->model = model;
    g->sampling = *sampling;
    status = trf__pass_open(&g->pass, model, &limits, NULL, sampling->threads, &sampling->hooks, err);
    if (status != TRF_OK) { trf_generator_destroy(g); return status; }
    *generator = g;
    return TRF_OK;
}

/* Ids of a sequence whose beginning has n, at most. */
TRF__FN int32_t trf__story_limit(const trf_generator *g, int32_t n)
{
    int64_t most = trf__window(g) ? INT32_MAX : (int64_t)g->model->config.max_length - 1;
    return (int32_t)trf__min64(most, (int64_t)n + g->sampling.max_tokens);
}

/* Checks the targets, and what they need: rows that are read together, ids, and places for keys and values.
   begins: how many ids of each are its beginning; NULL: all. */
TRF__FN trf_status trf__stories_check(trf_generator *g, const trf_sequences *target, const int32_t *begins, int32_t n,
                                      trf__limits *need, int64_t *room, trf_error *err)
{
    trf_config c = g->model->config;
    int64_t rows = 0, longest = 0, most = 1, window = trf__window(g);
    int32_t i;
    if (window) c.max_length = INT32_MAX;
    TRF__TRY(trf__check_side(&c, target, c.target_vocab, !c.target_eos, 1, "target", &rows, &longest, err));
    if (target->count != n && target->count > 0)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "target", "source has %d sequence%s but target %d", (int)n,
                         trf__plural(n), (int)target->count);
    for (i = 0; i < n; i++)
        most = trf__max64(most, trf__story_limit(g, begins ? begins[i] : trf__length_of(target, i)));
    *room = trf__max64(trf__min64(most, window + 1), longest);
    if (!window) *room = most;
    if (window && most > window) {                      /* what is read again */
        rows = trf__max64(rows, n * ((window + 1) / 2));
        most = window + 1;
    }
    g->cache.self_area = trf__round_up(most, 16);
    need->target_rows = trf__min64(rows, trf__rows_together(&c));
    need->longest = trf__max64(need->longest, most);
    return TRF_OK;
}

/* Checks a batch and makes room for it. */
TRF__COLD
TRF__FN trf_status trf__stories_reserve(trf_generator *g, const trf_sequences *source, const trf_sequences *target,
                                        const int32_t *begins, trf_error *err)
{
    const trf_config *c = &g->model->config;
    int64_t most, room = 0, together = trf__rows_together(c);
    int32_t n = source ? source->count : target->count;
    trf__limits need;
    TRF__ZERO(need);
    if (source)
        TRF__TRY(trf__check_side(c, source, c->source_vocab, 0, c->source_eos, "source", &need.source_rows,
                                 &need.longest, err));
    g->cache.area = trf__round_up(need.longest, 16);
    TRF__TRY(trf__stories_check(g, target, begins, n, &need, &room, err));
    most = trf__max64(g->cache.self_area, g->cache.area);
    if (trf__times(n, most) > INT32_MAX)
        return trf__fail(err, TRF_E_LIMIT, n, "beginnings", "%d sequences of up to %lld tokens are too many", (int)n,
                         (long long)most);
    g->together = trf__min64(trf__min64(n, together), trf__max64(1, TRF__DRAW_NUMBERS / c->target_vocab));
    need.target_rows = trf__max64(g->together, need.target_rows);
    need.sentences = n;
    TRF__TRY(trf__pass_reserve(&g->pass, &need, err));
    g->rows = trf__max64(need.source_rows, need.target_rows);
    g->n_source = need.source_rows - (int64_t)n * (source ? c->source_eos : 0);
    g->count = n;
    trf__generator_layout(g);
    g->arena = (char *)trf__alloc(&g->sampling.hooks, g->bytes);
    g->device_arena = (char *)g->pass.run.backend->alloc(&g->pass.run, g->device_bytes);
    if (!g->arena || !g->device_arena)
        return trf__fail(err, TRF_E_NOMEM, -1, "cache",
                         "no memory for the %llu bytes that %d sequences of %lld tokens need",
                         (unsigned long long)trf__add_size(g->bytes, g->device_bytes), (int)n, (long long)most);
    trf__generator_layout(g);
    if (n > 0) memset(g->stories, 0, (size_t)n * sizeof *g->stories);
    return trf__stories_room(g, room, err);
}

/* Writes the batch down. Returns the rows of the sources, whose slots are lined up. */
TRF__FN int64_t trf__stories_write(trf_generator *g, const trf_sequences *source, const trf_sequences *target,
                                   const int32_t *begins)
{
    const trf_config *c = &g->model->config;
    int64_t row = 0, at = 0, k;
    int32_t i;
    for (i = 0; i < g->count; at += trf__length_of(target, i++)) {
        trf__story *s = &g->stories[i];
        TRF__ZERO(*s);
        s->n = trf__length_of(target, i);
        s->n_begin = begins ? begins[i] : s->n;
        s->limit = trf__story_limit(g, s->n_begin);
        s->first = trf__window_first(s->n, trf__window(g));
        s->ids = g->ids + i * g->room;
        s->each = g->each + i * (g->room + 1);
        if (s->n > 0) memcpy(s->ids, target->ids + at, (size_t)s->n * sizeof *s->ids);
        s->answer.ids = s->ids + s->n_begin;
        s->answer.log_probabilities = s->each;
        s->answer.n = s->n - s->n_begin;
        s->answer.ended = s->n < s->limit ? TRF_ENDED_NOT_YET : TRF_ENDED_MAX_LENGTH;
        s->told = trf__whole_ids(g->model->target, s->answer.ids, 0, s->answer.n);
        g->source_lengths[i] = trf__length_of(source, i);
        s->n_source = source ? source->lengths[i] + c->source_eos : 0;
        for (k = 0; k < s->n_source; k++) g->here.slots[row++] = (int32_t)(i * g->cache.area + k);
    }
    if (g->n_source > 0) memcpy(g->sources, source->ids, (size_t)g->n_source * sizeof *g->sources);
    return row;
}

/* The whole of begin and load. */
TRF__FN trf_status trf__generator_start(trf_generator *g, const trf_batch *batch, const int32_t *begins,
                                        trf_error *err)
{
    const trf_sequences *source = g->pass.sides & TRF__SOURCE ? &batch->source : NULL;
    trf_status status;
    trf__generator_free(g);
    g->ordinal = batch->ordinal;
    status = trf__stories_reserve(g, source, &batch->target, begins, err);
    if (status == TRF_OK) {
        int64_t rows = trf__stories_write(g, source, &batch->target, begins);
        g->pass.run.backend->upload(&g->pass.run, g->there.slots, g->here.slots, (size_t)rows * sizeof(int32_t));
    }
    if (status == TRF_OK && source)
        status = trf__encode_into(&g->pass, &g->cache, g->there.slots, g->sources, g->source_lengths, g->count, err);
    g->pass.encoder.rows = g->pass.encoder.n_self = 0;
    if (status == TRF_OK) status = trf__read_stories(g, 0, err);
    if (status != TRF_OK) trf__generator_free(g);
    return status;
}

TRF_API trf_status trf_generator_begin(trf_generator *generator, const trf_batch *beginnings, trf_error *err)
{
    TRF__TRY(trf__begin(generator, "generator", err));
    trf__generator_free(generator);
    return beginnings ? trf__generator_start(generator, beginnings, NULL, err) : trf__fail_null(err, "beginnings");
}

TRF__FN trf_status trf__has_begun(const trf_generator *g, trf_error *err)
{
    return g->arena ? TRF_OK : trf__fail(err, TRF_E_STATE, -1, "generator", "nothing has begun: trf_generator_begin");
}

TRF_API trf_status trf_generator_step(trf_generator *generator, int32_t budget, int32_t *live, trf_error *err)
{
    int32_t i, n;
    if (live) *live = 0;
    TRF__TRY(trf__begin(generator, "generator", err));
    if (budget < 0) return trf__fail_below(err, "budget", 0, budget);
    TRF__TRY(trf__has_begun(generator, err));
    for (;; budget--) {
        for (i = n = 0; i < generator->count; i++) n += generator->stories[i].answer.ended == TRF_ENDED_NOT_YET;
        if (budget == 0 || n == 0) break;
        TRF__TRY(trf__read_stories(generator, 0, err));     /* of those whose window has moved */
        TRF__TRY(trf__read_stories(generator, 1, err));
    }
    if (live) *live = n;
    return TRF_OK;
}

TRF_API const trf_hypothesis *trf_generator_at(const trf_generator *generator, int32_t sequence)
{
    return generator && sequence >= 0 && sequence < generator->count ? &generator->stories[sequence].answer : NULL;
}

// >>session        a generator in the middle of its sequences
//
//   generator      a tensor (words) I32: how many sequences; for each how many ids its source has, how many its
//                  beginning and answer, how many its beginning alone, 1 if EOS has ended it; then their
//                  log-probabilities' 64 bits, the lower half first; the ids of all sources; those of all the others;
//                  and the log-probabilities of all answers' ids, each answer's EOS behind it
//   __metadata__   trf.content = generator; trf.generator = 2, this format; trf.version; trf.ordinal; trf.weights,
//                  the CRC-32 of the model's weights; trf.sampling.FIELD

/* Format 1 lacks the rules of format 2 (in the table's last column), and the log-probabilities of ids. */
enum { TRF__SESSION = 2 };

/* Other weights would not go on with the same bits. */
TRF__FN trf_status trf__weights_sum(const trf_model *model, int64_t *sum, trf_error *err)
{
    trf__out weights = trf__out_of("", "weights", TRF__DTYPE, 1, &model->layout.n_weights, model->weights,
                                   &model->run);
    uint32_t crc = 0;
    TRF__TRY(trf__out_crc(&weights, 1, &crc, err));
    *sum = crc;
    return TRF_OK;
}

/* The tokens of an answer whose log-probabilities are known. */
TRF__FN int64_t trf__scored(const trf_hypothesis *answer)
{
    return answer->log_probabilities ? (int64_t)answer->n + (answer->ended == TRF_ENDED_EOS) : 0;
}

/* The 64 bits of a double as two words, the lower half first. */
TRF__FN void trf__put_double(int32_t *words, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    words[0] = (int32_t)(uint32_t)bits;
    words[1] = (int32_t)(uint32_t)(bits >> 32);
}

TRF__FN double trf__get_double(const int32_t *words)
{
    uint64_t bits = (uint32_t)words[0] | (uint64_t)(uint32_t)words[1] << 32;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

typedef struct trf__session { const trf_generator *g; int64_t sum, format; } trf__session;

TRF__FN void trf__note_session(trf__text *notes, const void *of)
{
    const trf__session *session = (const trf__session *)of;
    trf__note(notes, "trf.content", "generator");
    trf__note_int(notes, "trf.generator", session->format);
    trf__note(notes, "trf.version", TRF_VERSION);
    trf__note_int(notes, "trf.ordinal", session->g->ordinal);
    trf__note_int(notes, "trf.weights", session->sum);
#define TRF__X(type, field, low, high, stored) \
    TRF__NOTE_FIELD("trf.sampling.", &session->g->sampling, type, field, stored)
    TRF__SAMPLING_FIELDS(TRF__X)
#undef TRF__X
}

TRF__COLD
TRF_API trf_status trf_generator_save(const trf_generator *g, const char *path, trf_error *err)
{
    const trf__destination to = trf__to_path(path);
    const trf_hooks *hooks;
    int64_t n, i, count;
    trf__session session;
    trf__out out;
    int32_t *words, *ids;
    trf_status status;
    trf__clear(err);
    if (!g || !path) return trf__fail_null(err, g ? "path" : "generator");
    TRF__TRY(trf__has_begun(g, err));
    hooks = &g->sampling.hooks;
    count = g->count;
    for (n = 1 + 6 * count + g->n_source, i = 0; i < count; i++)
        n += g->stories[i].n + 2 * trf__scored(&g->stories[i].answer);
    words = (int32_t *)trf__alloc(hooks, trf__bytes(n, sizeof *words));
    if (!words)
        return trf__name_file(trf__fail(err, TRF_E_NOMEM, -1, "session", "no memory for the numbers of a session"),
                              path, err);
    words[0] = (int32_t)count;
    ids = words + 1 + 6 * count;
    if (g->n_source > 0) memcpy(ids, g->sources, (size_t)g->n_source * sizeof *ids);
    for (ids += g->n_source, i = 0; i < count; ids += g->stories[i++].n) {
        const trf__story *s = &g->stories[i];
        words[1 + i] = g->source_lengths[i];
        words[1 + count + i] = s->n;
        words[1 + 2 * count + i] = s->n_begin;
        words[1 + 3 * count + i] = s->answer.ended == TRF_ENDED_EOS;
        trf__put_double(words + 1 + 4 * count + 2 * i, s->answer.log_probability);
        memcpy(ids, s->ids, (size_t)s->n * sizeof *ids);
    }
    for (i = 0; i < count; i++) {
        const trf_hypothesis *answer = &g->stories[i].answer;
        int64_t k, scored = trf__scored(answer);
        for (k = 0; k < scored; k++, ids += 2) trf__put_double(ids, answer->log_probabilities[k]);
    }
    out = trf__out_of("", "generator", "I32", 1, &n, words, NULL);
    session.g = g;
    session.format = count > 0 && !g->stories[0].answer.log_probabilities ? 1 : (int)TRF__SESSION;  /* as it came */
    status = trf__weights_sum(g->model, &session.sum, err);
    if (status == TRF_OK) status = trf__file_write(hooks, &to, &out, 1, trf__note_session, &session, err);
    trf__free(hooks, words, (size_t)out.bytes);
    return trf__name_file(status, path, err);
}

/* The log-probabilities of an answer's tokens, `scored` doubles; they add up to the answer's, or it is not true. */
TRF__FN int trf__session_scores(const int32_t *words, int64_t scored, double sum, double *each)
{
    double total = 0;
    int64_t k;
    for (k = 0; k < scored; k++) {
        double x = trf__get_double(words + 2 * k);
        if (!(x <= 0)) return 0;
        if (each) each[k] = x;
        total += x;
    }
    return total == sum;
}

/* What n words say, which may be hostile: *ids[0] and [1], how many ids there are; returns the number of the first
   sequence that makes no sense, or, if all do, that of the sequences. */
TRF__FN int64_t trf__session_check(const trf_sampling *rules, const int32_t *words, int64_t n, int64_t format,
                                   int64_t ids[2])
{
    int64_t count = n > 0 ? words[0] : -1, i, at, scores = 0, scored;
    const int32_t *l = words + 1;
    if (count < 0 || count > (n - 1) / 6) return -1;
    for (ids[0] = ids[1] = i = 0; i < count; i++, l++) {
        if (l[0] < 0 || l[2 * count] < 0 || l[count] < l[2 * count] || (l[3 * count] & ~1) ||
            l[count] - l[2 * count] > rules->max_tokens ||
            !(trf__get_double(words + 1 + 4 * count + 2 * i) <= 0)) return i;
        ids[0] += l[0];
        ids[1] += l[count];
        scores += (int64_t)l[count] - l[2 * count] + l[3 * count];
    }
    at = 1 + 6 * count + ids[0] + ids[1];
    if (format < 2 || at + 2 * scores != n) return format < 2 && at == n ? count : -1;
    for (l = words + 1, i = 0; i < count; i++, l++, at += 2 * scored) {
        scored = (int64_t)l[count] - l[2 * count] + l[3 * count];
        if (!trf__session_scores(words + at, scored, trf__get_double(words + 1 + 4 * count + 2 * i), NULL)) return i;
    }
    return count;
}

/* Goes on with what n words say, which may be hostile. */
TRF__FN trf_status trf__session_start(trf_generator *g, const trf_sampling *rules, const int32_t *words, int64_t n,
                                      int64_t format, int64_t ordinal, trf_error *err)
{
    const trf_sampling before = g->sampling;
    int64_t ids[2], count = n > 0 ? words[0] : -1, i = trf__session_check(rules, words, n, format, ids);
    const int32_t *lengths = words + 1, *scores;
    trf_batch batch;
    trf_status status;
    if (i < 0 || i != count)
        return trf__fail(err, TRF_E_FORMAT, i, "generator", "sequence %lld of the session makes no sense",
                         (long long)i);
    TRF__ZERO(batch);
    batch.source.count = batch.target.count = (int32_t)count;
    batch.source.lengths = lengths;
    batch.target.lengths = lengths + count;
    batch.source.ids = lengths + 6 * count;
    batch.target.ids = batch.source.ids + ids[0];
    batch.ordinal = ordinal;
    g->sampling = *rules;
    status = trf__generator_start(g, &batch, lengths + 2 * count, err);
    if (status != TRF_OK) g->sampling = before;
    for (scores = batch.target.ids + ids[1], i = 0; i < g->count; i++) {
        trf__story *s = &g->stories[i];
        s->answer.score = s->answer.log_probability = trf__get_double(words + 1 + 4 * count + 2 * i);
        if (lengths[3 * count + i]) s->answer.ended = TRF_ENDED_EOS;
        if (format < 2) { s->answer.log_probabilities = NULL; continue; }
        (void)trf__session_scores(scores, trf__scored(&s->answer), 0, s->each);
        scores += 2 * trf__scored(&s->answer);
    }
    return trf__file_fault(status, err);
}

TRF__FN trf_status trf__session_read(trf_generator *g, trf_file *file, trf_error *err)
{
    trf_file_entry e = trf_file_at(file, 0);
    trf_sampling rules = g->sampling;
    int64_t format, ordinal, sum, weights, i;
    int32_t *words;
    size_t room;
    trf_status status;
    TRF__TRY(trf__read_int(file, "trf.generator", &format, err));
    if (format < 1 || format > TRF__SESSION)
        return trf__fail(err, TRF_E_UNSUPPORTED, format, "trf.generator",
                         "expected a session of format 1 to %d, got %lld", (int)TRF__SESSION, (long long)format);
    rules.allow_unk = 1;        /* what format 1 did */
    rules.window = 0;
#define TRF__X(type, field, low, high, stored) TRF__READ_FIELD("trf.sampling.", &rules, type, field, stored)
    TRF__SAMPLING_FIELDS(TRF__X)
#undef TRF__X
    TRF__TRY(trf__file_fault(trf__sampling_check(&rules, err), err));
    TRF__TRY(trf__read_int(file, "trf.ordinal", &ordinal, err));
    TRF__TRY(trf__read_int(file, "trf.weights", &sum, err));
    TRF__TRY(trf__weights_sum(g->model, &weights, err));
    if (sum != weights)
        return trf__fail(err, TRF_E_STATE, -1, "trf.weights", "the session is another model's, or of other weights");
    if (file->count != 1 || strcmp(e.name, "generator") || strcmp(e.dtype, "I32") || e.rank != 1)
        return trf__fail(err, TRF_E_SHAPE, -1, "generator", "a session has one tensor, \"generator\", of type I32");
    room = trf__bytes((int64_t)e.bytes, 1);
    words = (int32_t *)trf__alloc(&g->sampling.hooks, room);
    if (!words) return trf__fail(err, TRF_E_NOMEM, -1, "session", "no memory for the numbers of a session");
    status = trf__file_fetch(&file->from, e.begin, words, (size_t)e.bytes, err);
    if (status == TRF_OK) status = trf__file_check_crc(file, err);
    for (i = 0; status == TRF_OK && i < e.shape[0]; i++)
        words[i] = (int32_t)(uint32_t)trf__from_little((const unsigned char *)(words + i), 4);
    if (status == TRF_OK) status = trf__session_start(g, &rules, words, e.shape[0], format, ordinal, err);
    trf__free(&g->sampling.hooks, words, room);
    return status;
}

TRF__COLD
TRF_API trf_status trf_generator_load(trf_generator *generator, const char *path, trf_error *err)
{
    trf_error own;
    trf_load_options options = trf_load_defaults();
    trf_file *file;
    trf_status status;
    if (!err) err = &own;       /* trf__file_fault reads it */
    TRF__TRY(trf__begin(generator, "generator", err));
    options.hooks = generator->sampling.hooks;
    TRF__TRY(trf_file_open(&file, path, &options, err));
    status = trf__session_read(generator, file, err);
    trf_file_close(file);
    return trf__name_file(status, path, err);
}

#if !defined(TRF_NO_TRAIN)
// -----------------------------------------------------------------------------------------------
// >>learn          from texts to a trained model
//
// The numbers of this chapter are measured: tools/defaults.md says on what. `trf train` decides
// nothing by itself: it calls what stands here, and lets options of the command line win over it.
// -----------------------------------------------------------------------------------------------

// -----------------------------------------------------------------------------------------------
// >>recipe         statistics of data in, options out
// -----------------------------------------------------------------------------------------------

enum { TRF__SMALL_DATA = 1000000, TRF__LARGE_DATA = 20000000 };     /* tokens of both sides */

TRF_API trf_learn_options trf_learn_defaults(void)
{
    trf_learn_options o;
    TRF__ZERO(o);
    o.updates = TRF_ENDLESS;
    o.valid_every = 1000;
    o.patience = 10;
    o.ema = 0.002;
    o.accumulate = 1;
    o.search = trf_search_defaults();
    o.search.beam = 1;
    return o;
}

/* What is learned: the target, but where that is labels, or hidden in the source, the source. */
TRF__FN int trf__leads_by_target(const trf_data_stats *a)
{
    return a->kind == TRF_DECODER_ONLY ||
           (a->kind == TRF_ENCODER_DECODER && a->target_tokens > a->pairs);
}

/* Sentences of a language, or sequences of few symbols (letters, phones, digits, commands): these
   have less to remember and rules to find, for which smaller models, small batches and little
   dropout are better. */
TRF__FN int trf__is_language(const trf_data_stats *a)
{
    return (trf__leads_by_target(a) ? a->target_vocab : a->source_vocab) > 500;
}

TRF__FN double trf__clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

TRF__FN void trf__recipe_model(trf_recipe *r, const trf_data_stats *a)
{
    int64_t tokens = a->source_tokens + a->target_tokens;
    int middling = tokens >= TRF__SMALL_DATA && tokens < TRF__LARGE_DATA;
    int symbols = middling && !trf__is_language(a);
    trf_config *c = &r->config;
    *c = tokens >= TRF__LARGE_DATA ? trf_config_base() : trf_config_tiny();
    if (middling && !symbols) {
        c->encoder_layers = c->decoder_layers = 3;
        c->d_model = 256;
        c->d_ff = 512;
    }
    if (symbols) c->d_ff = 512;
    if (a->d_model) c->d_model = a->d_model;
    while (c->d_model % c->n_heads) c->n_heads--;
    if (a->longest >= c->max_length) c->max_length = a->longest + 1;
    c->kind = a->kind;
    c->head = a->head;
    c->n_labels = a->n_labels;
    c->source_vocab = a->source_vocab;
    c->target_vocab = a->target_vocab;
    if (c->kind == TRF_DECODER_ONLY) c->encoder_layers = 0;
    if (c->kind == TRF_ENCODER_ONLY) c->decoder_layers = 0;
    c->norm_place = TRF_PRE_NORM;
    c->tying = c->kind == TRF_ENCODER_ONLY ? TRF_UNTIED
             : c->kind == TRF_ENCODER_DECODER && a->one_vocabulary ? TRF_TIED_ALL
             : TRF_TIED_DECODER;
    c->generator_bias = 0;
}

TRF__FN void trf__recipe_training(trf_recipe *r, const trf_data_stats *a)
{
    trf_train_options *o = &r->training;
    int64_t tokens = a->source_tokens + a->target_tokens;
    int language = trf__is_language(a), longest = a->longest + 1;
    *o = trf_train_defaults();
    o->schedule = TRF_INVERSE_SQRT;
    o->learning_rate = 0.025 / sqrt((double)r->config.d_model);
    o->warmup = (int64_t)trf__clamp(a->updates ? (double)a->updates / 8 : 1000, 1, 1000);
    o->dropout = tokens >= TRF__LARGE_DATA || !language ? 0.1
               : tokens < TRF__SMALL_DATA ? 0.3 : 0.2;
    o->residual_dropout = o->dropout;
    o->label_smoothing = a->kind == TRF_ENCODER_DECODER ? 0.1 : 0;
    o->source_tokens = r->corpus.batch_tokens > longest ? r->corpus.batch_tokens : longest;
    o->target_tokens = o->source_tokens;
    o->sequences = (int32_t)trf__min64(r->corpus.batch_sentences, o->source_tokens);
    o->longest = longest;
}

TRF__FN void trf__recipe_reasons(trf_recipe *r, const trf_data_stats *a)
{
    const trf_config *c = &r->config;
    long long tokens = (long long)(a->source_tokens + a->target_tokens);
    const char *what = trf__is_language(a) ? "of a language" : "of few symbols";
    char end[80];
    if (a->updates) snprintf(end, sizeof end, "after the %lld planned update%s",
                             (long long)a->updates, trf__plural(a->updates));
    else snprintf(end, sizeof end, "when %d validations in a row bring nothing better",
                  (int)r->learning.patience);
    snprintf(r->reasons, sizeof r->reasons,
             "model: %d encoder and %d decoder layer%s, d_model %d, d_ff %d, for %lld tokens %s\n"
             "batches: at most %d tokens a side in an update\n"
             "rate: rises to %.3g in %lld update%s, then falls with the square root of their "
             "number\n"
             "dropout: %g on embeddings and sublayers, for %lld tokens %s\n"
             "label smoothing: %g, as %s wanted\n"
             "end: %s; a validation every %lld update%s\n",
             (int)c->encoder_layers, (int)c->decoder_layers,
             trf__plural(c->decoder_layers ? c->decoder_layers : c->encoder_layers), (int)c->d_model,
             (int)c->d_ff, tokens, what, (int)r->training.source_tokens, r->training.learning_rate,
             (long long)r->training.warmup, trf__plural(r->training.warmup), r->training.dropout, tokens, what,
             r->training.label_smoothing,
             a->kind == TRF_ENCODER_DECODER ? "the best answer is" : "probabilities are",
             end, (long long)r->learning.valid_every, trf__plural(r->learning.valid_every));
}

TRF__FN trf_status trf__stats_check(const trf_data_stats *s, trf_error *err)
{
    const double most = 9e18, vocab = 1 << 24;
    int encodes = s->kind != TRF_DECODER_ONLY, decodes = s->kind != TRF_ENCODER_ONLY;
    int labels = s->head != TRF_HEAD_NONE && s->head != TRF_HEAD_MASKED;
    TRF__RANGE(s, kind, 0, TRF_DECODER_ONLY);
    TRF__RANGE(s, head, decodes ? 0 : TRF_HEAD_MEAN, decodes ? 0 : TRF_HEAD_MASKED);
    TRF__RANGE(s, n_labels, labels ? 2 : 0, labels ? vocab : 0);
    TRF__RANGE(s, pairs, 1, most);
    TRF__RANGE(s, source_tokens, 0, most / 4);
    TRF__RANGE(s, target_tokens, 0, most / 4);
    TRF__RANGE(s, longest, 0, (1 << 20) - 1);
    TRF__RANGE(s, source_vocab, encodes ? 5 : 0, encodes ? vocab : 0);
    TRF__RANGE(s, target_vocab, decodes ? 5 : 0, decodes ? vocab : 0);
    TRF__RANGE(s, one_vocabulary, 0, 1);
    if (s->one_vocabulary && encodes && decodes)
        TRF__TRY(trf__check_range("target_vocab", s->target_vocab, s->source_vocab,
                                  s->source_vocab, err));
    TRF__RANGE(s, d_model, 0, 65536);
    TRF__RANGE(s, updates_per_epoch, 0, most);
    TRF__RANGE(s, updates, 0, most);
    return TRF_OK;
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_recipe_find(trf_recipe *recipe, const trf_data_stats *stats, trf_error *err)
{
    double leading, pass;
    TRF__TRY(trf__begin(recipe, "recipe", err));
    if (!stats) return trf__fail_null(err, "stats");
    TRF__TRY(trf__stats_check(stats, err));
    memset(recipe, 0, sizeof *recipe);
    trf__recipe_model(recipe, stats);
    leading = (double)(trf__leads_by_target(stats) ? stats->target_tokens : stats->source_tokens);
    /* a pass over the data has about a hundred updates, of symbols eight hundred */
    recipe->corpus = trf_corpus_defaults();
    recipe->corpus.batch_tokens =
        (int32_t)trf__clamp(leading / (trf__is_language(stats) ? 100 : 800), 512, 4096);
    recipe->corpus.max_length = recipe->config.max_length - 1;
    recipe->corpus.seed = recipe->config.seed;
    trf__recipe_training(recipe, stats);
    pass = stats->updates_per_epoch ? (double)stats->updates_per_epoch
         : leading / recipe->corpus.batch_tokens;
    recipe->learning = trf_learn_defaults();
    recipe->learning.valid_every = (int64_t)trf__clamp(pass, 100, 1000);
    if (stats->updates) {
        recipe->learning.updates = stats->updates;
        recipe->learning.patience = 0;
    }
    recipe->learning.metric = stats->n_labels ? TRF_METRIC_ACCURACY
        : stats->kind == TRF_ENCODER_DECODER && stats->target_tokens > stats->pairs
        ? TRF_METRIC_ERROR_RATE
        : TRF_METRIC_LOSS;
    trf__recipe_reasons(recipe, stats);
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>choose         words, characters or subwords; which pairs are held out
// -----------------------------------------------------------------------------------------------

/* The same number whenever it is asked for (splitmix64). */
TRF__FN uint64_t trf__random_of(uint64_t index)
{
    uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* A tenth of the lines is looked at with what the others have. Drawn by a random number of the
   line: data in rows of five or ten have every part of a row among them. */
TRF__FN int trf__is_sample(int64_t line) { return trf__random_of((uint64_t)line) % 10 == 5; }

typedef struct trf__words {
    int64_t tokens, unknown;            /* of a tenth of the lines, as the others know them */
    int64_t all;                        /* about, of all lines */
    int64_t characters;                 /* of all lines */
    int32_t distinct;                   /* of the others */
} trf__words;

TRF__FN trf_status trf__count_words(trf__words *w, trf_vocab **vocab, const char *const *lines,
                                    int64_t n, const trf_hooks *hooks, trf_error *err)
{
    trf__text_ids ids;
    trf_status status = trf_vocab_create(vocab, TRF_WORDS, hooks, err);
    int64_t line;
    int32_t i;
    TRF__ZERO(ids);
    memset(w, 0, sizeof *w);
    for (line = 0; line < n && status == TRF_OK; line++) {
        const char *c = lines[line];
        for (; *c; c++) w->characters += ((unsigned char)*c & 0xC0) != 0x80;
        if (trf__is_sample(line)) continue;
        status = trf_vocab_learn(*vocab, lines[line], err);
        if (status == TRF_E_LIMIT) status = TRF_OK;         /* too large for a vocabulary */
    }
    if (status == TRF_OK) status = trf_vocab_finish(*vocab, INT32_MAX, 1, err);
    for (line = 0; line < n && status == TRF_OK; line++) {
        if (!trf__is_sample(line)) continue;
        status = trf__encode_all(*vocab, lines[line], &ids, &(*vocab)->hooks, err);
        if (status == TRF_E_LIMIT || status == TRF_E_FORMAT) { status = TRF_OK; continue; }
        w->tokens += ids.n;
        for (i = 0; i < ids.n && status == TRF_OK; i++) w->unknown += ids.ids[i] == TRF__UNK;
    }
    if (*vocab) trf__free(&(*vocab)->hooks, ids.ids, trf__bytes(ids.capacity, sizeof *ids.ids));
    if (status != TRF_OK) return status;
    w->distinct = trf_vocab_size(*vocab) - TRF__SPECIALS;
    w->all = w->tokens * 10;
    return TRF_OK;
}

/* Too little text to count unknown words in means words. */
TRF__FN trf_tokens trf__tokens_for(const trf__words *w, int64_t lines)
{
    if (w->tokens == 0 || (double)w->unknown <= 0.02 * (double)w->tokens) return TRF_TOKENS_WORDS;
    if ((double)w->all < 2 * (double)lines || (double)w->characters < 24 * (double)lines)
        return TRF_TOKENS_CHARACTERS;
    return TRF_TOKENS_SUBWORDS;
}

TRF__FN void trf__choose_kinds(trf_token_choice *choice, const trf__words w[2], const int there[2],
                               int64_t lines)
{
    trf_tokens *t = choice->tokens;
    int side, decided[2];
    for (side = 0; side < 2; side++) {
        decided[side] = t[side] == TRF_TOKENS_AUTO && there[side];
        if (decided[side]) t[side] = trf__tokens_for(&w[side], lines);
    }
    for (side = 0; side < 2; side++)    /* a language of many words goes with one of subwords */
        if (decided[side] && there[!side] && t[side] == TRF_TOKENS_WORDS &&
            t[!side] == TRF_TOKENS_SUBWORDS && w[side].distinct > 1000)
            t[side] = TRF_TOKENS_SUBWORDS;
    if (decided[0] && decided[1] && t[0] != t[1] && choice->vocabularies == 1)      /* one kind */
        t[0] = t[1] = t[0] == TRF_TOKENS_SUBWORDS || t[1] == TRF_TOKENS_SUBWORDS
                    ? TRF_TOKENS_SUBWORDS : TRF_TOKENS_CHARACTERS;
    for (side = 0; side < 2; side++) {
        choice->would_be_subwords[side] = decided[side] && t[side] == TRF_TOKENS_SUBWORDS &&
                                          choice->no_subwords;
        if (choice->would_be_subwords[side]) t[side] = TRF_TOKENS_WORDS;
        choice->unknown[side] = w[side].tokens == 0 ? NAN
                              : 100.0 * (double)w[side].unknown / (double)w[side].tokens;
    }
}

/* Subwords are as many as are seen often enough: one for 25 words of the text. */
TRF__FN int32_t trf__subwords_for(int64_t words)
{
    return (int32_t)trf__clamp((double)words / 25, 500, 8000);
}

TRF__FN void trf__choose_sizes(trf_token_choice *choice, const trf__words w[2], int32_t shared)
{
    int side, one;
    if (!choice->vocabularies) {
        one = choice->tokens[0] == choice->tokens[1] &&
              choice->vocab_size[0] == choice->vocab_size[1] &&
              (choice->tokens[0] == TRF_TOKENS_SUBWORDS ||
               (w[1].distinct > 0 && shared >= 0.25 * w[1].distinct));
        choice->vocabularies = one ? 1 : 2;
    }
    for (side = 0; side < 2; side++)
        if (!choice->vocab_size[side])
            choice->vocab_size[side] = choice->tokens[side] != TRF_TOKENS_SUBWORDS ? 32000
                : trf__subwords_for(choice->vocabularies == 1 ? w[0].all + w[1].all : w[side].all);
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_tokens_choose(trf_token_choice *choice, const char *const *source,
                                     const char *const *target,
                                     int64_t n, const trf_hooks *hooks, trf_error *err)
{
    const char *const *const lines[2] = {source, target};
    const int there[2] = {source != NULL, target != NULL};
    trf_vocab *vocab[2] = {NULL, NULL};
    trf__words w[2];
    trf_status status = TRF_OK;
    int32_t i, shared = 0;
    int side;
    TRF__TRY(trf__begin(choice, "choice", err));
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    TRF__ZERO(w);
    for (side = 0; side < 2 && status == TRF_OK; side++)
        if (there[side]) status = trf__count_words(&w[side], &vocab[side], lines[side], n, hooks,
                                                   err);
    if (status == TRF_OK) {
        for (i = TRF__SPECIALS; there[0] && there[1] && i < trf_vocab_size(vocab[1]); i++)
            shared += trf_vocab_id(vocab[0], trf_vocab_token(vocab[1], i)) != TRF__UNK;
        trf__choose_kinds(choice, w, there, n);
        trf__choose_sizes(choice, w, shared);
    }
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    return status;
}

TRF__FN int trf__by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

TRF__FN int trf__by_random(const void *a, const void *b)
{
    uint64_t x = trf__random_of(*(const uint64_t *)a), y = trf__random_of(*(const uint64_t *)b);
    return x < y ? -1 : x > y;
}

/* FNV-1a, stirred. */
TRF__FN uint64_t trf__hash_text(const char *text)
{
    uint64_t hash = 1469598103934665603u;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* How many of the sorted hashes are the same as this one. */
TRF__FN int64_t trf__count_equal(const uint64_t *sorted, int64_t n, uint64_t hash)
{
    int64_t low = 0, high = n, count = 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sorted[middle] < hash) low = middle + 1; else high = middle;
    }
    while (low + count < n && sorted[low + count] == hash) count++;
    return count;
}

/* order: in which pairs are picked; NULL: the comb. */
typedef struct trf__picking { uint64_t *hashes, *sorted, *chosen, *order; int64_t n; } trf__picking;

/* The first `picks` pairs, into held and chosen; a source that comes more than four times is a
   frequent sentence, and only the pair itself is held out. Returns how many pairs that makes. */
TRF__FN int64_t trf__pick(const trf__picking *p, int64_t picks, char *held)
{
    int64_t k, count = 0;
    size_t n_chosen = 0;
    memset(held, 0, (size_t)p->n);
    for (k = 0; k < picks; k++) {
        size_t i = p->order ? (size_t)p->order[k]
                 : (size_t)(((double)k + 0.5) * (double)p->n / (double)picks);
        if (held[i]) continue;
        held[i] = 1;
        if (trf__count_equal(p->sorted, p->n, p->hashes[i]) <= 4)
            p->chosen[n_chosen++] = p->hashes[i];
    }
    qsort(p->chosen, n_chosen, sizeof *p->chosen, trf__by_number);
    for (k = 0; k < p->n; k++) {
        if (!held[k] &&
            bsearch(&p->hashes[k], p->chosen, n_chosen, sizeof *p->chosen, trf__by_number))
            held[k] = 1;
        count += held[k];
    }
    return count;
}

/* Where sources have three lines each, 1,000 picks make 3,000 pairs: then a third of the picks, and
   nine tenths of that again, as long as nothing is left to learn from. */
TRF__FN int64_t trf__pick_some(const trf__picking *p, int64_t size, char *held)
{
    int64_t picks = size, count = trf__pick(p, size, held);
    while (picks > 1 && size < p->n && (count == p->n || (picks == size && count > size))) {
        double fewer = (double)picks * (double)size / (double)count;
        if (picks < size && fewer > 0.9 * (double)picks) fewer = 0.9 * (double)picks;
        picks = fewer < 1 ? 1 : (int64_t)fewer;
        count = trf__pick(p, picks, held);
    }
    return count;
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_hold_out(const char *const *sources, int64_t n, int64_t size,
                                trf_hold_out_rule rule, char *held,
                                int64_t *count, const trf_hooks *hooks, trf_error *err)
{
    trf_hooks none;
    trf__picking p;
    uint64_t *room;
    int64_t i;
    TRF__TRY(trf__begin(sources, "sources", err));
    if (!held) return trf__fail_null(err, "held");
    if (!count) return trf__fail_null(err, "count");
    *count = 0;
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    if (size < 0 || size > n)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "size",
                         "size must be 0 to n = %lld, got %lld", (long long)n, (long long)size);
    TRF__TRY(trf__check_range("rule", (double)rule, 0, 1, err));
    TRF__ZERO(none);
    if (!hooks) hooks = &none;
    if (size == 0) size = n / 20 < 1000 ? n / 20 : 1000;
    room = (uint64_t *)trf__alloc(hooks, trf__bytes(4 * n, sizeof *room));
    if (!room) return trf__fail(err, TRF_E_NOMEM, -1, "held", "no memory to order %lld pairs",
                                (long long)n);
    p.hashes = room; p.sorted = room + n; p.chosen = room + 2 * n; p.order = room + 3 * n;
    p.n = n;
    for (i = 0; i < n; i++) {
        p.sorted[i] = p.hashes[i] = trf__hash_text(sources[i]);
        p.order[i] = (uint64_t)i;
    }
    qsort(p.sorted, (size_t)n, sizeof *p.sorted, trf__by_number);
    qsort(p.order, (size_t)n, sizeof *p.order, trf__by_random);
    if (rule == TRF_HOLD_OUT_EVERY_KTH) p.order = NULL;
    *count = trf__pick_some(&p, size, held);
    trf__free(hooks, room, trf__bytes(4 * n, sizeof *room));
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>judge          the mean of the weights, validation, and what is best
// -----------------------------------------------------------------------------------------------

struct trf_ema {
    trf_trainer *trainer;
    double share;
    trf_hooks hooks;            /* the trainer's, which may be gone when the average is destroyed */
    int64_t n;                  /* weights */
    trf_real *average, *raw;    /* raw: the trainer's own, while the average is applied */
    int applied;
};

/* All weights, parameter by parameter. */
TRF__FN trf_status trf__weights_read(const trf_model *model, trf_real *to, trf_error *err)
{
    int32_t i;
    for (i = 0; i < trf_parameter_count(model); i++) {
        trf_tensor w = trf_parameter(model, i);
        int64_t n = trf_tensor_count(&w);
        TRF__TRY(trf_tensor_read(&w, to, n, err));
        to += n;
    }
    return TRF_OK;
}

TRF__FN trf_status trf__weights_write(trf_trainer *trainer, const trf_real *from, trf_error *err)
{
    int32_t i;
    for (i = 0; i < trf_parameter_count(trainer->model); i++) {
        trf_tensor w = trf_trainer_parameter(trainer, i);
        int64_t n = trf_tensor_count(&w);
        TRF__TRY(trf_tensor_write(&w, from, n, err));
        from += n;
    }
    return TRF_OK;
}

TRF_API void trf_ema_destroy(trf_ema *ema)
{
    trf_hooks hooks;
    if (!ema) return;
    hooks = ema->hooks;
    trf__free(&hooks, ema->average, trf__bytes(2 * ema->n, sizeof *ema->average));
    trf__free(&hooks, ema, sizeof *ema);
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_ema_create(trf_ema **ema, trf_trainer *trainer, double share, trf_error *err)
{
    const trf_hooks *hooks;
    trf_ema *e;
    trf_status status;
    TRF__TRY(trf__begin(ema, "ema", err));
    *ema = NULL;
    if (!trainer) return trf__fail_null(err, "trainer");
    TRF__TRY(trf__check_range("share", share, 1e-300, 0.5, err));
    hooks = &trainer->options.hooks;
    e = (trf_ema *)trf__alloc_zeroed(hooks, sizeof *e);
    if (!e) return trf__fail(err, TRF_E_NOMEM, -1, "ema", "no memory for an average");
    e->trainer = trainer;
    e->hooks = *hooks;
    e->share = share;
    e->n = trf_parameter_total(trainer->model);
    e->average = (trf_real *)trf__alloc(hooks, trf__bytes(2 * e->n, sizeof *e->average));
    status = e->average ? trf__weights_read(trainer->model, e->average, err)
           : trf__fail(err, TRF_E_NOMEM, -1, "ema", "no memory for the average of %lld weights",
                       (long long)e->n);
    if (status != TRF_OK) { trf_ema_destroy(e); return status; }
    e->raw = e->average + e->n;
    *ema = e;
    return TRF_OK;
}

TRF_API trf_status trf_ema_update(trf_ema *ema, trf_error *err)
{
    double first;
    trf_real share;
    int64_t i;
    TRF__TRY(trf__begin(ema, "ema", err));
    if (ema->applied)
        return trf__fail(err, TRF_E_STATE, -1, "ema",
                         "expected the trainer's own weights, but the average is applied");
    first = 9.0 / (10.0 + (double)trf_trainer_step(ema->trainer));
    share = (trf_real)(first > ema->share ? first : ema->share);
    TRF__TRY(trf__weights_read(ema->trainer->model, ema->raw, err));
    for (i = 0; i < ema->n; i++) ema->average[i] += share * (ema->raw[i] - ema->average[i]);
    return TRF_OK;
}

TRF_API trf_status trf_ema_apply(trf_ema *ema, trf_error *err)
{
    TRF__TRY(trf__begin(ema, "ema", err));
    if (ema->applied) return TRF_OK;
    TRF__TRY(trf__weights_read(ema->trainer->model, ema->raw, err));
    ema->applied = 1;
    return trf__weights_write(ema->trainer, ema->average, err);
}

TRF_API trf_status trf_ema_restore(trf_ema *ema, trf_error *err)
{
    TRF__TRY(trf__begin(ema, "ema", err));
    if (!ema->applied) return TRF_OK;
    TRF__TRY(trf__weights_write(ema->trainer, ema->raw, err));
    ema->applied = 0;
    return TRF_OK;
}

TRF_API trf_real *trf_ema_weights(trf_ema *ema) { return ema ? ema->average : NULL; }

/* Scores as the larger, the better. Answers that need more corrections than they should have tokens
   are no worse than no answers: 100. */
TRF__FN double trf__worth(trf_metric metric, double score)
{
    return metric >= TRF_METRIC_ACCURACY ? score
         : metric == TRF_METRIC_ERROR_RATE && score > 100 ? -100 : -score;
}

TRF__FN int trf__improves(trf_metric metric, double a, double b)
{
    return b != b ? a == a : trf__worth(metric, a) > trf__worth(metric, b);
}

TRF_API int trf_is_better(trf_metric metric, double a, double a_loss, double b, double b_loss)
{
    return trf__improves(metric, a, b) ||
           (trf__worth(metric, a) == trf__worth(metric, b) &&
            (a_loss < b_loss || (b_loss != b_loss && a_loss == a_loss)));
}

TRF_API int trf_is_perfect(trf_metric metric, double score)
{
    return metric != TRF_METRIC_LOSS &&
           fabs(score - (metric == TRF_METRIC_ERROR_RATE ? 0 : 100)) < 1e-9;
}

TRF_API int trf_early_stopping_add(trf_early_stopping *s, trf_metric metric, int64_t update,
                                   double score, double loss)
{
    int first = s->best_update == 0;
    int improves = first || trf__improves(metric, score, s->best);
    int best = first || trf_is_better(metric, score, loss, s->best, s->best_loss);
    int hopeless = metric == TRF_METRIC_ERROR_RATE ? score >= 100
                 : metric != TRF_METRIC_LOSS && score <= 0;
    s->validated = update;
    /* where no score can be worse, only the loss can tell */
    s->wait = improves || (best && hopeless) ? 0 : s->wait + 1;
    if (best) {
        s->best = score;
        s->best_loss = loss;
        s->best_update = update;
    }
    return best ? 1 + improves : 0;
}

TRF_API int32_t trf_early_stopping_left(const trf_early_stopping *s, trf_metric metric,
                                        int32_t patience)
{
    if (patience <= 0) return INT32_MAX;
    if (patience > 3 && s->best_update && trf_is_perfect(metric, s->best)) patience = 3;
    return patience > s->wait ? patience - s->wait : 0;
}

/* A cancel hook is asked between two products, of which those with the vocabulary's matrix are the
   largest: the rows with which one takes about half a second. A GPU is fast enough for all. */
TRF__FN double trf__rows_at_a_time(const trf_config *c)
{
    double vocab = c->source_vocab;
    if (c->target_vocab > vocab) vocab = c->target_vocab;
    if (c->n_labels > vocab) vocab = c->n_labels;
    return c->device.kind == TRF_DEVICE_CPU ? 5e9 / (vocab * c->d_model) : 1e18;
}

TRF_API void trf_search_limit(trf_search *search, const trf_config *config)
{
    double most = trf__clamp(trf__rows_at_a_time(config), 1, 512) / search->beam;
    if (most < search->max_sentences) search->max_sentences = most < 1 ? 1 : (int32_t)most;
}

/* The pairs from `first` on that fit into one batch; at least one. */
TRF__FN trf_batch trf__cut_pairs(const trf_batch *pairs, int32_t first, const int64_t used[2],
                                 const trf_train_options *limits, const trf_config *c)
{
    const double rows = trf__rows_at_a_time(c);
    const double most[2] = {limits->source_tokens < rows ? limits->source_tokens : rows,
                            limits->target_tokens < rows ? limits->target_tokens : rows};
    const trf_sequences *from[2] = {&pairs->source, &pairs->target};
    int64_t tokens[2] = {0, 0};
    int32_t n = 0, all = from[0]->count > from[1]->count ? from[0]->count : from[1]->count;
    trf_sequences to[2];
    trf_batch batch;
    int side;
    for (; first + n < all && n < limits->sequences; n++) {
        for (side = 0; side < 2; side++)
            if (first + n < from[side]->count) tokens[side] += from[side]->lengths[first + n] + 1;
        if (n > 0 && ((double)tokens[0] > most[0] || (double)tokens[1] > most[1])) break;
    }
    for (side = 0; side < 2; side++) {
        TRF__ZERO(to[side]);
        if (!from[side]->count) continue;
        to[side].ids = from[side]->ids + used[side];
        to[side].lengths = from[side]->lengths + first;
        to[side].count = n;
    }
    TRF__ZERO(batch);
    batch.source = to[0];
    batch.target = to[1];
    return batch;
}

TRF__FN void trf__sum_report(trf_step_report *sum, const trf_step_report *r)
{
    double n = (double)r->target_tokens;
    sum->step = r->step;
    sum->loss += r->loss * n;
    sum->nll += r->nll * n;
    sum->accuracy += r->accuracy * n;
    sum->source_tokens += r->source_tokens;
    sum->target_tokens += r->target_tokens;
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_evaluate_all(trf_trainer *trainer, const trf_batch *pairs, trf_noise *noise,
                                    trf_step_report *report, trf_error *err)
{
    trf_step_report sum, one;
    int64_t used[2] = {0, 0}, number = 0;
    int32_t first = 0, all, i, n;
    trf_batch batch;
    if (report) TRF__ZERO(*report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!pairs) return trf__fail_null(err, "pairs");
    all = pairs->source.count > pairs->target.count ? pairs->source.count : pairs->target.count;
    if (all < 1) return trf__fail(err, TRF_E_INVALID_ARG, -1, "pairs",
                                  "expected one pair or more, got none");
    TRF__ZERO(sum);
    for (; first < all; first += n) {
        batch = trf__cut_pairs(pairs, first, used, &trainer->options, &trainer->model->config);
        n = batch.source.count > batch.target.count ? batch.source.count : batch.target.count;
        for (i = 0; i < batch.source.count; i++) used[0] += batch.source.lengths[i];
        for (i = 0; i < batch.target.count; i++) used[1] += batch.target.lengths[i];
        batch.place.batch = number++;
        if (noise) TRF__TRY(trf_noise_apply(noise, &batch, &batch, err));
        TRF__TRY(trf_evaluate(trainer, &batch, &one, err));
        trf__sum_report(&sum, &one);
    }
    if (sum.target_tokens) {
        sum.loss /= (double)sum.target_tokens;
        sum.nll /= (double)sum.target_tokens;
        sum.accuracy /= (double)sum.target_tokens;
    }
    if (report) *report = sum;
    return TRF_OK;
}

/* The pairs of one source follow one another in `order`. */
typedef struct trf__sources {
    const trf_batch *pairs;
    int64_t *at[2];             /* where each sequence begins, source and target */
    const void **order;
    int32_t *row;               /* of the table of edits */
} trf__sources;

/* By source, then by number; items point into lengths. */
TRF__FN int trf__by_source(const void *context, const void *a, const void *b)
{
    const trf__sources *s = (const trf__sources *)context;
    const trf_sequences *from = &s->pairs->source;
    int64_t i = (const int32_t *)a - from->lengths, k = (const int32_t *)b - from->lengths;
    int32_t n = from->lengths[i], m = from->lengths[k];
    int order = n != m ? (n < m ? -1 : 1) : n == 0 ? 0
              : memcmp(from->ids + s->at[0][i], from->ids + s->at[0][k],
                       (size_t)n * sizeof *from->ids);
    return order ? order : i < k ? -1 : i > k;
}

/* d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [a_i != b_j]), of which row i - 1 is
   kept. */
TRF__FN int32_t trf__edits(const int32_t *a, int32_t n, const int32_t *b, int32_t k, int32_t *row,
                           int32_t unk)
{
    int32_t i, j;
    for (j = 0; j <= k; j++) row[j] = j;
    for (i = 0; i < n; i++) {
        int32_t diagonal = row[0], left = ++row[0];
        for (j = 1; j <= k; j++) {
            int32_t above = row[j], least = diagonal + (a[i] != b[j - 1] || a[i] == unk);
            if (above + 1 < least) least = above + 1;
            if (left + 1 < least) least = left + 1;
            diagonal = above;
            row[j] = left = least;
        }
    }
    return row[k];
}

/* Adds the edits beside the target of the group that has the fewest; of several such, beside the
   longest. */
TRF__FN void trf__add_edits(const trf__sources *s, int32_t first, int32_t last,
                            const int32_t *answer, int32_t n, int32_t unk, int64_t sums[2])
{
    const trf_sequences *targets = &s->pairs->target;
    int64_t fewest = INT64_MAX, longest = 0;
    int32_t i;
    for (i = first; i < last; i++) {
        int64_t pair = (const int32_t *)s->order[i] - s->pairs->source.lengths;
        int32_t length = targets->lengths[pair];
        int64_t edits = trf__edits(targets->ids + s->at[1][pair], length, answer, n, s->row, unk);
        if (edits > fewest || (edits == fewest && length <= longest)) continue;
        fewest = edits;
        longest = length;
    }
    sums[0] += fewest;
    sums[1] += longest;
}

enum { TRF__ANSWERS = 64 };         /* sources answered in one call */

/* Answers up to TRF__ANSWERS sources from group *at on; where each group begins stands in
   begins. */
TRF__FN trf_status trf__answer_some(trf_translator *t, const trf__sources *s, int32_t *at,
                                    int32_t *ids, int64_t sums[2], trf_error *err)
{
    const trf_sequences *from = &s->pairs->source;
    int32_t begins[TRF__ANSWERS + 1], lengths[TRF__ANSWERS], n = 0, i = *at, k;
    const int32_t unk = t->model->config.unk;
    int64_t used = 0;
    trf_sequences some;
    while (i < from->count && n < TRF__ANSWERS) {
        const int64_t pair = (const int32_t *)s->order[i] - from->lengths;
        int32_t length = from->lengths[pair], first = i++;
        while (i < from->count) {
            int64_t other = (const int32_t *)s->order[i] - from->lengths;
            if (from->lengths[other] != length ||
                (length && memcmp(from->ids + s->at[0][other], from->ids + s->at[0][pair],
                                  (size_t)length * sizeof *ids))) break;
            i++;
        }
        if (length == 0) { trf__add_edits(s, first, i, ids, 0, unk, sums); continue; }
        memcpy(ids + used, from->ids + s->at[0][pair], (size_t)length * sizeof *ids);
        used += length;
        begins[n] = first;
        lengths[n++] = length;
        begins[n] = i;
    }
    *at = i;
    some.ids = ids; some.lengths = lengths; some.count = n;
    if (n) TRF__TRY(trf_translate_batch(t, &some, err));
    for (k = 0; k < n; k++) {
        const trf_hypothesis *h = trf_hypothesis_at(t, k, 0);
        trf__add_edits(s, begins[k], begins[k + 1], h->ids, h->n, unk, sums);
    }
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_error_rate(trf_translator *translator, const trf_batch *pairs,
                                  double *percent, trf_error *err)
{
    const trf_hooks *hooks;
    trf__sources s;
    int64_t n, i, most = 1, used = 0, sums[2] = {0, 0};
    int32_t *ids, at = 0;
    trf_status status = TRF_OK;
    if (percent) *percent = 0;
    TRF__TRY(trf__begin(translator, "translator", err));
    if (!pairs) return trf__fail_null(err, "pairs");
    if (!percent) return trf__fail_null(err, "percent");
    n = pairs->source.count;
    if (n < 1 || pairs->target.count != n)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "pairs", "expected as many targets as "
                         "sources, and one or more, got %d and %d", (int)pairs->target.count, (int)n);
    hooks = &translator->search.hooks;
    s.pairs = pairs;
    s.at[0] = (int64_t *)trf__alloc(hooks, trf__bytes(2 * n, sizeof *s.at[0]));
    s.order = (const void **)trf__alloc(hooks, trf__bytes(n, sizeof *s.order));
    for (i = 0; i < n; i++) if (pairs->source.lengths[i] > most) most = pairs->source.lengths[i];
    ids = (int32_t *)trf__alloc(hooks, trf__bytes(most * TRF__ANSWERS, sizeof *ids));
    s.row = (int32_t *)trf__alloc(hooks,
                                  trf__bytes(translator->model->config.max_length + 1,
                                             sizeof *s.row));
    if (!s.at[0] || !s.order || !ids || !s.row)
        status = trf__fail(err, TRF_E_NOMEM, -1, "pairs", "no memory for %lld pairs", (long long)n);
    else {
        s.at[1] = s.at[0] + n;
        for (i = 0; i < n; used += pairs->source.lengths[i++]) s.at[0][i] = used;
        for (i = used = 0; i < n; used += pairs->target.lengths[i++]) s.at[1][i] = used;
        for (i = 0; i < n; i++) s.order[i] = pairs->source.lengths + i;
        trf__sort(s.order, (size_t)n, trf__by_source, &s);
        while (at < n && status == TRF_OK) status = trf__answer_some(translator, &s, &at, ids,
                                                                     sums, err);
    }
    if (status == TRF_OK) *percent = 100 * (double)sums[0] / (double)(sums[1] > 0 ? sums[1] : 1);
    trf__free(hooks, s.row, trf__bytes(translator->model->config.max_length + 1, sizeof *s.row));
    trf__free(hooks, ids, trf__bytes(most * TRF__ANSWERS, sizeof *ids));
    trf__free(hooks, (void *)s.order, trf__bytes(n, sizeof *s.order));
    trf__free(hooks, s.at[0], trf__bytes(2 * n, sizeof *s.at[0]));
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>by-itself      trf_learn: updates until one of the ends
// -----------------------------------------------------------------------------------------------

typedef struct trf__learner {
    trf_trainer *trainer;
    trf_corpus *corpus;
    const trf_batch *held_out;      /* NULL: none */
    const trf_learn_options *o;
    trf_ema *ema;                   /* NULL: none */
    trf_real *best;                 /* the weights of the best validation, */
    int has_best;                   /* once there was one */
    int learnt;                     /* an update was applied: there is something to validate */
    int stopped;                    /* progress has asked to end */
    int64_t in_a_row;               /* skipped updates, so far */
    double passes;
    time_t began;
    trf_learn_report *report;
} trf__learner;

enum { TRF__MOST_SKIPPED = 100 };

TRF__FN trf_status trf__learn_check(const trf__learner *l, trf_error *err)
{
    const trf_learn_options *o = l->o;
    TRF__RANGE(o, updates, 1, (double)INT64_MAX);
    TRF__RANGE(o, seconds, 0, 1e18);
    TRF__RANGE(o, valid_every, 1, (double)INT64_MAX);
    TRF__RANGE(o, patience, 0, INT32_MAX);
    TRF__RANGE(o, ema, 0, 0.5);
    TRF__RANGE(o, metric, 0, 3);
    TRF__RANGE(o, accumulate, 1, INT32_MAX);
    if (o->metric == TRF_METRIC_CUSTOM && !o->custom) return trf__fail_null(err, "custom");
    if (trf_corpus_size(l->corpus) == 0)
        return trf__fail(err, TRF_E_STATE, -1, "corpus",
                         "expected one pair or more to learn from, got none");
    if (o->updates != TRF_ENDLESS || o->seconds > 0 || (l->held_out && o->patience) ||
        o->progress ||
        l->corpus->options.epochs != TRF_ENDLESS) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, "updates", "nothing says when training ends: give "
                     "updates, seconds, pairs to validate on with patience, or the corpus's "
                     "epochs");
}

TRF__FN void trf__tell_progress(trf__learner *l, trf_learn_progress *p)
{
    p->update = &l->report->last;
    p->epoch = l->passes;
    p->stopping = &l->report->stopping;
    if (l->o->progress && l->o->progress(l->o->user, p)) l->stopped = 1;
}

TRF__FN trf_status trf__learn_score(trf__learner *l, const trf_step_report *held, double *score,
                                    trf_error *err)
{
    const trf_model *model = l->trainer->model;
    trf_search search = l->o->search;
    trf_translator *translator;
    trf_status status;
    *score = l->o->metric == TRF_METRIC_ACCURACY ? 100 * held->accuracy : held->loss;
    if (l->o->metric == TRF_METRIC_CUSTOM && l->o->custom(l->o->user, model, score))
        return trf__fail(err, TRF_E_CANCELLED, l->trainer->step, "custom",
                         "the metric `custom` asked to stop");
    if (l->o->metric != TRF_METRIC_ERROR_RATE) return TRF_OK;
    trf_search_limit(&search, &model->config);
    search.hooks = l->trainer->options.hooks;
    TRF__TRY(trf_translator_create(&translator, model, &search, err));
    status = trf_error_rate(translator, l->held_out, score, err);
    trf_translator_destroy(translator);
    return status;
}

/* Validates what stands in the model now, and keeps it if it is the best. */
TRF__FN trf_status trf__learn_judge(trf__learner *l, trf_error *err)
{
    trf_early_stopping stopping = l->report->stopping;
    trf_learn_progress p;
    trf_step_report held;
    int best;
    TRF__ZERO(p);
    TRF__TRY(trf_evaluate_all(l->trainer, l->held_out, l->o->held_out_noise, &held, err));
    TRF__TRY(trf__learn_score(l, &held, &p.score, err));
    best = trf_early_stopping_add(&stopping, l->o->metric, l->trainer->step, p.score, held.loss);
    if (best) TRF__TRY(trf__weights_read(l->trainer->model, l->best, err));
    if (best) l->has_best = 1;
    l->report->stopping = stopping;
    p.validated = 1;
    p.is_best = best > 0;
    p.loss = held.loss;
    p.nll = held.nll;
    p.accuracy = held.accuracy;
    trf__tell_progress(l, &p);
    return TRF_OK;
}

TRF__COLD
TRF__FN trf_status trf__learn_validate(trf__learner *l, trf_error *err)
{
    trf_status status, back;
    if (!l->held_out) {
        l->report->stopping.validated = l->trainer->step;
        return TRF_OK;
    }
    if (l->ema) TRF__TRY(trf_ema_apply(l->ema, err));
    status = trf__learn_judge(l, err);
    back = l->ema ? trf_ema_restore(l->ema, status == TRF_OK ? err : NULL) : TRF_OK;
    return status != TRF_OK ? status : back;
}

/* One update from `accumulate` batches, fewer when the last epoch ends. TRF_E_END: no data are
   left. */
TRF__FN trf_status trf__learn_update(trf__learner *l, trf_error *err)
{
    trf_step_report *report = &l->report->last;
    trf_batch batch;
    trf_status status;
    int32_t i;
    for (i = 0; i < l->o->accumulate; i++) {
        status = trf_corpus_next(l->corpus, &batch, err);
        if (status == TRF_E_END && i > 0) break;
        if (status == TRF_OK && l->o->noise) status = trf_noise_apply(l->o->noise, &batch, &batch,
                                                                      err);
        if (status == TRF_OK) status = trf_forward_backward(l->trainer, &batch, report, err);
        if (status != TRF_OK) return status;
        l->passes += (double)batch.target.count / (double)trf_corpus_size(l->corpus);
    }
    TRF__TRY(trf_optimizer_step(l->trainer, report, err));
    l->report->updates++;
    l->report->skipped += report->skipped;
    l->in_a_row = report->skipped ? l->in_a_row + 1 : 0;
    if (!report->skipped) l->learnt = 1;
    if (l->in_a_row >= TRF__MOST_SKIPPED)
        return trf__fail(err, TRF_E_NONFINITE, report->step, report->tensor, "the last %d updates "
                         "were skipped: %s is not finite, so the rate is too high",
                         (int)TRF__MOST_SKIPPED, report->tensor);
    return l->ema ? trf_ema_update(l->ema, err) : TRF_OK;
}

/* Whether training is over before the next update. */
TRF__FN int trf__learn_is_over(trf__learner *l)
{
    const trf_learn_options *o = l->o;
    if (l->stopped) l->report->end = TRF_END_PROGRESS;
    else if (l->trainer->step >= o->updates) l->report->end = TRF_END_UPDATES;
    else if (trf_early_stopping_left(&l->report->stopping, o->metric, o->patience) == 0)
        l->report->end = TRF_END_PATIENCE;
    else if (o->seconds > 0 && difftime(time(NULL), l->began) >= o->seconds)
        l->report->end = TRF_END_SECONDS;
    else return 0;
    return 1;
}

TRF__FN trf_status trf__learn_on(trf__learner *l, trf_error *err)
{
    trf_early_stopping *stopping = &l->report->stopping;
    trf_learn_progress p;
    trf_status status;
    TRF__ZERO(p);
    for (;;) {
        int64_t step = l->trainer->step;
        if (step && step % l->o->valid_every == 0 && stopping->validated != step && !l->stopped) {
            if (l->report->updates && !l->learnt) stopping->wait++;
            else TRF__TRY(trf__learn_validate(l, err));
        }
        if (trf__learn_is_over(l)) break;
        status = trf__learn_update(l, err);
        if (status == TRF_E_END) { l->report->end = TRF_END_EPOCHS; break; }
        if (status != TRF_OK) return status;
        trf__tell_progress(l, &p);
    }
    trf__clear(err);
    if (l->learnt && stopping->validated != l->trainer->step) return trf__learn_validate(l, err);
    return TRF_OK;
}

/* The best weights, or the last ones, become the model's. */
TRF__FN trf_status trf__learn_leave(trf__learner *l, trf_error *err)
{
    if (l->has_best) return trf__weights_write(l->trainer, l->best, err);
    return l->ema ? trf_ema_apply(l->ema, err) : TRF_OK;
}

/* Held-out pairs that can be judged: none is as good as NULL. */
TRF__FN const trf_batch *trf__some_pairs(const trf_batch *pairs)
{
    return pairs && (pairs->source.count > 0 || pairs->target.count > 0) ? pairs : NULL;
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_learn(trf_trainer *trainer, trf_corpus *corpus, const trf_batch *held_out,
                             const trf_learn_options *options, trf_learn_report *report,
                             trf_error *err)
{
    trf_learn_options defaults = trf_learn_defaults();
    const trf_hooks *hooks;
    trf_learn_report room;
    trf__learner l;
    trf_status status;
    int64_t n;
    if (!report) report = &room;
    memset(report, 0, sizeof *report);
    report->stopping.validated = -1;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!corpus) return trf__fail_null(err, "corpus");
    TRF__ZERO(l);
    l.trainer = trainer;
    l.corpus = corpus;
    l.held_out = trf__some_pairs(held_out);
    l.o = options ? options : &defaults;
    l.report = report;
    l.began = time(NULL);
    report->last.step = trainer->step;
    hooks = &trainer->options.hooks;
    TRF__TRY(trf__learn_check(&l, err));
    trf__warn_of_plan(trainer, l.o->updates);
    if (l.o->ema > 0) TRF__TRY(trf_ema_create(&l.ema, trainer, l.o->ema, err));
    n = trf_parameter_total(trainer->model);
    l.best = l.held_out ? (trf_real *)trf__alloc(hooks, trf__bytes(n, sizeof *l.best)) : NULL;
    if (l.held_out && !l.best)
        status = trf__fail(err, TRF_E_NOMEM, -1, "best", "no memory for the best %lld weights",
                           (long long)n);
    else status = trf__learn_on(&l, err);
    if (status == TRF_OK) status = trf__learn_leave(&l, err);
    else if (l.has_best) trf__learn_leave(&l, NULL);
    trf__free(hooks, l.best, trf__bytes(n, sizeof *l.best));
    trf_ema_destroy(l.ema);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>dataset        texts, and all that follows from them
// -----------------------------------------------------------------------------------------------

/* Texts one after another, each ended by NUL. */
typedef struct trf__texts {
    char *bytes;
    int64_t *starts;
    int64_t used, capacity, count, starts_capacity;
} trf__texts;

/* Sequences that grow. */
typedef struct trf__side {
    int32_t *ids, *lengths;
    int64_t used, capacity, count, lengths_capacity;
} trf__side;

struct trf_dataset {
    trf_dataset_options options;
    trf__texts texts[2];
    trf_vocab *vocab[2];            /* one for both sides, where they are the same */
    trf__side held[2];
    trf_batch held_out;             /* of it */
    trf_data_stats stats;
    trf_recipe recipe;
    trf_corpus *corpus;
    int64_t left_out;
    int64_t unknown;                /* target ids to learn from that are unk */
    char *labels;                   /* a line each; or NULL */
    size_t labels_bytes;
    int finished;
};

TRF_API trf_dataset_options trf_dataset_defaults(void)
{
    trf_dataset_options o;
    TRF__ZERO(o);
    o.max_vocab = 32000;
    o.min_count = 1;
    o.seed = 1;
    return o;
}

TRF__FN trf_status trf__dataset_check(const trf_dataset_options *o, trf_error *err)
{
    TRF__RANGE(o, kind, 0, TRF_DATA_TAGGED);
    TRF__RANGE(o, source_tokens, 0, 2);
    TRF__RANGE(o, target_tokens, 0, 2);
    TRF__RANGE(o, max_vocab, 5, 1 << 24);
    TRF__RANGE(o, min_count, 1, (double)INT64_MAX);
    TRF__RANGE(o, held_out, -1, (double)INT64_MAX);
    TRF__RANGE(o, updates, 0, (double)INT64_MAX);
    return trf__hooks_check(&o->hooks, err);
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_dataset_create(trf_dataset **data, const trf_dataset_options *options,
                                      trf_error *err)
{
    trf_dataset_options o = options ? *options : trf_dataset_defaults();
    TRF__TRY(trf__begin(data, "data", err));
    *data = NULL;
    TRF__TRY(trf__dataset_check(&o, err));
    *data = (trf_dataset *)trf__alloc_zeroed(&o.hooks, sizeof **data);
    if (!*data) return trf__fail(err, TRF_E_NOMEM, -1, "data", "no memory for a data set");
    (*data)->options = o;
    return TRF_OK;
}

TRF__FN void trf__texts_free(trf__texts *t, const trf_hooks *hooks)
{
    trf__free(hooks, t->bytes, (size_t)t->capacity);
    trf__free(hooks, t->starts, trf__bytes(t->starts_capacity, sizeof *t->starts));
    memset(t, 0, sizeof *t);
}

TRF__FN void trf__side_free(trf__side *s, const trf_hooks *hooks)
{
    trf__free(hooks, s->ids, trf__bytes(s->capacity, sizeof *s->ids));
    trf__free(hooks, s->lengths, trf__bytes(s->lengths_capacity, sizeof *s->lengths));
    memset(s, 0, sizeof *s);
}

/* What finishing makes. */
TRF__FN void trf__dataset_clear(trf_dataset *d)
{
    int side;
    if (d->vocab[1] != d->vocab[0]) trf_vocab_destroy(d->vocab[1]);
    trf_vocab_destroy(d->vocab[0]);
    d->vocab[0] = d->vocab[1] = NULL;
    for (side = 0; side < 2; side++) trf__side_free(&d->held[side], &d->options.hooks);
    trf_corpus_destroy(d->corpus);
    d->corpus = NULL;
    trf__free(&d->options.hooks, d->labels, d->labels_bytes);
    d->labels = NULL;
    d->left_out = d->unknown = 0;
    TRF__ZERO(d->stats);
}

TRF__COLD
TRF_API void trf_dataset_destroy(trf_dataset *data)
{
    trf_hooks hooks;
    if (!data) return;
    hooks = data->options.hooks;
    trf__dataset_clear(data);
    trf__texts_free(&data->texts[0], &hooks);
    trf__texts_free(&data->texts[1], &hooks);
    trf__free(&hooks, data, sizeof *data);
}

TRF__FN trf_status trf__texts_add(trf__texts *t, const char *text, size_t n,
                                  const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(char, t->bytes, t->capacity, t->used + (int64_t)n + 1, hooks);
    TRF__GROW(int64_t, t->starts, t->starts_capacity, t->count + 1, hooks);
    if (n) memcpy(t->bytes + t->used, text, n);
    t->bytes[t->used + (int64_t)n] = 0;
    t->starts[t->count++] = t->used;
    t->used += (int64_t)n + 1;
    return TRF_OK;
}

/* Both sides of a pair, or neither. */
TRF__FN trf_status trf__dataset_append(trf_dataset *d, const char *source, size_t n,
                                       const char *target, size_t k, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    TRF__TRY(trf__texts_add(&d->texts[0], source, n, hooks, err));
    if (trf__texts_add(&d->texts[1], target, k, hooks, err) == TRF_OK) return TRF_OK;
    d->texts[0].used = d->texts[0].starts[--d->texts[0].count];
    return TRF_E_NOMEM;
}

TRF__FN trf_status trf__dataset_open(const trf_dataset *d, trf_error *err)
{
    TRF__TRY(trf__begin(d, "data", err));
    if (!d->finished) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "data",
                     "expected a data set that is not finished, got one that is");
}

TRF__COLD
TRF_API trf_status trf_dataset_add(trf_dataset *data, const char *source, const char *target,
                                   trf_error *err)
{
    TRF__TRY(trf__dataset_open(data, err));
    if (!target) return trf__fail_null(err, "target");
    if (data->options.kind != TRF_DATA_TEXTS && !source) return trf__fail_null(err, "source");
    if (data->options.kind == TRF_DATA_TEXTS) source = "";
    TRF__TRY(trf__check_utf8(source, "source", err));
    TRF__TRY(trf__check_utf8(target, "target", err));
    if (data->options.kind == TRF_DATA_LABELLED && strchr(target, '\n'))
        return trf__fail(err, TRF_E_FORMAT, (int64_t)strcspn(target, "\n"), "target",
                         "expected a label of one line");
    return trf__dataset_append(data, source, strlen(source), target, strlen(target), err);
}

/* A text that is read line by line. */
typedef struct trf__lines {
    const char *path;
    char *text;
    size_t n, bytes, at;
    int64_t number;
} trf__lines;

/* The next line, of *n bytes, or NULL at the end. */
TRF__FN const char *trf__next_line(trf__lines *l, size_t *n)
{
    const char *line = l->text + l->at, *end;
    if (l->at >= l->n) return NULL;
    end = (const char *)memchr(line, '\n', l->n - l->at);
    *n = end ? (size_t)(end - line) : l->n - l->at;
    l->at += *n + (end != NULL);
    if (*n && line[*n - 1] == '\r') --*n;
    l->number++;
    return line;
}

TRF__FN trf_status trf__line_fault(const trf__lines *l, const char *line, size_t n, trf_error *err)
{
    int64_t fault = trf__utf8_fault(line, n);
    if (memchr(line, 0, n))
        return trf__fail(err, TRF_E_FORMAT, l->number, "line", "line %lld: a NUL byte",
                         (long long)l->number);
    if (fault < 0) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, l->number, "line",
                     "line %lld: expected UTF-8, got the byte 0x%02X at %lld",
                     (long long)l->number, (unsigned)(unsigned char)line[fault], (long long)fault);
}

/* The pairs of one file or two, or texts alone. */
TRF__FN trf_status trf__read_pairs(trf_dataset *d, trf__lines *l, int two, trf_error *err)
{
    const char *line[2], *tab;
    size_t n[2] = {0, 0};
    for (;;) {
        line[0] = trf__next_line(&l[0], &n[0]);
        line[1] = two ? trf__next_line(&l[1], &n[1]) : "";
        if (!line[0] || !line[1]) break;
        TRF__TRY(trf__line_fault(&l[0], line[0], n[0], err));
        if (two) TRF__TRY(trf__name_file(trf__line_fault(&l[1], line[1], n[1], err), l[1].path,
                                         err));
        else if (d->options.kind != TRF_DATA_TEXTS) {
            tab = (const char *)memchr(line[0], '\t', n[0]);
            if (!tab || memchr(tab + 1, '\t', n[0] - (size_t)(tab - line[0]) - 1))
                return trf__fail(err, TRF_E_FORMAT, l[0].number, "line",
                                 "line %lld: expected %s", (long long)l[0].number,
                                 d->options.kind == TRF_DATA_PAIRS ? "source, one tab, target"
                                 : d->options.kind == TRF_DATA_TAGGED
                                 ? "words, one tab, their labels"
                                 : "text, one tab, label");
            line[1] = tab + 1;
            n[1] = n[0] - (size_t)(tab - line[0]) - 1;
            n[0] = (size_t)(tab - line[0]);
        } else {
            line[1] = line[0];
            n[1] = n[0];
            n[0] = 0;
        }
        TRF__TRY(trf__dataset_append(d, line[0], n[0], line[1], n[1], err));
    }
    if (!two || (!line[0] && !line[1])) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, -1, "line", "line n of one file must belong to line n of "
                     "the other, but one ends after %lld line%s",
                     (long long)(line[0] ? l[1].number : l[0].number),
                     trf__plural(line[0] ? l[1].number : l[0].number));
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_dataset_read(trf_dataset *data, const char *source, const char *target,
                                    trf_error *err)
{
    const char *const paths[2] = {source, target};
    trf__texts before[2];
    trf__lines l[2];
    trf_status status = TRF_OK;
    int i, two = target != NULL;
    TRF__TRY(trf__dataset_open(data, err));
    if (!source) return trf__fail_null(err, "source");
    if (two && data->options.kind == TRF_DATA_TEXTS)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "target",
                         "texts alone come from one file: target must be NULL");
    TRF__ZERO(l);
    for (i = 0; i <= two && status == TRF_OK; i++) {
        l[i].path = paths[i];
        status = trf__read_text(paths[i], &l[i].text, &l[i].n, &data->options.hooks, err);
        status = trf__name_file(status, paths[i], err);
        l[i].bytes = l[i].n + 1;
    }
    memcpy(before, data->texts, sizeof before);
    if (status == TRF_OK) status = trf__name_file(trf__read_pairs(data, l, two, err), source, err);
    for (i = 0; i < 2 && status != TRF_OK; i++) {       /* what was added goes again */
        data->texts[i].count = before[i].count;
        data->texts[i].used = before[i].used;
    }
    for (i = 0; i < 2; i++) trf__free(&data->options.hooks, l[i].text, l[i].bytes);
    return status;
}

/* A label, within a line. */
typedef struct trf__label { const char *text; size_t n; } trf__label;

/* Where the lines are: first those to learn from, then those held out. And the labels of those to
   learn from, in the order of their bytes. */
typedef struct trf__split {
    const char **lines[2];
    char *held;
    int64_t n, train;
    trf__label *labels;
    int64_t n_labels, capacity;
} trf__split;

TRF__FN void trf__split_free(trf__split *s, const trf_hooks *hooks)
{
    trf__free(hooks, (void *)s->lines[0], trf__bytes(s->n, sizeof *s->lines[0]));
    trf__free(hooks, (void *)s->lines[1], trf__bytes(s->n, sizeof *s->lines[1]));
    trf__free(hooks, s->held, (size_t)s->n);
    trf__free(hooks, s->labels, trf__bytes(s->capacity, sizeof *s->labels));
}

#define TRF__BLANKS " \t\r\n"
enum { TRF__MOST_LABELS = 65536, TRF__LONGEST_LABEL = 1000 };

/* The next label of a line, or word: *text is moved behind it. A text has one label, in which
   blanks may stand. Returns 0 at the end. */
TRF__FN int trf__next_label(trf__label *label, const char **text, int tagged)
{
    const char *at = *text + strspn(*text, TRF__BLANKS);
    label->text = at;
    label->n = strcspn(at, tagged ? TRF__BLANKS : "");
    *text = at + label->n;
    while (label->n && strchr(TRF__BLANKS, at[label->n - 1])) label->n--;
    return label->n > 0;
}

TRF__FN int trf__by_label(const void *a, const void *b)
{
    const trf__label *x = (const trf__label *)a, *y = (const trf__label *)b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* The number of a label, or -1. */
TRF__FN int32_t trf__label_number(const trf__split *s, const trf__label *label)
{
    const trf__label *found = (const trf__label *)bsearch(label, s->labels, (size_t)s->n_labels,
                                                          sizeof *label, trf__by_label);
    return found ? (int32_t)(found - s->labels) : -1;
}

/* Sorts, and leaves one of each. */
TRF__FN void trf__labels_settle(trf__split *s)
{
    int64_t i, n = 0;
    qsort(s->labels, (size_t)s->n_labels, sizeof *s->labels, trf__by_label);
    for (i = 0; i < s->n_labels; i++)
        if (n == 0 || trf__by_label(&s->labels[n - 1], &s->labels[i]))
            s->labels[n++] = s->labels[i];
    s->n_labels = n;
}

/* Adds the labels of a line. Now and then one of each is left, so that memory does not grow with
   the lines. */
TRF__FN trf_status trf__labels_add(trf__split *s, const trf_dataset *d, const char *line,
                                   trf_error *err)
{
    trf__label label;
    while (trf__next_label(&label, &line, d->options.kind == TRF_DATA_TAGGED)) {
        if (label.n > TRF__LONGEST_LABEL) continue;
        TRF__GROW(trf__label, s->labels, s->capacity, s->n_labels + 1, &d->options.hooks);
        s->labels[s->n_labels++] = label;
    }
    if (s->n_labels > 4 * TRF__MOST_LABELS) trf__labels_settle(s);
    if (s->n_labels <= 4 * TRF__MOST_LABELS) return TRF_OK;
    return trf__fail(err, TRF_E_LIMIT, -1, "labels", "expected at most %d labels, got more",
                     (int)TRF__MOST_LABELS);
}

/* A pair that is held out though no other has one of its labels is learned from, with all pairs of
   its source. Texts stand in d, as the lines are not sorted yet. */
TRF__FN trf_status trf__labels_keep(const trf_dataset *d, trf__split *s, int64_t *count,
                                    trf_error *err)
{
    const trf__texts *texts = d->texts;
    int tagged = d->options.kind == TRF_DATA_TAGGED;
    trf__label label;
    int64_t i, k;
    for (i = 0; i < s->n; i++)
        if (!s->held[i]) TRF__TRY(trf__labels_add(s, d, texts[1].bytes + texts[1].starts[i], err));
    trf__labels_settle(s);
    for (i = 0; i < s->n; i++) {
        const char *line = texts[1].bytes + texts[1].starts[i], *rest = line;
        int found = 0;
        if (!s->held[i]) continue;
        while (trf__next_label(&label, &rest, tagged))
            if (label.n <= TRF__LONGEST_LABEL && trf__label_number(s, &label) < 0) found = 1;
        if (!found) continue;
        TRF__TRY(trf__labels_add(s, d, line, err));
        trf__labels_settle(s);
        for (k = 0; k < s->n; k++) {
            if (s->held[k] != 1 || strcmp(s->lines[0][k], s->lines[0][i])) continue;
            s->held[k] = 2;         /* its own labels count when its turn comes */
            --*count;
        }
    }
    for (i = 0; i < s->n; i++) s->held[i] = s->held[i] == 1;
    return TRF_OK;
}

TRF__FN trf_status trf__dataset_hold_out(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf__texts *lead = &d->texts[o->kind == TRF_DATA_TEXTS];
    int64_t size = o->held_out > s->n ? s->n : o->held_out, count = 0, i;
    memset(s->held, 0, (size_t)s->n);
    for (i = 0; i < s->n; i++) s->lines[0][i] = lead->bytes + lead->starts[i];
    if (size >= 0 && (size > 0 || s->n >= 20))
        TRF__TRY(trf_hold_out(s->lines[0], s->n, size, TRF_HOLD_OUT_RANDOM, s->held, &count,
                              &o->hooks, err));
    if (o->kind >= TRF_DATA_LABELLED) TRF__TRY(trf__labels_keep(d, s, &count, err));
    if (count < s->n) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "held_out",
                     "holding out %lld pair%s leaves none of %lld to learn from",
                     (long long)o->held_out, trf__plural(o->held_out), (long long)s->n);
}

TRF__FN trf_status trf__dataset_split(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int64_t i, at;
    int side, held;
    s->n = d->texts[0].count;
    if (s->n == 0) return trf__fail(err, TRF_E_STATE, -1, "data",
                                    "expected one pair or more, got none");
    for (side = 0; side < 2; side++)
        s->lines[side] = (const char **)trf__alloc(hooks, trf__bytes(s->n, sizeof *s->lines[side]));
    s->held = (char *)trf__alloc(hooks, (size_t)s->n);
    if (!s->lines[0] || !s->lines[1] || !s->held)
        return trf__fail(err, TRF_E_NOMEM, -1, "data", "no memory for %lld lines", (long long)s->n);
    TRF__TRY(trf__dataset_hold_out(d, s, err));
    for (side = 0; side < 2; side++)
        for (held = 0, at = 0; held < 2; held++) {
            for (i = 0; i < s->n; i++)
                if (s->held[i] == held)
                    s->lines[side][at++] = d->texts[side].bytes + d->texts[side].starts[i];
            if (!held) s->train = at;
        }
    return TRF_OK;
}

/* The labels of the lines to learn from, as a text of the model. */
TRF__FN trf_status trf__dataset_labels(trf_dataset *d, trf__split *s, trf_error *err)
{
    int64_t i;
    char *to;
    if (d->options.kind < TRF_DATA_LABELLED) return TRF_OK;
    s->n_labels = 0;
    for (i = 0; i < s->train; i++) TRF__TRY(trf__labels_add(s, d, s->lines[1][i], err));
    trf__labels_settle(s);
    if (s->n_labels < 2)
        return trf__fail(err, TRF_E_STATE, -1, "labels", "expected two labels or more, got %d",
                         (int)s->n_labels);
    if (s->n_labels > TRF__MOST_LABELS)
        return trf__fail(err, TRF_E_LIMIT, -1, "labels", "expected at most %d labels, got %d",
                         (int)TRF__MOST_LABELS, (int)s->n_labels);
    d->labels_bytes = 0;
    for (i = 0; i < s->n_labels; i++) d->labels_bytes += s->labels[i].n + 1;
    to = d->labels = (char *)trf__alloc(&d->options.hooks, d->labels_bytes);
    if (!to) return trf__fail(err, TRF_E_NOMEM, -1, "labels", "no memory for %d labels",
                              (int)s->n_labels);
    for (i = 0; i < s->n_labels; to += s->labels[i++].n + 1) {
        memcpy(to, s->labels[i].text, s->labels[i].n);
        to[s->labels[i].n] = i + 1 < s->n_labels ? '\n' : 0;
    }
    return TRF_OK;
}

/* A vocabulary of the lines of one side, or of both. */
TRF__FN trf_status trf__learn_vocab(trf_dataset *d, const trf__split *s, int first, int last,
                                    trf_tokens tokens, int32_t size, trf_error *err)
{
    trf_vocab **vocab = &d->vocab[first];
    int side;
    int64_t i;
    TRF__TRY(trf_vocab_create(vocab, tokens == TRF_TOKENS_CHARACTERS ? TRF_CHARACTERS : TRF_WORDS,
                              &d->options.hooks, err));
    for (side = first; side <= last; side++)
        for (i = 0; i < s->train; i++) {
            trf_status status = trf_vocab_learn(*vocab, s->lines[side][i], err);
            if (status != TRF_OK && status != TRF_E_LIMIT) return status;   /* too large: unknown */
        }
    if (size > d->options.max_vocab) size = d->options.max_vocab;
    return trf_vocab_finish(*vocab, size, d->options.min_count, err);
}

TRF__FN trf_tokens trf__tokens_of(const trf_vocab *vocab, trf_tokens otherwise)
{
    if (!vocab) return otherwise;
    return trf_vocab_kind(vocab) == TRF_WORDS ? TRF_TOKENS_WORDS
         : trf_vocab_kind(vocab) == TRF_CHARACTERS ? TRF_TOKENS_CHARACTERS : TRF_TOKENS_SUBWORDS;
}

TRF__FN void trf__put_reason(trf_recipe *r, const char *line)
{
    size_t n = strlen(r->reasons);
    if (n < sizeof r->reasons) snprintf(r->reasons + n, sizeof r->reasons - n, "%s\n", line);
}

/* Whether the kind of tokens of a side was left open. */
TRF__FN int trf__asks(const trf_dataset *d, int side)
{
    const trf_dataset_options *o = &d->options;
    return side ? !o->target_vocab && o->target_tokens == TRF_TOKENS_AUTO
                : !o->source_vocab && o->source_tokens == TRF_TOKENS_AUTO;
}

TRF__FN void trf__tokens_reason(trf_dataset *d, const trf_token_choice *choice, int side)
{
    static const char *const names[4] = {"", "words", "characters", "subwords"};
    char line[200], why[120] = "as it is given";
    if (!trf__asks(d, side)) { }
    else if (choice->unknown[side] != choice->unknown[side]) snprintf(why, sizeof why,
                                                                      "too few lines to see more");
    else snprintf(why, sizeof why, "%.1f %% of the words in a tenth of the lines are new%s",
                  choice->unknown[side],
                  choice->would_be_subwords[side]
                  ? ": subwords would do better (trf_vocab_load_sentencepiece)" : "");
    snprintf(line, sizeof line, "%s: %s, %d tokens (%s)", side ? "target" : "source",
             names[choice->tokens[side]], (int)trf_vocab_size(d->vocab[side]), why);
    trf__put_reason(&d->recipe, line);
}

/* Vocabularies: those that are given, as copies, and the others from the lines to learn from. */
TRF__FN trf_status trf__dataset_vocabs(trf_dataset *d, const trf__split *s,
                                       trf_token_choice *choice, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf_vocab *const given[2] = {o->source_vocab, o->target_vocab};
    const int first = o->kind == TRF_DATA_TEXTS, last = o->kind <= TRF_DATA_TEXTS;
    int side, one;
    memset(choice, 0, sizeof *choice);
    choice->tokens[0] = trf__tokens_of(given[0], o->source_tokens);
    choice->tokens[1] = trf__tokens_of(given[1], o->target_tokens);
    choice->vocabularies = given[0] || given[1] ? (given[0] == given[1] ? 1 : 2) : 0;
    choice->no_subwords = 1;
    TRF__TRY(trf_tokens_choose(choice, first ? NULL : s->lines[0], last ? s->lines[1] : NULL,
                               s->train, &o->hooks, err));
    one = first < last && choice->vocabularies == 1;
    for (side = first; side <= last; side++) {
        if (side && one) d->vocab[1] = d->vocab[0];
        else if (given[side]) TRF__TRY(trf_vocab_copy(&d->vocab[side], given[side], &o->hooks,
                                                      err));
        else TRF__TRY(trf__learn_vocab(d, s, side, side || one, choice->tokens[side],
                                       choice->vocab_size[side], err));
    }
    return TRF_OK;
}

TRF__FN trf_status trf__ids_add(trf__text_ids *to, const int32_t *ids, int32_t n,
                                const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(int32_t, to->ids, to->capacity, to->n + n, hooks);
    memcpy(to->ids + to->n, ids, (size_t)n * sizeof *ids);
    to->n += n;
    return TRF_OK;
}

/* The number of the label of line i; without one that is known, nothing. */
TRF__FN trf_status trf__encode_label(const trf_dataset *d, const trf__split *s, int64_t i,
                                     trf__text_ids *ids, trf_error *err)
{
    const char *line = s->lines[1][i];
    trf__label label;
    int32_t number = trf__next_label(&label, &line, 0) ? trf__label_number(s, &label) : -1;
    return number < 0 ? TRF_OK : trf__ids_add(ids, &number, 1, &d->options.hooks, err);
}

/* Words are encoded one by one, so that the first token of each is known, which has its label; the
   others have -1. Between characters stands a blank. A word of invisible characters may have no
   subword: it is one unknown token. Nothing, where words and labels differ in number, or a label is
   not known. */
TRF__FN trf_status trf__encode_tagged(const trf_dataset *d, const trf__split *s, int64_t i,
                                      trf__text_ids ids[2], trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    const char *text = s->lines[0][i], *tags = s->lines[1][i];
    int spaced = trf_vocab_kind(d->vocab[0]) == TRF_CHARACTERS, more[2];
    trf__text_ids piece;
    trf__texts word;
    trf__label x, tag;
    trf_status status = TRF_OK;
    TRF__ZERO(piece);
    TRF__ZERO(word);
    ids[0].n = ids[1].n = 0;
    for (;;) {
        int32_t number, k, blank = spaced && ids[0].n > 0;
        more[0] = trf__next_label(&x, &text, 1);
        more[1] = trf__next_label(&tag, &tags, 1);
        number = more[0] && more[1] ? trf__label_number(s, &tag) : -1;
        if (number < 0) break;
        word.used = word.count = 0;
        status = trf__texts_add(&word, x.text - blank, x.n + (size_t)blank, hooks, err);
        if (status == TRF_OK && blank) *word.bytes = ' ';
        if (status == TRF_OK) status = trf__encode_all(d->vocab[0], word.bytes, &piece, hooks, err);
        if (status == TRF_OK && piece.n == 0) piece.ids[piece.n++] = TRF__UNK;
        if (status == TRF_OK) status = trf__ids_add(&ids[0], piece.ids, piece.n, hooks, err);
        for (k = 0; k < piece.n; k++) piece.ids[k] = k == blank ? number : -1;
        if (status == TRF_OK) status = trf__ids_add(&ids[1], piece.ids, piece.n, hooks, err);
        if (status != TRF_OK) break;
    }
    if (more[0] || more[1]) ids[0].n = ids[1].n = 0;
    trf__texts_free(&word, hooks);
    trf__free(hooks, piece.ids, trf__bytes(piece.capacity, sizeof *piece.ids));
    return status;
}

/* The ids of line i, and, of texts, EOS behind them. */
TRF__FN trf_status trf__encode_line(const trf_dataset *d, const trf__split *s, int side, int64_t i,
                                    trf__text_ids *ids, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    const int32_t eos = 2;      /* as every vocabulary has it */
    ids->n = 0;
    if (!d->vocab[side]) return d->labels && side ? trf__encode_label(d, s, i, ids, err) : TRF_OK;
    TRF__TRY(trf__encode_all(d->vocab[side], s->lines[side][i], ids, hooks, err));
    if (d->options.kind != TRF_DATA_TEXTS || ids->n == 0) return TRF_OK;
    return trf__ids_add(ids, &eos, 1, hooks, err);
}

TRF__FN trf_status trf__side_add(trf__side *to, const int32_t *ids, int32_t n,
                                 const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(int32_t, to->ids, to->capacity, to->used + n, hooks);
    TRF__GROW(int32_t, to->lengths, to->lengths_capacity, to->count + 1, hooks);
    if (n) memcpy(to->ids + to->used, ids, (size_t)n * sizeof *ids);
    to->used += n;
    to->lengths[to->count++] = n;
    return TRF_OK;
}

enum { TRF__LONGEST_TEXT = 511 };       /* max_length of the presets, less BOS or EOS */

/* The sequences of line i, if it can be learned from: a pair, or the parts of a text. */
TRF__FN trf_status trf__encode_pair(trf_dataset *d, const trf__split *s, int64_t i,
                                    trf__text_ids ids[2], trf__side to[2], trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int texts = d->options.kind == TRF_DATA_TEXTS, side;
    int32_t at;
    if (d->options.kind == TRF_DATA_TAGGED) TRF__TRY(trf__encode_tagged(d, s, i, ids, err));
    else for (side = 0; side < 2; side++) TRF__TRY(trf__encode_line(d, s, side, i, &ids[side],
                                                                    err));
    if (!ids[1].n || (!texts && (!ids[0].n || ids[0].n > TRF__LONGEST_TEXT ||
                                 ids[1].n > TRF__LONGEST_TEXT))) {
        d->left_out++;
        return TRF_OK;
    }
    if (!texts) {
        for (side = 0; side < 2; side++) TRF__TRY(trf__side_add(&to[side], ids[side].ids,
                                                                ids[side].n, hooks, err));
        return TRF_OK;
    }
    for (at = 0; at < ids[1].n; at += TRF__LONGEST_TEXT) {
        int32_t n = ids[1].n - at < TRF__LONGEST_TEXT ? ids[1].n - at : TRF__LONGEST_TEXT;
        TRF__TRY(trf__side_add(&to[1], ids[1].ids + at, n, hooks, err));
    }
    return TRF_OK;
}

TRF__FN trf_status trf__encode_lines(trf_dataset *d, const trf__split *s, trf__side learn[2],
                                     trf_error *err)
{
    trf__text_ids ids[2];
    trf_status status = TRF_OK;
    int64_t i;
    int side;
    TRF__ZERO(ids);
    for (i = 0; i < s->n && status == TRF_OK; i++)
        status = trf__encode_pair(d, s, i, ids, i < s->train ? learn : d->held, err);
    for (side = 0; side < 2; side++)
        trf__free(&d->options.hooks, ids[side].ids,
                  trf__bytes(ids[side].capacity, sizeof *ids[side].ids));
    return status;
}

TRF__FN void trf__dataset_stats(trf_dataset *d, const trf__split *s, const trf__side learn[2])
{
    trf_data_stats *a = &d->stats;
    int64_t i;
    int side;
    a->kind = d->labels ? TRF_ENCODER_ONLY : d->options.kind == TRF_DATA_TEXTS ? TRF_DECODER_ONLY
            : TRF_ENCODER_DECODER;
    if (d->labels) a->head = d->options.kind == TRF_DATA_TAGGED ? TRF_HEAD_TOKENS : TRF_HEAD_MEAN;
    a->n_labels = (int32_t)s->n_labels;
    a->pairs = learn[1].count;
    a->source_tokens = learn[0].used + learn[1].count;      /* a mark each, as an empty side has */
    a->target_tokens = learn[1].used + learn[1].count;
    for (side = 0; side < 2; side++)
        for (i = 0; i < learn[side].count; i++)
            if (learn[side].lengths[i] > a->longest) a->longest = learn[side].lengths[i];
    for (i = 0; i < learn[1].used; i++) d->unknown += learn[1].ids[i] == TRF__UNK;
    a->source_vocab = d->vocab[0] ? trf_vocab_size(d->vocab[0]) : 0;
    a->target_vocab = d->vocab[1] ? trf_vocab_size(d->vocab[1]) : 0;
    a->one_vocabulary = d->vocab[0] == d->vocab[1];
    a->updates = d->options.updates;
}

TRF__FN trf_status trf__dataset_recipe(trf_dataset *d, trf_error *err)
{
    trf_recipe *r = &d->recipe;
    const trf_hooks *hooks = &d->options.hooks;
    TRF__TRY(trf_recipe_find(r, &d->stats, err));
    r->config.seed = r->training.seed = r->corpus.seed = d->options.seed;
    r->config.hooks = r->training.hooks = r->corpus.hooks = *hooks;
    if (d->options.kind == TRF_DATA_TEXTS) r->config.target_eos = 0;    /* they have their own */
    return TRF_OK;
}

/* The corpus, and the recipe once it is known how many updates a pass takes. */
TRF__FN trf_status trf__dataset_corpus(trf_dataset *d, const trf__side learn[2], trf_error *err)
{
    int64_t i, used[2] = {0, 0}, pass = 0;
    trf_batch batch;
    TRF__TRY(trf__dataset_recipe(d, err));
    TRF__TRY(trf_corpus_create(&d->corpus, &d->recipe.corpus, err));
    for (i = 0; i < learn[1].count; i++) {
        int32_t n = learn[0].count ? learn[0].lengths[i] : 0, k = learn[1].lengths[i];
        TRF__TRY(trf_corpus_add(d->corpus, learn[0].ids + (n ? used[0] : 0), n,
                                learn[1].ids + used[1], k, err));
        used[0] += n;
        used[1] += k;
    }
    for (; trf_corpus_epoch(d->corpus) == 0; pass++) TRF__TRY(trf_corpus_next(d->corpus, &batch,
                                                                              err));
    trf_corpus_rewind(d->corpus);
    d->stats.updates_per_epoch = pass;
    return trf__dataset_recipe(d, err);
}

TRF__FN void trf__dataset_reasons(trf_dataset *d, const trf_token_choice *choice)
{
    char line[200];
    int side;
    for (side = 0; side < 2; side++) if (d->vocab[side]) trf__tokens_reason(d, choice, side);
    snprintf(line, sizeof line, "data: %lld to learn from, %lld to validate on, %lld left out "
             "(empty, or longer than %d)", (long long)d->stats.pairs,
             (long long)d->held[1].count, (long long)d->left_out,
             (int)TRF__LONGEST_TEXT);
    trf__put_reason(&d->recipe, line);
}

TRF__FN void trf__dataset_hold(trf_dataset *d)
{
    trf_sequences *to[2];
    int side;
    to[0] = &d->held_out.source;
    to[1] = &d->held_out.target;
    for (side = 0; side < 2; side++) {
        to[side]->ids = d->held[side].ids;
        to[side]->lengths = d->held[side].lengths;
        to[side]->count = (int32_t)d->held[side].count;
    }
}

/* Everything that finishing makes, from where the lines are on. */
TRF__FN trf_status trf__dataset_build(trf_dataset *d, trf__split *s, trf__side learn[2],
                                      trf_error *err)
{
    trf_token_choice choice;
    TRF__TRY(trf__dataset_split(d, s, err));
    TRF__TRY(trf__dataset_labels(d, s, err));
    TRF__TRY(trf__dataset_vocabs(d, s, &choice, err));
    TRF__TRY(trf__encode_lines(d, s, learn, err));
    if (learn[1].count == 0)
        return trf__fail(err, TRF_E_STATE, -1, "data", "none of %lld pairs is left to learn from: "
                         "they are empty, or longer than %d ids", (long long)s->train,
                         (int)TRF__LONGEST_TEXT);
    trf__dataset_stats(d, s, learn);
    TRF__TRY(trf__dataset_corpus(d, learn, err));
    trf__dataset_hold(d);
    trf__dataset_reasons(d, &choice);
    d->finished = 1;
    return TRF_OK;
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_dataset_finish(trf_dataset *data, trf_error *err)
{
    trf__split split;
    trf__side learn[2];
    trf_hooks hooks;
    trf_status status;
    TRF__TRY(trf__dataset_open(data, err));
    TRF__ZERO(split);
    TRF__ZERO(learn);
    hooks = data->options.hooks;
    status = trf__dataset_build(data, &split, learn, err);
    trf__side_free(&learn[0], &hooks);
    trf__side_free(&learn[1], &hooks);
    trf__split_free(&split, &hooks);
    if (status != TRF_OK) { trf__dataset_clear(data); return status; }
    trf__texts_free(&data->texts[0], &hooks);
    trf__texts_free(&data->texts[1], &hooks);
    return TRF_OK;
}

TRF_API trf_recipe *trf_dataset_recipe(trf_dataset *d)
{
    return d && d->finished ? &d->recipe : NULL;
}

TRF_API trf_corpus *trf_dataset_corpus(trf_dataset *d)
{
    return d && d->finished ? d->corpus : NULL;
}

TRF_API const trf_batch *trf_dataset_held_out(const trf_dataset *d)
{
    return d && d->finished && d->held[1].count ? &d->held_out : NULL;
}

TRF__COLD
TRF__COLD
TRF_API trf_status trf_dataset_model(const trf_dataset *data, trf_model **model, trf_error *err)
{
    char longest[24], unknown[24];
    trf_status status;
    TRF__TRY(trf__begin(model, "model", err));
    *model = NULL;
    TRF__TRY(trf__begin(data, "data", err));
    if (!data->finished)
        return trf__fail(err, TRF_E_STATE, -1, "data",
                         "expected a finished data set, got one that is not");
    TRF__TRY(trf_model_create(model, &data->recipe.config, err));
    snprintf(longest, sizeof longest, "%d", (int)data->stats.longest);
    status = trf_model_set_vocabs(*model, data->vocab[0], data->vocab[1], err);
    snprintf(unknown, sizeof unknown, "%lld", (long long)data->unknown);
    if (status == TRF_OK) status = trf_model_set_metadata(*model, "trained.longest", longest, err);
    if (status == TRF_OK && !data->labels)
        status = trf_model_set_metadata(*model, "target.unknown", unknown, err);
    if (status == TRF_OK && data->labels) status = trf_model_set_metadata(*model, "labels",
                                                                          data->labels, err);
    if (status == TRF_OK) return TRF_OK;
    trf_model_destroy(*model);
    *model = NULL;
    return status;
}

TRF__COLD
TRF_API trf_status trf_model_label(const trf_model *model, int32_t i, char *text, size_t size,
                                   size_t *bytes, trf_error *err)
{
    const char *line;
    size_t n;
    int32_t k;
    TRF__TRY(trf__begin(model, "model", err));
    if (!text || size == 0) return trf__fail_null(err, "text");
    *text = 0;
    line = trf_model_metadata(model, "labels");
    for (k = 0; line && k < i; k++) {
        line = strchr(line, '\n');
        if (line) line++;
    }
    if (!line || i < 0) return trf__fail(err, TRF_E_STATE, i, "labels",
                                         "the model has no such label");
    n = strcspn(line, "\n");
    if (bytes) *bytes = n;
    if (n > size - 1) n = size - 1;
    memcpy(text, line, n);
    text[n] = 0;
    return TRF_OK;
}

#endif

#endif /* TRF_IMPLEMENTATION */
#endif /* implementation or column */

// MIT License
//
// Copyright (c) 2026 the transformer.h authors
//
// Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
// documentation files (the "Software"), to deal in the Software without restriction, including without limitation
// the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and
// to permit persons to whom the Software is furnished to do so, subject to the following conditions:
//
// The above copyright notice and this permission notice shall be included in all copies or substantial portions
// of the Software.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO
// THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
// AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
// CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS
// IN THE SOFTWARE.

// transformer.h - train and run transformers in C: one file, no framework
//
// SPDX-License-Identifier: MIT
// Copyright (c) 2026 the transformer.h authors; the full licence is at the end of the file
//
// This file is joined from the files in tools/header of the project. If you edit this file,
// `make parts` in the project's folder copies your change to them.
//
// The library trains and runs translators, language models and classifiers. It follows Vaswani et
// al. 2017, "Attention is all you need", called "the paper" below. There are three kinds of model:
//   - encoder-decoder   turns one sequence into another: translates, transliterates, normalises,
//                       writes down a pronunciation, turns a command into actions
//   - encoder-only      classifies texts, labels words, fills in masked tokens
//   - decoder-only      continues a text
//
// It contains tensors, multi-head attention, feed-forward, layer norm, positions, encoder and
// decoder stacks, backpropagation, Adam, warm-up, label smoothing, greedy and beam search,
// sampling, model files and checkpoints.
//
// DO THIS
//   In exactly one source file:     #define TRF_IMPLEMENTATION
//                                   #include "transformer.h"
//   In every other one only:        #include "transformer.h"
//
//   With OpenBLAS                   cc -O2 app.c -lopenblas -lm
//   Without OpenBLAS                cc -O2 -DTRF_NO_CBLAS app.c -lm
//   As C++                          c++ -O2 app.cc -lopenblas -lm
//   For CPU and GPU. cuda.c has two lines: `#define TRF_COLUMN cuda`, `#include "transformer.h"`
//    nvcc -O2 -arch=sm_90 -x cu -c cuda.c
//    cc -O2 -DTRF_WITH_CUDA app.c cuda.o -lopenblas -lcublasLt -lcudart -lstdc++ -lm
//   For CPU and GPU, everything in one file
//    nvcc -O2 -x cu -arch=sm_90 -DTRF_CUDA app.c -lopenblas -lcublasLt -lm
//
//   - On x86-64 a program has kernels for SSE2, AVX2 and AVX-512 (with VNNI, bf16 and AMX). It
//     uses the widest that the CPU has. With -march=native the program has kernels for this CPU
//     alone, and compiles faster. With -Os and on Windows it has those of the compiler's flags. On
//     ARM64 it uses sdot, smmla and bfmmla where the CPU has them.
//   - All of these programs compute on several threads. With glibc before 2.34 add -pthread.
//   - If the linker does not find the CUDA libraries, add -L/usr/local/cuda/lib64.
//   - With GCC, -std=c99 and the other strict modes turn fused multiply-add off. That makes the
//     program slower and changes the last bits of its results. Use -std=gnu99, or add
//     -ffp-contract=fast.
//   - -ffast-math and -Ofast are rejected at compile time: such code cannot detect a NaN.
//   - Builds that compute floats in a wider type are rejected too. For 32-bit x86 add
//     -msse2 -mfpmath=sse.
//
// A COMPLETE PROGRAM (examples/dates.c). The manual names more.
//
//     #define TRF_IMPLEMENTATION
//     #include "transformer.h"
//     #include <stdio.h>
//
//     static void say(void *user, const char *line) { (void)user; puts(line); }
//
//     int main(void)
//     {
//         static const char *const months[] = {"January", "February", "March", "April", "May",
//             "June", "July", "August", "September", "October", "November", "December"};
//         trf_error err; trf_dataset *data = NULL; trf_model *model = NULL;
//         trf_translator *translator = NULL;
//         trf_dataset_options options = trf_dataset_defaults();
//         char source[64], target[64];
//         int i, failed;
//
//         options.say = say;
//         failed = trf_dataset_create(&data, &options, &err);
//         for (i = 0; i < 6720 && !failed; i++) {
//             int day = 1 + i % 28, month = i / 28 % 12, year = 1990 + i / 336;
//             if (i % 100 == 77) continue;            /* 14 July 2001 and 66 others: never seen */
//             snprintf(source, sizeof source, "%d %s %d", day, months[month], year);
//             snprintf(target, sizeof target, "%d-%02d-%02d", year, month + 1, day);
//             failed = trf_dataset_add(data, source, target, &err);
//         }
//         failed = failed || trf_dataset_train(data, &model, NULL, &err) ||
//                  trf_model_save(model, "dates.safetensors", NULL, &err) ||
//                  trf_translator_create(&translator, model, NULL, &err) ||
//                  trf_translate_text(translator, "14 July 2001", target, sizeof target, &err);
//         if (failed) fprintf(stderr, "%s\n", err.message);
//         else printf("14 July 2001 -> %s\n", target);
//         trf_translator_destroy(translator); trf_model_destroy(model); trf_dataset_destroy(data);
//         return failed;
//     }
//
// OPTIONS, defined before the include
//   TRF_IMPLEMENTATION    this source file contains the implementation
//   TRF_NO_CBLAS          use the built-in matrix product for everything; the program then needs no
//                         library but libm. Defined automatically if there is no <cblas.h> and no
//                         TRF_CBLAS_HEADER
//   TRF_CBLAS_HEADER      a header to use instead of <cblas.h>, such as
//                         <Accelerate/Accelerate.h> or <mkl_cblas.h>
//   TRF_DOUBLE            all tensors are double, for checking gradients
//   TRF_NO_TRAIN          leaves out training: trainers, updaters, checkpoints, backward of the
//                         blocks, and all of >>api-learn
//   TRF_SCALAR            plain C without vector types; the default if the compiler has none
//   TRF_NO_AMX            never uses the tiles of AMX. Otherwise, on Linux, the library asks the
//                         system for the tiles when weights of 8 or 16 bits or TRF_PRODUCTS_BF16X3
//                         are used. From then on, an alternate signal stack needs 11 KB
//   TRF_COLUMN name       this source file compiles to a column: only the ops (the arithmetic of
//                         the layers), for one device or instruction set. Link it with the
//                         implementation. name is cuda, avx2 or avx512; for the last two, the
//                         compiler flags must select that instruction set
//   TRF_WITH_AVX2         column avx2 is linked in; such a program compiles no other kernels but
//                         those of its flags
//   TRF_WITH_AVX512       the same for column avx512
//   TRF_ONE_LEVEL         kernels for the compiler's flags alone
//   TRF_THIS_FILE         the name of this file, in quotes, if you have given it another one
//   TRF_WITH_CUDA         column cuda is linked in: config.device.kind may be TRF_DEVICE_CUDA
//   TRF_CUDA              nvcc compiles this file, which then contains the CUDA backend
//   TRF_NO_THREADS        objects compute on the calling thread; no thread is ever started
//   TRF_STATIC            every function is static
//   TRF_API               declares a public function; default extern. For a shared library with
//                         -fvisibility=hidden: extern __attribute__((visibility("default")))
//   TRF_NO_SLOW_WARNING   suppresses the compiler message that appears if GCC or Clang compile
//                         this file without -O; such a program is many times slower
//   TRF_OS_HEADER         a header with your own trf_os_... file functions (see >>system)
//
// DOES NOT
//   - learn subwords: it reads those of SentencePiece, WordPiece and byte-level BPE. `trf`, built
//     with libsentencepiece, learns them
//   - send data to other machines: to train in several processes (ranks), write the function
//     trf_train_options.all_reduce, which sums gradients, for example with MPI (examples/ranks.c);
//     to divide a model by its layers, pass rows of numbers on (>>api-stages)
//   - differentiate computations of your own: each block (>>api-blocks) comes with its backward
//   - train an encoder-only model without a head (trf_head: labels of sequences or tokens, masks)
//
// CONTENTS: search for a mark to go there
//   >>manual           where to start, words, errors, threads, GPUs, more programs
//   >>api-basics       numbers, status, errors, hooks, tensors
//   >>api-config       what a model is, and the conventions in which systems differ
//   >>api-vocab        text to ids and back
//   >>api-model        a configuration and its weights
//   >>api-batch        sequences without padding
//   >>api-token-files  training data larger than memory
//   >>api-files        safetensors, and how a model is written in it
//   >>api-train        gradients, Adam, schedules, checkpoints
//   >>api-stages       a model split by layers over several processes or devices
//   >>api-read         labels, vectors, scores, logits, states, attention; several models as one
//   >>api-translate    from ids to ids, from text to text
//   >>api-sampling     sampling, token by token
//   >>api-learn        from texts to a trained model: a data set, the recipe, automatic training
//   >>api-blocks       the parts alone, for other architectures
//   -- stop here if you only want to use the library --
//   (to learn how a transformer works read ops, cpu, pass and train; then beam and translate)
//   >>impl             includes, compiler differences
//   >>base             errors, memory, small arithmetic
//       >>memory >>numbers
//   >>levels           the kernels of several processors in one compile
//   >>vector           sixteen lanes on every machine
//       >>lane-moves >>lane-functions
//   >>ops              the contract between the model and the hardware
//       >>layer-jobs >>loss-jobs >>search-jobs >>op-table
//   >>shared           what the CPU and a GPU compute by the same text
//       >>shared-loss
//   >>phrases          what an answer has of the texts that it must contain
//   >>beam             beam search over one sentence, driven from outside
//       >>beam-groups >>beam-answers >>beam-step >>beam-results >>rules >>next-rows
//   >>cblas            the one call of CBLAS, and what can be asked of OpenBLAS
//   >>threads          the threads of an object that computes
//       >>tiles >>thread-build >>os-threads >>team >>team-open
//   >>cpu              the backend that every machine has: the ops in the paper's order
//       >>gemm >>gemm-kernels >>panels >>formats >>amx >>arm >>int8 >>int8-vnni >>int8-products
//       >>int8-panels >>bf16 >>bf16-pairs >>bf16-kernels >>bf16-products >>bf16x3 >>format-table
//       >>product-tiles >>verbs >>dropout >>embed >>linear >>activate >>rotary >>attention
//       >>attention-rows >>attention-tile >>attention-gradient >>add_norm >>pool >>cross_entropy
//       >>number-loss >>divergence >>clip >>accumulate >>average >>adam >>top >>top-merge >>mix
//       >>backpointers >>reorder >>draw >>draw-filters >>state
//   >>column           this file's ops as a table
//   >>cuda             the backend for NVIDIA's GPUs: the ops in the CPU's order
//       >>launches >>products >>cuda-verbs >>cuda-recording >>cuda-dropout >>cuda-embed
//       >>cuda-linear >>cuda-activate >>cuda-rotary >>cuda-attention >>cuda-mma >>mma-attention
//       >>cuda-attention-gradient >>cuda-mma-gradient >>mma-long-gradient >>cuda-norm >>cuda-pool
//       >>cuda-loss >>cuda-pairs >>cuda-adam >>cuda-top >>cuda-mix >>cuda-reorder >>cuda-state
//   >>backend          which table computes; OpenBLAS
//       >>openblas >>runs
//   >>basics           names and tensors
//   >>text             UTF-8, numbers as text
//       >>crc
//   >>system           the operating system: files
//       >>regular-files >>safe-saving
//   >>json             reading JSON in place
//   >>vocab            words and characters as numbers
//       >>vocab-tokens >>vocab-learn >>subwords
//   >>pieces           SentencePiece models: raw text to subwords and back
//       >>pieces-map >>pieces-file >>pieces-index >>pieces-normal >>pieces-cut >>bpe >>pieces-text
//   >>wordpiece        BERT's subwords: raw text to WordPiece tokens and back
//       >>wordpiece-file >>wordpiece-cut >>wordpiece-text
//   >>byte-bpe         byte-level BPE, the subwords of GPT-2: raw text to tokens and back
//       >>byte-bpe-file >>byte-bpe-tables >>byte-bpe-merges >>byte-bpe-normal >>byte-bpe-cut
//       >>byte-bpe-special >>byte-bpe-text
//   >>vocab-use        tokens, ids and texts: what serves vocabularies of every kind
//       >>vocab-bytes
//   >>checks           what a configuration implies; ids and lengths of sequences
//   >>config           presets and checks
//       >>config-checks
//   >>padded           parts of a batch, joined pairs, padded arrays
//   >>params           which weights a model has: names, shapes, first values, places
//       >>layout >>layout-layers >>layout-whole >>first-values
//   >>model            configuration + weights + vocabularies
//       >>model-counts >>model-create >>model-texts >>model-copies
//   >>pass             one batch through the model: what is stored, forward, backward
//       >>sublayers >>sublayer-gradients >>stacks >>acts >>act-lists >>alike >>pass-open
//       >>pass-grow >>pass-pack >>packed-models >>rows >>row-lists >>row-batch >>forward
//       >>forward-sublayer >>forward-head >>projection >>backward >>backward-stack
//   >>train            Adam, schedules (paper 5.3, 5.4)
//       >>trainer >>trainer-memory >>trainer-create >>trainer-state >>teachers >>reduce >>step
//       >>step-batch >>stage-sums >>update >>stages >>stage-seams >>stage-calls >>updater
//   >>token-files      pairs of ids in a file, for a corpus larger than memory
//       >>token-reading >>token-index >>token-resuming >>token-writing >>token-adding
//   >>corpus           training pairs in batches, and the position among them
//       >>corpus-order >>corpus-place >>corpus-calls >>corpus-open >>corpus-next
//   >>noise            batches for self-supervised training: masks, spans, prefixes
//       >>noise-batches
//   >>ensemble         several models, one decoder's list of rows
//       >>ensemble-pass
//   >>reader           the passes of models that answer as one, and memory for what they give
//       >>scores >>labels-read >>read >>read-pass >>read-from >>rank
//   >>search           the options of a search, and the rules of other systems
//       >>search-fits >>languages
//   >>translate        encode once, then one token a step for all live hypotheses
//       >>search-rules >>required >>writing >>phrase-copies >>requirements >>require-call
//       >>hypotheses >>translators >>decode >>rounds >>round-steps >>search-calls >>doubts
//       >>search-rounds >>answers
//   >>sampling         one token at a time, drawn on the host
//       >>draw-rules >>new-text >>window >>sampler >>sampler-begin
//   >>files            the safetensors container
//       >>file-header >>file-extents >>file-open >>file-convert >>file-read >>file-write
//       >>file-save >>file-calls
//   >>store            models and checkpoints as safetensors
//       >>store-match >>store-notes >>stripes >>stripes-read >>store-packed >>store-read
//       >>store-texts >>store-write >>checkpoint >>checkpoint-load >>session >>session-read
//   >>learn            from texts to a trained model
//   >>recipe           statistics of data in, options out
//       >>recipe-training
//   >>choose           words, characters or subwords; which pairs are held out
//       >>token-kinds >>picking
//   >>judge            the mean of the weights, validation, and what is best
//       >>early-stopping >>validate >>error-rate
//   >>by-itself        trf_trainer_learn: updates until one of the ends
//       >>agree >>learn-validate >>learn-update >>learn-fit >>learn-loop
//   >>dataset          texts, and all that follows from them
//       >>dataset-store >>dataset-texts >>labels >>dataset-ids >>dataset-labels >>dataset-give
//       >>dataset-add >>dataset-read >>hold-out >>dataset-lines >>dataset-finish >>dataset-given
//   >>blocks           the ops as public functions on the caller's tensors
//       >>blocks-embedding >>blocks-linear >>blocks-norm >>blocks-shape >>blocks-attention
//       >>blocks-rotary >>blocks-multi-head >>blocks-feed-forward >>blocks-residual
//       >>blocks-cross-entropy
//
// NOTATION
//   d       d_model, the width of a token's vector
//   f       d_ff, the inner width of feed-forward
//   h       n_heads [paper: h]; d_head = d / h [paper: d_k]
//   V       size of a vocabulary, the special ids included
//   rows    the tokens of all sequences of a batch, one after another; there is no padding anywhere
//   (n, d)  the shape of a row-major matrix: the last index runs fastest. Weights are (out, in), so
//           y = x w^T + b
//   dx      gradient of the loss with respect to x. Gradients of activations are set (=), gradients
//           of parameters are added to (+=)
//   a..b    all values from a to b, both included

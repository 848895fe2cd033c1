#include "manual/first_page.h"
#include "manual/manual.h"

#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include "api/version.h"

#if defined(__cplusplus)
extern "C" {
#endif

#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/files.h"
#include "api/train.h"
#include "api/stages.h"
#include "api/read.h"
#include "api/translate.h"
#include "api/sampling.h"

#if !defined(TRF_NO_TRAIN)
#include "api/learn.h"

#endif

#include "api/blocks.h"

#if defined(__cplusplus)
}
#endif

#endif /* TRANSFORMER_H */

// ===============================================================================================
//  Stop here if you only want to use the library. What follows is how it works.
// ===============================================================================================

#if (defined(TRF_IMPLEMENTATION) || defined(TRF_COLUMN)) && !defined(TRF__IMPLEMENTED)
#define TRF__IMPLEMENTED
#define TRF__ONCE 1             /* the chapters that are not read again for each level */
#endif

#if defined(TRF__ONCE)

#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/levels.h"

#endif

#if defined(TRF__ONCE) || defined(TRF__LEVEL)

#include "base/width.h"

#endif

#if defined(TRF__ONCE) || TRF__LEVEL

#include "base/vector.h"

#endif

#if defined(TRF__ONCE)

#include "ops/ops.h"
#include "ops/shared.h"
#include "ops/phrases.h"
#include "ops/beam.h"
#include "ops/beam_step.h"
#include "ops/rules.h"

#if !TRF__CUDA || defined(TRF_IMPLEMENTATION)      /* a column `cuda` has none of these */
#include "cpu/cblas.h"
#include "cpu/threads.h"

#endif

#endif

#if (defined(TRF__ONCE) || TRF__LEVEL) && (!TRF__CUDA || defined(TRF_IMPLEMENTATION))

#include "cpu/gemm.h"
#include "cpu/amx.h"
#include "cpu/arm.h"
#include "cpu/int8.h"
#include "cpu/bf16.h"
#include "cpu/bf16x3.h"
#include "cpu/products.h"
#include "cpu/verbs.h"
#include "cpu/embed.h"
#include "cpu/linear.h"
#include "cpu/attention.h"
#include "cpu/norm.h"
#include "cpu/loss.h"
#include "cpu/adam.h"
#include "cpu/search.h"
#include "cpu/draw.h"
#include "cpu/state.h"

#endif

#if defined(TRF__ONCE)

#include "cpu/levels.h"

#include "cuda/launches.h"
#include "cuda/products.h"
#include "cuda/layers.h"
#include "cuda/attention.h"
#include "cuda/attention_gradient.h"
#include "cuda/norm.h"
#include "cuda/loss.h"
#include "cuda/search.h"
#include "cuda/state.h"

#if defined(TRF_IMPLEMENTATION)                    /* a column ends here */

TRF__FOR_SIZE

#include "device/backend.h"
#include "device/tensors.h"

TRF__FOR_SPEED

#include "system/text.h"
#include "system/files.h"
#include "system/json.h"

#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/pieces.h"
#include "text/pieces_file.h"
#include "text/pieces_cut.h"
#include "text/bpe.h"
#include "text/pieces_text.h"
#include "text/wordpiece.h"
#include "text/byte_bpe.h"
#include "text/byte_bpe_text.h"
#include "text/vocab_use.h"

TRF__FOR_SIZE

#include "model/checks.h"
#include "model/config.h"
#include "model/batches.h"
#include "model/params.h"
#include "model/model.h"
#include "model/texts.h"
#include "model/copies.h"

#include "pass/sublayers.h"
#include "pass/stacks.h"
#include "pass/alike.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "pass/backward.h"

#include "train/options.h"

#if !defined(TRF_NO_TRAIN)

#include "train/trainer.h"
#include "train/teachers.h"
#include "train/step.h"
#include "train/stages.h"
#include "train/updater.h"

#endif

TRF__FOR_SPEED

#include "data/token_files.h"
#include "data/token_writing.h"
#include "data/corpus.h"
#include "data/corpus_calls.h"
#include "data/noise.h"

TRF__FOR_SIZE

#include "read/ensemble.h"
#include "read/reader.h"
#include "read/labels.h"
#include "read/read.h"

TRF__FOR_SPEED

#include "read/rank.h"

TRF__FOR_SIZE

#include "search/options.h"
#include "search/languages.h"
#include "search/translator.h"

TRF__FOR_SPEED

#include "search/required.h"
#include "search/hypotheses.h"

TRF__FOR_SIZE

#include "search/rounds.h"
#include "search/calls.h"
#include "search/sampling.h"
#include "search/sampler.h"

#include "files/container.h"

TRF__FOR_SPEED

#include "files/reading.h"
#include "files/writing.h"

TRF__FOR_SIZE

#include "files/store.h"

TRF__FOR_SPEED

#include "files/stripes.h"

TRF__FOR_SIZE

#include "files/store_packed.h"
#include "files/store_read.h"
#include "files/store_write.h"
#include "files/checkpoint.h"
#include "files/session.h"

TRF__FOR_SPEED

#if !defined(TRF_NO_TRAIN)

#include "learn/recipe.h"
#include "learn/choose.h"
#include "learn/judge.h"
#include "learn/learn.h"
#include "learn/dataset.h"
#include "learn/dataset_ids.h"
#include "learn/dataset_read.h"

TRF__FOR_SIZE

#include "learn/dataset_finish.h"

TRF__FOR_SPEED

#endif

TRF__FOR_SIZE

#include "blocks/blocks.h"
#include "blocks/attention.h"
#include "blocks/feed_forward.h"

TRF__FOR_SPEED

#endif /* TRF_IMPLEMENTATION */

#if defined(__CUDACC__)
#pragma nv_diag_default 1675
#endif
#undef TRF__ONCE
#endif /* implementation or column */

// MIT License
//
// Copyright (c) 2026 the transformer.h authors
//
// Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
// associated documentation files (the "Software"), to deal in the Software without restriction,
// including without limitation the rights to use, copy, modify, merge, publish, distribute,
// sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
// furnished to do so, subject to the following conditions:
//
// The above copyright notice and this permission notice shall be included in all copies or
// substantial portions of the Software.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
// NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
// NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
// DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
// OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

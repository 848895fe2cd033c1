// trf: what the files of the options share, in this order:
//
//   command_line.c    parsing, --help
//   values.c          values as texts, and which options are given
//   options.c         the table; its parts about models and searches are in options_model.h and
//                     options_search.h
//   foreign.c         what other programs call them
//   settings.c        defaults; what options do besides
// SPDX-License-Identifier: MIT

#ifndef TRF_OPTIONS_H
#define TRF_OPTIONS_H

#include "base.h"

/* The commands that write a model from others. */
#define WRITES (AVERAGE | QUANTIZE | IMPORT)

/* Values of options that are choices (options.c). */
#define NO_YES "no|yes"
#define POSITIONS "interleaved|halves-n1|halves|learned|none|relative|alibi|rotary"
#define EMBEDDING_INITS "normal-d|normal-1|xavier|fan-out"
#define SMOOTHINGS "uniform|others|others-kl|no-pad-kl"
#define TOKENS "auto|words|characters|sentencepiece:unigram|sentencepiece:bpe|sentencepiece"
#define METRICS "auto|loss|bleu|chrf|exact|wer|cer|accuracy|f1|pearson|spearman"
#define OBJECTIVES "translate|causal|classify|tag|mask|span|pretrain"
#define RULES "paper|fairseq|ctranslate2|marian|raw|hugging-face"

#define SHAPES \
    "none|paper-base|paper-big|gpt2|gpt2-medium|gpt2-large|gpt2-xl|bert-base|bert-large|" \
    "t5-small|t5-base|t5-large|llama-2-7b|opus-mt"

/* settings.c */
void then_seed(struct settings *s);
void then_weights(struct settings *s);
void then_size(struct settings *s);
void then_conventions(struct settings *s);
void then_recipe(struct settings *s);
void then_tokens(struct settings *s);
void then_vocab_size(struct settings *s);
void then_sentencepiece(struct settings *s);
void then_dropout(struct settings *s);
void then_rule(struct settings *s);
void then_ensemble(struct settings *s);
void then_device(struct settings *s);

/* foreign.c: what an option of another program is called here, or NULL */
const char *ours_for(int command, const char *theirs);

/* values.c: where in the settings the second and later values of an option go, a struct texts; 0: it
   is given once */
size_t offset_of_more(const struct row *row);


#endif

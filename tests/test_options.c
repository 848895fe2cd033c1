/* build: O1 */
/* The options of trf: the table of tools/trf/base/options.c beside one that names every field and every
   choice again. An option writes its own field and no other byte, is shown as it is typed, refuses
   what makes no sense, and does besides what its help says; no row of the table can be forgotten
   here. */
#if !defined(TRF_NO_CBLAS)
#define TRF_NO_CBLAS            /* trf's would be loaded, by a file that is not linked here */
#endif
#define TRF_IMPLEMENTATION
#include "../tools/trf/base/settings.c"
#include "../tools/trf/base/options.c"
#include "../tools/trf/base/values.c"
#include "../tools/trf/base/foreign.c"
#include "../tools/trf/base/command_line.c"
#include "../tools/trf/base/commands.c"
#include "../tools/metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* What these files use of text.c. Messages are counted, and the last one is kept. */
const char *program = "trf";
static char said[4096];
static int messages;

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    messages++;
}

char *format_text(const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    assert_true(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    return text;
}

void print_json_text(FILE *file, const char *text, size_t bytes)
{
    fprintf(file, "\"%.*s\"", (int)bytes, text);
}

void log_warning(void *user, int level, const char *message)
{
    (void)user;
    (void)level;
    say("%s", message);
}

/* -----------------------------------------------------------------------------------------------
   The table again: a command that has the option, its kind, its name, its field, and for choices
   what each means. */

enum {
    MOST_CHOICES = 16,
    FIRST_COMMAND = TRAIN,
    LAST_COMMAND = RERANK,
    COMMANDS = (2 * LAST_COMMAND - 1) & ~FROM_DATA,
    PATTERN = 0xA5
};

struct choice { const char *text; int32_t number; };

struct tested {
    int command;
    enum kind kind;
    const char *name, *field;
    size_t offset, bytes;
    struct choice choices[MOST_CHOICES + 1];
};

#define TYPE_TEXT        const char *
#define TYPE_TEXTS       struct texts
#define TYPE_FLAG        int32_t
#define TYPE_MAYBE       int32_t
#define TYPE_SWITCH      int32_t
#define TYPE_NUMBER      int32_t
#define TYPE_COUNT       int32_t
#define TYPE_LONG_NUMBER int64_t
#define TYPE_LONG_COUNT  int64_t
#define TYPE_SEED        uint64_t
#define TYPE_DEVICE      trf_device
#define TYPE_REAL        double

static struct settings got, wanted; /* what an option makes of the settings, and what it should */

/* Compiles only if the field has that type: pointers to different types have no difference. */
#define PLACE(field, type) \
#field, offsetof(struct settings, field) + 0 * sizeof(&got.field - (type *)(void *)&got), \
        sizeof(type)
#define OPTION(command, kind, name, field) \
    { \
        command, kind, name, PLACE(field, TYPE_##kind), \
        { \
            { \
                NULL, 0 \
            } \
        } \
    }
#define OF(command, name, field, type, ...) \
    { \
        command, CHOICE, name, PLACE(field, type), { __VA_ARGS__ } \
    }

#define EVERY_TOKENS \
    {"auto", TOKENS_AUTO}, {"words", TOKENS_WORDS}, {"characters", TOKENS_CHARACTERS}, \
        {"sentencepiece:unigram", TOKENS_UNIGRAM}, {"sentencepiece:bpe", TOKENS_BPE}, \
    { \
        "sentencepiece", TOKENS_SENTENCEPIECE \
    }

static const struct tested table[] = {
    OF(TRAIN, "objective", objective, int32_t, {"translate", OBJECTIVE_TRANSLATE},
       {"causal", OBJECTIVE_CAUSAL}, {"classify", OBJECTIVE_CLASSIFY}, {"tag", OBJECTIVE_TAG},
       {"mask", OBJECTIVE_MASK}, {"span", OBJECTIVE_SPAN}, {"pretrain", OBJECTIVE_PRETRAIN}),
    OF(PREPARE, "objective", objective, int32_t, {"translate", OBJECTIVE_TRANSLATE},
       {"causal", OBJECTIVE_CAUSAL}, {"classify", OBJECTIVE_CLASSIFY}, {"tag", OBJECTIVE_TAG},
       {"mask", OBJECTIVE_MASK}, {"span", OBJECTIVE_SPAN}, {"pretrain", OBJECTIVE_PRETRAIN}),
    OPTION(TRAIN, TEXT, "token-file", train.token_file),
    OPTION(CLASSIFY, FLAG, "truncate", answer.truncate),
    OPTION(TAG, FLAG, "split", answer.split),
    OPTION(SCORE, FLAG, "split", answer.split),
    OPTION(TRAIN, TEXT, "source", source),
    OPTION(TRAIN, TEXT, "target", target),
    OPTION(TRAIN, TEXT, "tsv", tsv),
    OPTION(SCORE, TEXT, "tsv", tsv),
    OPTION(TRAIN, TEXT, "next-sentences", train.next_sentences),
    OPTION(TRAIN, TEXT, "columns", columns),
    OPTION(SCORE, TEXT, "columns", columns),
    OPTION(TRAIN, TEXT, "text", train.text),
    OF(TRAIN, "documents", train.documents, int32_t, {"lines", DOCUMENTS_LINES},
       {"file", DOCUMENTS_FILE}),
    OF(SCORE, "documents", train.documents, int32_t, {"lines", DOCUMENTS_LINES},
       {"file", DOCUMENTS_FILE}),
    OPTION(TRAIN, FLAG, "pack", train.pack),
    OPTION(TRAIN, COUNT, "chunk", train.chunk),
    OPTION(TRAIN, TEXT, "valid-source", train.valid_source),
    OPTION(TRAIN, TEXT, "valid-target", train.valid_target),
    OPTION(TRAIN, TEXT, "valid-tsv", train.valid_tsv),
    OPTION(TRAIN, TEXT, "valid-text", train.valid_text),
    OPTION(DOCTOR, TEXT, "test-source", train.test_source),
    OPTION(DOCTOR, TEXT, "test-target", train.test_target),
    OPTION(DOCTOR, TEXT, "test-tsv", train.test_tsv),
    OPTION(DOCTOR, TEXT, "test-text", train.test_text),
    OPTION(TRAIN, LONG_NUMBER, "valid-size", train.valid_size),
    OPTION(TRAIN, LONG_COUNT, "max-line-bytes", max_line_bytes),
    OPTION(TRAIN, FLAG, "strict", train.strict),
    OPTION(TRAIN, FLAG, "allow-left-out", train.allow_left_out),
    OPTION(TRAIN, FLAG, "keep-empty", train.keep_empty),
    OPTION(TRANSLATE, TEXT, "input", input),
    OPTION(TRANSLATE, TEXT, "prefixes", answer.prefixes),
    OPTION(TRANSLATE, TEXT, "output", output),
    OPTION(TRAIN, TEXT, "model", model),
    OPTION(TRANSLATE, TEXT, "model", model),

    OF(TRAIN, "tokens", train.tokens, int32_t, EVERY_TOKENS),
    OF(TRAIN, "source-tokens", train.source_tokens, int32_t, EVERY_TOKENS),
    OF(TRAIN, "target-tokens", train.target_tokens, int32_t, EVERY_TOKENS),
    OPTION(TRAIN, TEXT, "sentencepiece", train.sentencepiece),
    OPTION(TRAIN, TEXT, "source-sentencepiece", train.source_sentencepiece),
    OPTION(TRAIN, TEXT, "target-sentencepiece", train.target_sentencepiece),
    OPTION(TRAIN, NUMBER, "vocab-size", train.vocab_size),
    OPTION(TRAIN, NUMBER, "source-vocab-size", train.source_vocab_size),
    OPTION(TRAIN, NUMBER, "target-vocab-size", train.target_vocab_size),
    OPTION(TRAIN, LONG_COUNT, "min-count", train.min_count),
    OF(TRAIN, "normalization", train.normalization, int32_t, {"auto", NORMALIZE_AUTO},
       {"identity", NORMALIZE_IDENTITY}, {"nfc", NORMALIZE_NFC}, {"nfkc", NORMALIZE_NFKC}),
    OPTION(TRAIN, COUNT, "subword-samples", train.subword_samples),
    OPTION(TRAIN, REAL, "subword-alpha", train.subword_alpha),
    OPTION(TRAIN, SWITCH, "joint-vocabulary", train.joint_vocabulary),

    OF(TRAIN, "recipe", train.recipe, int32_t, {"auto", RECIPE_AUTO}, {"paper", RECIPE_PAPER}),
    OF(TRAIN, "effort", train.effort, int32_t, {"normal", TRF_EFFORT_NORMAL}, {"quick", TRF_EFFORT_QUICK},
       {"best", TRF_EFFORT_BEST}),
    OF(TRAIN, "size", train.size, int32_t, {"auto", SIZE_AUTO}, {"tiny", SIZE_TINY},
       {"small", SIZE_SMALL}, {"base", SIZE_BASE}, {"big", SIZE_BIG}),
    OF(TRAIN, "conventions", train.conventions, int32_t, {"pytorch", TRF_CONVENTIONS_PYTORCH},
       {"paper", TRF_CONVENTIONS_PAPER}),
    OPTION(TRAIN, SEED, "seed", seed),

    OPTION(TRAIN, COUNT, "d-model", config.d_model),
    OPTION(TRAIN, COUNT, "n-heads", config.n_heads),
    OPTION(TRAIN, NUMBER, "kv-heads", config.kv_heads),
    OPTION(TRAIN, NUMBER, "d-head", config.d_head),
    OPTION(TRAIN, REAL, "attention-scale", config.attention_scale),
    OPTION(TRAIN, COUNT, "d-ff", config.d_ff),
    OPTION(TRAIN, NUMBER, "encoder-layers", config.encoder_layers),
    OPTION(TRAIN, NUMBER, "decoder-layers", config.decoder_layers),
    OPTION(TRAIN, COUNT, "max-length", config.max_length),
    OF(TRAIN, "activation", config.activation, trf_activation, {"relu", TRF_RELU},
       {"gelu", TRF_GELU}, {"silu", TRF_SILU}, {"gelu-tanh", TRF_GELU_TANH}),
    OPTION(TRAIN, SWITCH, "feed-forward-gate", config.feed_forward_gate),
    OF(TRAIN, "positions", config.positions, trf_positions,
       {"interleaved", TRF_POSITIONS_INTERLEAVED}, {"halves-n1", TRF_POSITIONS_HALVES_N1},
       {"halves", TRF_POSITIONS_HALVES}, {"learned", TRF_POSITIONS_LEARNED},
       {"none", TRF_POSITIONS_NONE}, {"relative", TRF_POSITIONS_RELATIVE},
       {"alibi", TRF_POSITIONS_ALIBI}, {"rotary", TRF_POSITIONS_ROTARY}),
    OPTION(TRAIN, NUMBER, "position-offset", config.position_offset),
    OPTION(TRAIN, COUNT, "relative-buckets", config.relative_buckets),
    OPTION(TRAIN, COUNT, "relative-distance", config.relative_distance),
    OPTION(TRAIN, REAL, "rotary-base", config.rotary_base),
    OPTION(TRAIN, NUMBER, "rotary-width", config.rotary_width),
    OPTION(TRAIN, REAL, "rotary-scale", config.rotary_scale),
    OPTION(TRAIN, NUMBER, "rotary-trained", config.rotary_trained),
    OPTION(TRAIN, REAL, "rotary-low", config.rotary_low),
    OPTION(TRAIN, REAL, "rotary-high", config.rotary_high),
    OF(TRAIN, "rotary-pairs", config.rotary_pairs, trf_rotary_pairs, {"halves", TRF_ROTARY_HALVES},
       {"interleaved", TRF_ROTARY_INTERLEAVED}),
    OF(TRAIN, "norm-place", config.norm_place, trf_norm_place, {"post-norm", TRF_POST_NORM},
       {"pre-norm", TRF_PRE_NORM}),
    OF(TRAIN, "norm-rule", config.norm_rule, trf_norm_rule, {"standard", TRF_NORM_STANDARD},
       {"annotated", TRF_NORM_ANNOTATED}, {"rms", TRF_NORM_RMS}),
    OPTION(TRAIN, REAL, "norm-epsilon", config.norm_epsilon),
    OF(TRAIN, "final-norm", config.final_norm, trf_final_norm, {"no", TRF_FINAL_NORM_NONE},
       {"yes", TRF_FINAL_NORM_BOTH}, {"encoder", TRF_FINAL_NORM_ENCODER},
       {"decoder", TRF_FINAL_NORM_DECODER}),
    OPTION(TRAIN, SWITCH, "scale-embeddings", config.scale_embeddings),
    OPTION(TRAIN, SWITCH, "embedding-norm", config.embedding_norm),
    OPTION(TRAIN, NUMBER, "segments", config.segments),
    OPTION(TRAIN, SWITCH, "head-layer", config.head_layer),
    OF(TRAIN, "label-kind", config.label_kind, trf_label_kind, {"one", TRF_LABELS_ONE_OF},
       {"any", TRF_LABELS_ANY}, {"number", TRF_LABELS_NUMBERS}),
    OPTION(RERANK, TEXT, "query", embed.query),
    OPTION(RERANK, TEXT, "queries", answer.queries),
    OPTION(RERANK, LONG_COUNT, "top", answer.labels_shown),
    OPTION(RERANK, FLAG, "json", json),
    OF(TRAIN, "tying", config.tying, trf_tying, {"untied", TRF_UNTIED},
       {"decoder", TRF_TIED_DECODER}, {"all", TRF_TIED_ALL}, {"embeddings", TRF_TIED_EMBEDDINGS}),
    OPTION(TRAIN, SWITCH, "generator-bias", config.generator_bias),
    OPTION(TRAIN, SWITCH, "scale-logits", config.scale_logits),
    OPTION(TRAIN, SWITCH, "qkv-bias", config.qkv_bias),
    OPTION(TRAIN, SWITCH, "out-bias", config.out_bias),
    OPTION(TRAIN, SWITCH, "feed-forward-bias", config.feed_forward_bias),
    OF(TRAIN, "init", config.init, trf_init, {"xavier-packed", TRF_INIT_XAVIER_PACKED},
       {"xavier", TRF_INIT_XAVIER}, {"linear", TRF_INIT_LINEAR}),
    OF(TRAIN, "embedding-init", config.embedding_init, trf_embedding_init,
       {"normal-d", TRF_EMBEDDING_NORMAL_D}, {"normal-1", TRF_EMBEDDING_NORMAL_1},
       {"xavier", TRF_EMBEDDING_XAVIER}, {"fan-out", TRF_EMBEDDING_FAN_OUT}),
    OPTION(TRAIN, SWITCH, "source-bos", config.source_bos),
    OPTION(TRAIN, SWITCH, "source-eos", config.source_eos),
    OPTION(TRAIN, SWITCH, "target-eos", config.target_eos),
    OF(TRAIN, "decoder-start", config.decoder_start, trf_decoder_start, {"bos", TRF_START_BOS},
       {"eos", TRF_START_EOS}, {"pad", TRF_START_PAD}, {"zero", TRF_START_ZERO}),
    OF(TRAIN, "pooling", pooling, int32_t, {"mean", 0},
       {"first", 1}), /* 1: TRF_HEAD_FIRST (objective.c) */

    OPTION(TRAIN, REAL, "noise-density", noise.density),
    OPTION(TRAIN, REAL, "masked-share", noise.masked),
    OPTION(TRAIN, REAL, "random-share", noise.randomised),
    OPTION(TRAIN, SWITCH, "whole-words", noise.whole_words),
    OPTION(TRAIN, REAL, "mean-span", noise.mean_span),

    OPTION(TRAIN, TEXT, "init-from", train.init_from),
    OPTION(TRAIN, TEXT, "vocab-from", train.vocab_from),
    OPTION(TRAIN, FLAG, "extend-vocabulary", train.extend_vocabulary),
    OPTION(TRAIN, TEXTS, "freeze", train.freeze),
    OPTION(TRAIN, TEXTS, "teacher", train.teachers),
    OPTION(TRAIN, REAL, "teacher-share", train.teacher_share),

    OPTION(TRAIN, LONG_NUMBER, "updates", train.updates),
    OPTION(TRAIN, LONG_COUNT, "epochs", corpus.epochs),
    OPTION(TRAIN, REAL, "minutes", train.minutes),
    OPTION(TRAIN, NUMBER, "patience", train.patience),
    OPTION(TRAIN, REAL, "cooldown", train.cooldown),
    OPTION(TRAIN, COUNT, "accumulate", train.accumulate),
    OF(TRAIN, "optimizer", training.optimizer, trf_optimizer, {"adam", TRF_ADAM},
       {"adamw", TRF_ADAMW}),
    OF(TRAIN, "schedule", training.schedule, trf_schedule, {"noam", TRF_NOAM},
       {"inverse-sqrt", TRF_INVERSE_SQRT}, {"cosine", TRF_COSINE}, {"constant", TRF_CONSTANT}),
    OPTION(TRAIN, REAL, "learning-rate", training.learning_rate),
    OPTION(TRAIN, LONG_NUMBER, "warmup", training.warmup),
    OPTION(TRAIN, REAL, "initial-rate", training.initial_rate),
    OPTION(TRAIN, REAL, "final-rate", training.final_rate),
    OPTION(TRAIN, LONG_NUMBER, "total-steps", training.total_steps),
    OPTION(TRAIN, REAL, "beta1", training.beta1),
    OPTION(TRAIN, REAL, "beta2", training.beta2),
    OPTION(TRAIN, REAL, "epsilon", training.epsilon),
    OF(TRAIN, "epsilon-rule", training.epsilon_rule, trf_adam_epsilon,
       {"outside", TRF_EPSILON_OUTSIDE}, {"fairseq", TRF_EPSILON_FAIRSEQ},
       {"inside", TRF_EPSILON_INSIDE}),
    OPTION(TRAIN, REAL, "weight-decay", training.weight_decay),
    OPTION(TRAIN, SWITCH, "decay-all", training.decay_all),
    OPTION(TRAIN, REAL, "clip-norm", training.clip_norm),
    OPTION(TRAIN, REAL, "label-smoothing", training.label_smoothing),
    OF(TRAIN, "smoothing-rule", training.smoothing_rule, trf_smoothing,
       {"uniform", TRF_SMOOTH_UNIFORM}, {"others", TRF_SMOOTH_OTHERS},
       {"others-kl", TRF_SMOOTH_OTHERS_KL}, {"no-pad-kl", TRF_SMOOTH_NO_PAD_KL}),
    OPTION(TRAIN, REAL, "consistency", training.consistency),
    OPTION(TRAIN, REAL, "dropout", train.dropout),
    OPTION(TRAIN, REAL, "embedding-dropout", training.dropout),
    OPTION(TRAIN, REAL, "attention-dropout", training.attention_dropout),
    OPTION(TRAIN, REAL, "activation-dropout", training.activation_dropout),
    OPTION(TRAIN, REAL, "residual-dropout", training.residual_dropout),

    OPTION(TRAIN, COUNT, "batch-tokens", corpus.batch_tokens),
    OPTION(TRAIN, COUNT, "batch-sentences", corpus.batch_sentences),
    OPTION(TRAIN, SWITCH, "padded-budget", corpus.padded_budget),
    OPTION(TRAIN, SWITCH, "shuffle", corpus.shuffle),
    OPTION(TRAIN, SWITCH, "buckets", corpus.buckets),
    OPTION(TRAIN, NUMBER, "pool", corpus.pool),
    OPTION(TRAIN, NUMBER, "parts", training.parts),
    OF(TRAIN, "reduce", train.reduce, int32_t, {"ordered", 0}, {"fast", 1}),
    OPTION(TRAIN, SWITCH, "recompute", training.recompute),

    OPTION(TRAIN, TEXT, "checkpoint", train.checkpoint),
    OPTION(TRAIN, LONG_NUMBER, "checkpoint-every", train.checkpoint_every),
    OPTION(TRAIN, FLAG, "resume", resume),
    OPTION(TRAIN, FLAG, "overwrite", overwrite),
    OPTION(TRAIN, FLAG, "quiet", quiet),
    OPTION(TRANSLATE, FLAG, "overwrite", overwrite),
    OPTION(TRANSLATE, FLAG, "resume", resume),
    OPTION(TRANSLATE, FLAG, "token-scores", answer.token_scores),
    OPTION(GENERATE, FLAG, "token-scores", answer.token_scores),
    OF(TRANSLATE, "unknown", answer.unknown, int32_t, {"count", UNKNOWN_COUNT},
       {"report", UNKNOWN_REPORT},
       {"copy", UNKNOWN_COPY}, {"drop", UNKNOWN_DROP}),
    OF(TRANSLATE, "allow-unk", search.ban_unk, int32_t, {"yes", 0}, {"no", 1}),
    OPTION(AVERAGE, FLAG, "overwrite", overwrite),
    OPTION(PLOT, FLAG, "overwrite", overwrite),
    OPTION(TRAIN, TEXT, "log", train.log),
    OPTION(TRAIN, LONG_COUNT, "log-every", train.log_every),

    OPTION(TRAIN, LONG_NUMBER, "valid-every", train.valid_every),
    OF(TRAIN, "metric", train.metric, int32_t, {"auto", METRIC_AUTO}, {"loss", METRIC_LOSS},
       {"bleu", METRIC_BLEU}, {"chrf", METRIC_CHRF}, {"exact", METRIC_EXACT}, {"wer", METRIC_WER},
       {"cer", METRIC_CER}, {"accuracy", METRIC_ACCURACY}, {"f1", METRIC_F1},
       {"pearson", METRIC_PEARSON}, {"spearman", METRIC_SPEARMAN}),
    OPTION(TRAIN, COUNT, "valid-beam", train.valid_beam),
    OPTION(TRAIN, REAL, "ema", train.ema),
    OPTION(TRAIN, NUMBER, "keep-models", train.keep_models),
    OPTION(TRAIN, COUNT, "average", train.average),
    OF(TRAIN, "average-of", train.average_of, int32_t, {"best", 0},
       {"last", 1}), /* 0: among_best (learn.c) */
    OPTION(TRAIN, COUNT, "seeds", train.seeds),

    OPTION(TRANSLATE, COUNT, "n-best", search.n_best),
    OPTION(TRANSLATE, FLAG, "scores", answer.scores),
    OPTION(TAG, FLAG, "conll", answer.conll),
    OPTION(TRANSLATE, FLAG, "json", json),
    OPTION(TRANSLATE, FLAG, "alignments", answer.alignments),
    OPTION(TRANSLATE, MAYBE, "attention", answer.attention),
    OPTION(CLASSIFY, MAYBE, "attention", answer.attention),
    OPTION(GENERATE, TEXT, "prompt", generate.prompt),
    OPTION(GENERATE, TEXT, "input", input),
    OPTION(GENERATE, COUNT, "count", generate.count),
    OPTION(GENERATE, FLAG, "json", json),
    OPTION(GENERATE, SEED, "seed", seed),
    OPTION(GENERATE, REAL, "repetition-penalty", sampling.repetition_penalty),
    OPTION(GENERATE, NUMBER, "no-repeat-ngram", sampling.no_repeat_ngram),
    OPTION(GENERATE, TEXTS, "ban", rules.bans),
    OPTION(GENERATE, TEXT, "ban-file", rules.ban_file),
    OPTION(GENERATE, TEXT, "forced-first", rules.forced_first),
    OPTION(GENERATE, TEXTS, "end", rules.ends),
    OPTION(GENERATE, TEXTS, "stop", generate.stops),
    OPTION(GENERATE, FLAG, "special", generate.special),
    OPTION(GENERATE, REAL, "temperature", sampling.temperature),
    OPTION(GENERATE, NUMBER, "top-k", sampling.top_k),
    OPTION(GENERATE, REAL, "top-p", sampling.top_p),
    OPTION(GENERATE, REAL, "min-p", sampling.min_p),
    OPTION(GENERATE, COUNT, "max-tokens", sampling.max_tokens),
    OPTION(GENERATE, NUMBER, "min-tokens", sampling.min_tokens),
    OPTION(GENERATE, SWITCH, "allow-unk", sampling.allow_unk),
    OPTION(GENERATE, COUNT, "batch-sentences", generate.batch_sentences),
    OPTION(CLASSIFY, FLAG, "scores", answer.scores),
    OPTION(CLASSIFY, FLAG, "json", json),
    OPTION(TAG, FLAG, "json", json),
    OPTION(CLASSIFY, LONG_COUNT, "top", answer.labels_shown),
    OF(EMBED, "pooling", pooling, int32_t, {"mean", 0}, {"first", 1}, {"max", 2}), /* embed.c */
    OPTION(QUANTIZE, FLAG, "packed", publish.packed),
    OPTION(IMPORT, TEXT, "as", publish.as),
    OPTION(IMPORT, NUMBER, "max-length", publish.max_length),
    OPTION(EXPORT, TEXT, "output", output),
    OPTION(EXPORT, TEXT, "as", publish.as),
    OPTION(EXPORT, FLAG, "overwrite", overwrite),
    OPTION(TRAIN | PREPARE | SCORE | REPORT | ATTENTION, TEXT, "source-language", source_language),
    OPTION(TRAIN | PREPARE | SCORE | REPORT | ATTENTION, TEXT, "target-language", target_language),
    OPTION(EXPORT, TEXT, "source-language", source_language),
    OPTION(EXPORT, TEXT, "target-language", target_language),
    OPTION(PREPARE, TEXT, "model", model),
    OPTION(INSPECT, TEXT, "model", model),
    OPTION(TOKENIZE, FLAG, "ids", answer.ids),
    OF(TOKENIZE, "side", answer.side, int32_t, {"source", 0}, {"target", 1}),
    OPTION(PREPARE, TEXT, "output", output),
    OPTION(PREPARE, LONG_NUMBER, "hold-out", train.hold_out),
    OPTION(PREPARE, FLAG, "resume", resume),
    OPTION(PREPARE, FLAG, "overwrite", overwrite),
    OPTION(PREPARE, COUNT, "max-length", config.max_length),
    OPTION(EMBED, SWITCH, "normalize", embed.unit_vectors),
    OPTION(EMBED, TEXT, "query", embed.query),
    OPTION(EMBED, TEXT, "index", embed.index),
    OPTION(EMBED, COUNT, "top", embed.top),
    OPTION(EMBED, FLAG, "json", json),

    OF(TRANSLATE, "search-rule", answer.search_rule, int32_t, {"paper", TRF_SEARCH_PAPER},
       {"fairseq", TRF_SEARCH_FAIRSEQ}, {"ctranslate2", TRF_SEARCH_CTRANSLATE2},
       {"marian", TRF_SEARCH_MARIAN}, {"raw", TRF_SEARCH_RAW},
       {"hugging-face", TRF_SEARCH_HUGGING_FACE}),
    OPTION(TRANSLATE, COUNT, "beam", search.beam),
    OF(TRANSLATE, "length-rule", search.length_rule, trf_length_rule, {"raw", TRF_LENGTH_RAW},
       {"power", TRF_LENGTH_POWER}, {"gnmt", TRF_LENGTH_GNMT}),
    OPTION(TRANSLATE, REAL, "alpha", search.alpha),
    OPTION(TRANSLATE, SWITCH, "count-eos", search.count_eos),
    OPTION(TRANSLATE, SWITCH, "score-prefix", search.score_prefix),
    OPTION(TRANSLATE, SWITCH, "count-prefix", search.count_prefix),
    OPTION(TRANSLATE, TEXT, "start", rules.start),
    OPTION(TRANSLATE, REAL, "word-penalty", search.word_penalty),
    OPTION(TRANSLATE, COUNT, "candidates", search.candidates),
    OPTION(TRANSLATE, SWITCH, "eos-in-top-beam", search.eos_in_top_beam),
    OPTION(TRANSLATE, SWITCH, "shrink", search.shrink),
    OF(TRANSLATE, "stop-rule", search.stop, trf_beam_stop, {"bound", TRF_STOP_BOUND},
       {"finished", TRF_STOP_FINISHED}, {"none-alive", TRF_STOP_NONE_ALIVE},
       {"heuristic", TRF_STOP_HEURISTIC}),
    OF(TRANSLATE, "at-limit", search.at_limit, trf_at_limit, {"keep-live", TRF_LIMIT_KEEP_LIVE},
       {"fall-back", TRF_LIMIT_FALL_BACK}, {"force-eos", TRF_LIMIT_FORCE_EOS},
       {"free-eos", TRF_LIMIT_FREE_EOS}),
    OPTION(TRANSLATE, TEXT, "forced-first", rules.forced_first),
    OPTION(TRANSLATE, TEXTS, "end", rules.ends),
    OPTION(TRANSLATE, TEXT, "source-first", rules.source_first),
    OPTION(TRANSLATE, TEXT, "source-last", rules.source_last),
    OPTION(TRANSLATE, TEXT, "source-language", source_language),
    OPTION(TRANSLATE, TEXT, "target-language", target_language),
    OPTION(TRANSLATE, TEXTS, "ban", rules.bans),
    OPTION(TRANSLATE, TEXTS, "phrase", rules.phrases),
    OPTION(TRANSLATE, TEXTS, "keep", rules.keeps),
    OPTION(TRAIN, TEXTS, "keep", rules.keeps),
    OPTION(TRANSLATE, TEXT, "sentences", answer.sentences),
    OPTION(TRANSLATE, TEXT, "phrase-file", rules.phrase_file),
    OPTION(TRANSLATE, TEXT, "glossary", rules.glossary),
    OPTION(TRANSLATE, FLAG, "strict", train.strict),
    OPTION(TRANSLATE, TEXT, "ban-file", rules.ban_file),
    OPTION(TRANSLATE, NUMBER, "no-repeat-ngram", search.no_repeat_ngram),
    OPTION(TRANSLATE, REAL, "repetition-penalty", search.repetition_penalty),
    OPTION(TRANSLATE, NUMBER, "min-length", search.min_length),
    OPTION(TRANSLATE, SWITCH, "renormalize-logits", search.renormalize_logits),
    OPTION(TRANSLATE, REAL, "max-length-a", search.max_length_a),
    OPTION(TRANSLATE, NUMBER, "max-length-b", search.max_length_b),

    OPTION(TRANSLATE, COUNT, "buffer", buffer),
    OPTION(INSPECT, COUNT, "translate-batch", inspect.translate_batch),
    OPTION(TRANSLATE, TEXTS, "with", with),
    OF(TRANSLATE, "ensemble-rule", search.ensemble.rule, trf_ensemble_rule,
       {"arithmetic", TRF_ENSEMBLE_ARITHMETIC}, {"geometric", TRF_ENSEMBLE_GEOMETRIC}),
    OPTION(TRANSLATE, TEXT, "ensemble-weights", ensemble_weights),
    OF(TRANSLATE, "weights", kept, int32_t, {"full", 0}, {"bf16", 1}, {"int8", 2}),
    OPTION(TRANSLATE, COUNT, "batch-sentences", search.max_sentences),
    OPTION(TRANSLATE, COUNT, "batch-tokens", search.max_tokens),
    OPTION(TRANSLATE, FLAG, "interactive", answer.interactive),
    OPTION(TRAIN, DEVICE, "device", device),
    OF(TRAIN, "precision", device.precision, trf_precision, {"float32", TRF_PRECISION_FLOAT32},
       {"bf16", TRF_PRECISION_BF16}, {"auto", TRF_PRECISION_AUTO}),
    OF(TRANSLATE, "precision", device.precision, trf_precision, {"float32", TRF_PRECISION_FLOAT32},
       {"bf16", TRF_PRECISION_BF16}),
    OF(TRAIN, "products", device.products, trf_products, {"auto", TRF_PRODUCTS_AUTO},
       {"cblas", TRF_PRODUCTS_CBLAS}, {"built-in", TRF_PRODUCTS_BUILT_IN},
       {"bf16x3", TRF_PRODUCTS_BF16X3}),
    OPTION(TRAIN, COUNT, "threads", device.threads),
    OPTION(TRAIN, NUMBER, "vector-bytes", device.vector_bytes),

    OPTION(EVAL, TEXT, "metrics", eval.metrics),
    OF(EVAL, "tokenize", eval.tokenize, int32_t, {"13a", METRICS_13A}, {"none", METRICS_NONE},
       {"char", METRICS_CHAR}),
    OPTION(EVAL, FLAG, "lowercase", eval.lowercase),
    OPTION(EVAL, TEXTS, "reference", eval.references),
    OPTION(EVAL, FLAG, "alternatives", eval.alternatives),
    OPTION(EVAL, LONG_COUNT, "max-line-bytes", max_line_bytes),
    OPTION(EVAL, NUMBER, "worst", eval.worst),
    OPTION(EVAL, FLAG, "by-length", eval.by_length),
    OPTION(EVAL, FLAG, "json", json),
    OPTION(INSPECT, FLAG, "json", json),
    OF(INSPECT, "shape", inspect.shape, int32_t, {"none", 0}, {"paper-base", 1}, {"paper-big", 2},
       {"gpt2", 3}, {"gpt2-medium", 4}, {"gpt2-large", 5}, {"gpt2-xl", 6}, {"bert-base", 7},
       {"bert-large", 8}, {"t5-small", 9}, {"t5-base", 10}, {"t5-large", 11}, {"llama-2-7b", 12},
       {"opus-mt", 13}),
    OPTION(INSPECT, COUNT, "labels", inspect.labels),
    OPTION(INSPECT, COUNT, "source-length", inspect.source_length),
    OPTION(INSPECT, COUNT, "target-length", inspect.target_length),
    OPTION(INSPECT, FLAG, "trace", inspect.trace),
    OPTION(ATTENTION, TEXT, "model", model),
    OPTION(ATTENTION, TEXT, "source-text", attend.source_text),
    OPTION(ATTENTION, TEXT, "target-text", attend.target_text),
    OF(ATTENTION, "kind", attend.map_kind, int32_t, {"auto", MAP_AUTO}, {"cross", MAP_CROSS},
       {"encoder", MAP_ENCODER}, {"decoder", MAP_DECODER}),
    OPTION(ATTENTION, TEXT, "layer", attend.layer),
    OPTION(ATTENTION, TEXT, "head", attend.head),
    OPTION(ATTENTION, TEXT, "output", output),
    OPTION(ATTENTION, FLAG, "overwrite", overwrite),
    OPTION(ATTENTION, FLAG, "json", json),
    OPTION(AVERAGE, TEXT, "output", output),
    OF(AVERAGE, "weights", publish.weights, int32_t, {"full", TRF_WEIGHTS_FULL},
       {"bf16", TRF_WEIGHTS_BF16},
       {"f16", TRF_WEIGHTS_F16}, {"int8", TRF_WEIGHTS_INT8}),
    OPTION(REPORT, TEXT, "data", report.data),
    OPTION(REPORT, TEXT, "output", output),
    OPTION(REPORT, TEXT, "model", model),
    OPTION(REPORT, NUMBER, "worst", report.worst),
    OPTION(PLOT, TEXT, "output", output),
    OPTION(PLOT, FLAG, "csv", plot.csv),
    OPTION(PLOT, TEXT, "only", plot.only),
};
enum { N_TESTED = (int)(sizeof table / sizeof *table) };

/* -----------------------------------------------------------------------------------------------
   Texts that every option of a kind takes, or refuses. `shown` is how value_text writes it, NULL:
   as it is typed. number: of whole numbers, choices, seeds (their bits) and the kind of a device,
   whose number is `gpu`. */

struct value { const char *text, *shown; int64_t number; double real; int32_t gpu; };
#define WHOLE(text, number) {text, NULL, number, 0, 0}
#define REAL_NUMBER(text, number) {text, NULL, 0, number, 0}
#define END {NULL, NULL, 0, 0, 0}

static const struct value texts[] = {WHOLE("some file", 0), WHOLE("-", 0), WHOLE("", 0), END};
static const struct value texts_several[] = {{"some*", "", 0, 0, 0}, {"-", "", 0, 0, 0}, END};
static const struct value flags[] = {{"", "yes", 1, 0, 0}, END};
static const struct value maybes[] = {{"", "mean", ATTENTION_MEAN, 0, 0},
                                      WHOLE("mean", ATTENTION_MEAN),
                                      WHOLE("all", ATTENTION_ALL),
                                      END};
static const struct value switches[] = {
    WHOLE("no", 0), WHOLE("yes", 1), {"0", "no", 0, 0, 0}, {"1", "yes", 1, 0, 0}, END};
static const struct value numbers[] = {WHOLE("7", 7), WHOLE("0", 0), WHOLE("2147483647", INT32_MAX),
                                       END};
static const struct value counts[] = {WHOLE("7", 7), WHOLE("1", 1), WHOLE("2147483647", INT32_MAX),
                                      END};
static const struct value long_numbers[] = {WHOLE("7", 7),
                                            WHOLE("0", 0),
                                            WHOLE("123456789012", 123456789012),
                                            {"9223372036854775807", "no limit", INT64_MAX, 0, 0},
                                            END};
static const struct value long_counts[] = {WHOLE("7", 7),
                                           WHOLE("1", 1),
                                           WHOLE("123456789012", 123456789012),
                                           {"9223372036854775807", "no limit", INT64_MAX, 0, 0},
                                           END};
static const struct value seeds[] = {WHOLE("7", 7), WHOLE("0", 0),
                                     WHOLE("18446744073709551615", -1), END};
static const struct value reals[] = {
    REAL_NUMBER("0.25", 0.25),     REAL_NUMBER("0", 0),        REAL_NUMBER("-3.5", -3.5),
    REAL_NUMBER("0.1", 0.1),       REAL_NUMBER("1e-09", 1e-9), REAL_NUMBER("1e+300", 1e300),
    {"1e-9", "1e-09", 0, 1e-9, 0}, {"1.50", "1.5", 0, 1.5, 0}, END};
static const struct value devices[] = {WHOLE("cpu", TRF_DEVICE_CPU),
                                       {"cuda", "cuda:0", TRF_DEVICE_CUDA, 0, 0},
                                       {"cuda:3", NULL, TRF_DEVICE_CUDA, 0, 3},
                                       END};

static const char *const bad_maybes[] = {"0", "1", "x", "Mean", "mean|all", "a", NULL};
static const char *const bad_switches[] = {"",    "2",  "01",   "-1",     "true",
                                           "Yes", "ye", "yess", "no|yes", NULL};
static const char *const bad_choices[] = {"", "0", "-1", "|", "what?", NULL};
static const char *const bad_numbers[] = {"",    " ",   "x",          "7x",         "-1",
                                          "1.5", "1e3", "2147483648", "4294967303", NULL};
static const char *const bad_counts[] = {"0",   "",    " ",          "x",          "7x", "-1",
                                         "1.5", "1e3", "2147483648", "4294967303", NULL};
static const char *const bad_long_numbers[] = {"",   " ",   "x",   "7x",
                                               "-1", "1.5", "1e3", "9223372036854775808",
                                               NULL};
static const char *const bad_long_counts[] = {"0",   "",    " ",
                                              "x",   "7x",  "-1",
                                              "1.5", "1e3", "9223372036854775808",
                                              NULL};
static const char *const bad_seeds[] = {"",   " ",   "x",   "7x",
                                        "-1", "1.5", "1e3", "18446744073709551616",
                                        NULL};
static const char *const bad_reals[] = {"",    " ",    "x",     "0.5x",     "0,5", "nan",
                                        "inf", "-inf", "1e999", "no limit", NULL};
static const char *const bad_devices[] = {"",      "x",     "CPU",     "cpu:0",  "cp",
                                          "cpus",  "cuda:", "cuda:-1", "cuda:x", "cuda:1x",
                                          "cuda1", "gpu",   NULL};
static const char *const nothing_bad[] = {NULL};

static const struct value *values_of(enum kind kind)
{
    switch (kind) {
    case HEADING: case CHOICE: break;
    case TEXT: return texts;
    case TEXTS: return texts_several;
    case FLAG: return flags;
    case MAYBE: return maybes;
    case SWITCH: return switches;
    case NUMBER: return numbers;
    case COUNT: return counts;
    case LONG_NUMBER: return long_numbers;
    case LONG_COUNT: return long_counts;
    case SEED: return seeds;
    case DEVICE: return devices;
    case REAL: return reals;
    }
    fail_msg("no values of kind %d", (int)kind);
    return NULL;
}

static const char *const *bad_texts_of(enum kind kind)
{
    switch (kind) {
    case HEADING: case TEXT: case TEXTS: case FLAG: break;
    case MAYBE: return bad_maybes;
    case SWITCH: return bad_switches;
    case CHOICE: return bad_choices;
    case NUMBER: return bad_numbers;
    case COUNT: return bad_counts;
    case LONG_NUMBER: return bad_long_numbers;
    case LONG_COUNT: return bad_long_counts;
    case SEED: return bad_seeds;
    case DEVICE: return bad_devices;
    case REAL: return bad_reals;
    }
    return nothing_bad;
}

/* Value k of an option; 0 if it has not so many. */
static int value_at(const struct tested *o, int k, struct value *v)
{
    if (o->kind == CHOICE) {
        memset(v, 0, sizeof *v);
        v->text = o->choices[k].text;
        v->number = o->choices[k].number;
    } else *v = values_of(o->kind)[k];
    if (!v->shown) v->shown = v->text;
    return v->text != NULL;
}

/* -----------------------------------------------------------------------------------------------
 */

/* The row of the table under test, or -1. */
static int find(int command, const char *name)
{
    int i;
    for (i = 0; i < n_rows; i++)
        if (rows[i].kind != HEADING && (rows[i].commands & command) && !strcmp(rows[i].name, name))
            return i;
    return -1;
}

static int row_of(const struct tested *o)
{
    int i = find(o->command, o->name);
    if (i < 0) fail_msg("there is no --%s of command %d any more", o->name, o->command);
    return i;
}

static int is_tested_by(const struct row *row, const struct tested *o)
{
    return row->kind != HEADING && (row->commands & o->command) && !strcmp(row->name, o->name);
}

/* Whether that byte of the settings is the option's to write. A device's other fields have options
   of their own. */
static int owns(const struct tested *o, size_t byte)
{
    size_t at = byte - o->offset;           /* before it: larger than any field */
    if (o->kind != DEVICE) return at < o->bytes;
    return at - offsetof(trf_device, kind) < sizeof(trf_device_kind) ||
           at - offsetof(trf_device, index) < sizeof(int32_t);
}

/* Settings full of a byte, in which only lists of texts are what they should be: empty. */
static void fill(struct settings *s, int byte)
{
    memset(s, byte, sizeof *s);
    s->train.freeze.n = s->train.teachers.n = s->eval.references.n = 0;
    s->rules.bans.n = s->rules.phrases.n = s->rules.ends.n = 0;
    s->rules.keeps.n = 0;
    s->generate.stops.n = s->with.n = 0;
}

/* What set_value ought to do. */
static void write_value(const struct tested *o, const struct value *v, const char *text,
                        struct settings *s)
{
    char *field = (char *)s + o->offset;
    int32_t narrow = (int32_t)v->number;
    struct texts several;
    trf_device device;
    switch (o->kind) {
    case HEADING: break;
    case TEXT: memcpy(field, &text, sizeof text); break;
    case TEXTS:
        memcpy(&several, field, sizeof several);
        several.item[several.n++] = text;
        memcpy(field, &several, sizeof several);
        break;
    case FLAG:
    case MAYBE:
    case SWITCH:
    case CHOICE:
    case NUMBER:
    case COUNT:
        memcpy(field, &narrow, sizeof narrow);
        break;
    case LONG_NUMBER:
    case LONG_COUNT:
    case SEED:
        memcpy(field, &v->number, sizeof v->number);
        break;
    case DEVICE:
        memcpy(&device, field, sizeof device);
        device.kind = (trf_device_kind)v->number;
        device.index = v->gpu;
        memcpy(field, &device, sizeof device);
        break;
    case REAL: memcpy(field, &v->real, sizeof v->real); break;
    }
}

/* Every byte of the settings after an option is what it should be. */
static void check_same(const char *name, const char *text, const struct settings *x,
                       const struct settings *y)
{
    const char *a = (const char *)x, *b = (const char *)y;
    size_t i = 0;
    int k = 0;
    while (i < sizeof *x && a[i] == b[i]) i++;
    if (i == sizeof *x) return;
    while (k < N_TESTED && !owns(&table[k], i)) k++;
    fail_msg("after --%s '%s' byte %d of the settings (%s) is not what it should be", name, text,
             (int)i, k < N_TESTED ? table[k].field : "no option's");
}

/* Whether the option's field has the value, whose text may lie elsewhere. */
static int has(const struct tested *o, const struct value *v, const struct settings *s)
{
    static struct settings same;
    const char *field = (const char *)s + o->offset, *text;
    struct texts several;
    if (o->kind == TEXT) {
        memcpy(&text, field, sizeof text);
        return text && !strcmp(text, v->text);
    }
    if (o->kind == TEXTS) {
        memcpy(&several, field, sizeof several);
        return several.n == 1 && !strcmp(several.item[0], v->text);
    }
    memcpy(&same, s, sizeof same);
    write_value(o, v, v->text, &same);
    return !memcmp(&same, s, sizeof same);
}

/* A command line of up to four words, NULL: no more. Texts in the settings last until the next. */
static int parse(int command, struct settings *s, const char *a, const char *b, const char *c,
                 const char *d)
{
    static char word[5][128];
    const char *const given[] = {"trf", a, b, c, d};
    struct command one;
    char *argv[6];
    int n = 0;
    memset(&one, 0, sizeof one);
    one.bit = command;
    one.name = "test";
    for (; n < 5 && given[n]; n++) {
        assert_true(strlen(given[n]) < sizeof word[n]);
        strcpy(word[n], given[n]);
        argv[n] = word[n];
    }
    argv[n] = NULL;
    optind = 0;         /* a new command line (glibc) */
    set_defaults(s);
    messages = 0;
    *said = 0;
    return parse_command_line(&one, s, n, argv);
}

/* One message, which names the option. */
static void check_said(const char *name, const char *what)
{
    char dashed[80];
    snprintf(dashed, sizeof dashed, "--%s", name);
    if (messages != 1 || !strstr(said, dashed) || !strstr(said, what))
        fail_msg("--%s: %d messages, the last one: %s", name, messages, said);
}

/* -----------------------------------------------------------------------------------------------
 */

/* Each row of the table is tested once, each test has its row, of the same kind. */
static void every_row(void **state)
{
    int i, k, options = 0;
    (void)state;
    for (i = 0; i < n_rows; i++) {
        int times = 0;
        assert_true(rows[i].commands & COMMANDS);
        assert_int_equal(rows[i].commands & ~(COMMANDS | FROM_DATA), 0);
        if (rows[i].kind == HEADING) continue;
        options++;
        for (k = 0; k < N_TESTED; k++) times += is_tested_by(&rows[i], &table[k]);
        if (times != 1)
            fail_msg("--%s (row %d, commands %d) stands %d times in tests/test_options.c, not once",
                     rows[i].name, i, rows[i].commands & COMMANDS, times);
    }
    assert_int_equal(options, N_TESTED);
    for (k = 0; k < N_TESTED; k++) {
        const struct row *row = &rows[row_of(&table[k])];
        if (row->kind != table[k].kind)
            fail_msg("--%s is of kind %d, not %d", row->name, (int)row->kind, (int)table[k].kind);
        assert_true(!row->argument == (row->kind == FLAG));
        assert_true(row->help && *row->help);
        if (row->kind == SWITCH) assert_string_equal(row->argument, "no|yes");
    }
}

/* Of one command no two options have the same name, nor the same field. */
static void none_twice(void **state)
{
    int i, k;
    size_t byte;
    (void)state;
    for (i = 0; i < n_rows; i++) {
        if (rows[i].kind == HEADING) continue;
        if (!strcmp(rows[i].name, "help")) fail_msg("--help is taken");
        for (k = i + 1; k < n_rows; k++)
            if (rows[k].kind != HEADING && (rows[i].commands & rows[k].commands & COMMANDS) &&
                !strcmp(rows[i].name, rows[k].name))
                fail_msg("one command has two options --%s, rows %d and %d", rows[i].name, i, k);
    }
    for (i = 0; i < N_TESTED; i++)
        for (k = i + 1; k < N_TESTED; k++) {
            if (!(rows[row_of(&table[i])].commands & rows[row_of(&table[k])].commands & COMMANDS))
                continue;
            for (byte = table[i].offset; byte < table[i].offset + table[i].bytes; byte++)
                if (owns(&table[i], byte) && owns(&table[k], byte))
                    fail_msg("--%s and --%s write the same field", table[i].name, table[k].name);
        }
}

/* A field stands for its option: all options that write it have one name. */
static void one_name_of_a_field(void **state)
{
    int k;
    (void)state;
    for (k = 0; k < N_TESTED; k++) assert_string_equal(option_name(table[k].offset), table[k].name);
}

/* Options of the model and of training have the names of the fields: checkpoints are read by them
   (stored_training). */
static void names_of_fields(void **state)
{
    int k;
    (void)state;
    for (k = 0; k < N_TESTED; k++) {
        const char *field = table[k].field, *name = table[k].name;
        if (strncmp(field, "config.", 7) && strncmp(field, "training.", 9)) continue;
        if (!strcmp(field, "training.dropout")) {
            assert_string_equal(name, "embedding-dropout");
            continue;
        }
        for (field = strchr(field, '.') + 1; *field && *field == (*name == '-' ? '_' : *name);
             field++)
            name++;
        if (*field || *name) fail_msg("--%s sets %s", table[k].name, table[k].field);
    }
}

/* As many names in the table as here, and no two that mean the same. */
static void every_choice(void **state)
{
    int k, a, b;
    (void)state;
    for (k = 0; k < N_TESTED; k++) {
        const struct tested *o = &table[k];
        const char *list = rows[row_of(o)].argument;
        int names = 1;
        if (o->kind != CHOICE) continue;
        for (; *list; list++) names += *list == '|';
        for (a = 0; o->choices[a].text; a++)
            for (b = 0; b < a; b++)
                if (o->choices[a].number == o->choices[b].number)
                    fail_msg("--%s: two choices are one", o->name);
        if (a != names)
            fail_msg("--%s has %d choices, %d of them in tests/test_options.c", o->name, names, a);
    }
}

/* A value is in the field of that name, no other byte has changed, and value_text gives it back. */
static void fields(void **state)
{
    static const int background[] = {0, PATTERN};
    struct value v;
    char text[64];
    int k, j, b;
    (void)state;
    messages = 0;
    for (k = 0; k < N_TESTED; k++)
        for (j = 0; value_at(&table[k], j, &v); j++)
            for (b = 0; b < 2; b++) {
                const struct tested *o = &table[k];
                const struct row *row = &rows[row_of(o)];
                fill(&got, background[b]);
                fill(&wanted, background[b]);
                if (set_value(row, &got, v.text)) fail_msg("--%s refuses '%s'", o->name, v.text);
                write_value(o, &v, v.text, &wanted);
                check_same(o->name, v.text, &got, &wanted);
                value_text(row, &got, text, sizeof text);
                if (strcmp(text, v.shown))
                    fail_msg("--%s '%s' is shown as '%s'", o->name, v.text, text);
                if (o->kind == TEXT || o->kind == TEXTS || !strcmp(text, "no limit")) continue;
                fill(&got, background[b]);
                if (set_value(row, &got, text))
                    fail_msg("--%s shows '%s' and refuses it", o->name, text);
                check_same(o->name, text, &got, &wanted);
            }
    assert_int_equal(messages, 0);
}

/* Real numbers are shown in as few digits as give the same bits again, 17 if need be: checkpoints
   keep options so. */
static void every_real(void **state)
{
    static const double some[] = {
        0.1, 1.0 / 3, 0.1 + 0.2, 2.0 / 3, 1e23, 5e-324, 1.7976931348623157e308, -1e-9, 12345678.9};
    const struct row *row;
    char text[64];
    int i = find(TRAIN, "ema"), several = (int)(sizeof some / sizeof *some);
    (void)state;
    assert_true(i >= 0);
    row = &rows[i];
    for (i = 0; i < 1000; i++) {
        double x = i < several
                       ? some[i]
                       : ldexp((double)(trf__random64(1, 2, (uint64_t)i) >> 11), i % 100 - 99);
        wanted.train.ema = x;
        value_text(row, &wanted, text, sizeof text);
        assert_int_equal(set_value(row, &got, text), DONE);
        if (memcmp(&got.train.ema, &x, sizeof x)) fail_msg("--ema %.17g is shown as '%s'", x, text);
    }
}

/* Defaults are shown as texts that set them. */
static void defaults(void **state)
{
    static struct settings plain, again;
    char text[64];
    int i;
    (void)state;
    for (i = 0; i < n_rows; i++) {
        set_defaults(&plain);
        memcpy(&again, &plain, sizeof again);
        value_text(&rows[i], &plain, text, sizeof text);
        if (rows[i].kind == FLAG || rows[i].kind == MAYBE || rows[i].kind == TEXTS)
            assert_string_equal(text, "");
        if (rows[i].kind == HEADING || rows[i].kind == FLAG || rows[i].kind == MAYBE ||
            rows[i].kind == TEXT || rows[i].kind == TEXTS)
            continue;
        if (!strcmp(text, "no limit") || (!*text && rows[i].kind == NUMBER)) continue;
        if (set_value(&rows[i], &again, text))
            fail_msg("--%s refuses its default '%s'", rows[i].name, text);
        check_same(rows[i].name, text, &again, &plain);
    }
}

/* The same from a command line, of every command that has the option; twice, without a value, or
   with one too many. */
static void command_lines(void **state)
{
    static struct settings s;
    char dashed[80], with_value[80];
    struct value v;
    int k, j, command;
    (void)state;
    for (k = 0; k < N_TESTED; k++) {
        const struct tested *o = &table[k];
        const struct row *row = &rows[row_of(o)];
        int flag = o->kind == FLAG, alone = flag || o->kind == MAYBE;
        snprintf(dashed, sizeof dashed, "--%s", o->name);
        snprintf(with_value, sizeof with_value, "--%s=yes", o->name);
        for (command = FIRST_COMMAND; command <= LAST_COMMAND; command *= 2) {
            if (!(row->commands & command)) continue;
            for (j = 0; value_at(o, j, &v); j++) {
                if (parse(command, &s, dashed, alone && !*v.text ? NULL : v.text, NULL, NULL) !=
                        -1 ||
                    messages)
                    fail_msg("--%s refuses '%s': %s", o->name, v.text, said);
                if (!has(o, &v, &s))
                    fail_msg("--%s has not taken '%s' of a command line", o->name, v.text);
                assert_true(is_given(&s, o->offset));
                assert_string_equal(text_given(&s, o->offset), v.text);
            }
            value_at(o, 0, &v);
            j = parse(command, &s, dashed, alone ? dashed : v.text, alone ? NULL : dashed,
                      alone ? NULL : v.text);
            if (o->kind == TEXTS || ((command == TRAIN || command == DOCTOR) &&
                                     (o->offset == AT(tsv) || o->offset == AT(train.text) ||
                                      o->offset == AT(source) || o->offset == AT(target))))
                assert_int_equal(j, -1);
            else {
                assert_int_equal(j, USAGE);
                check_said(o->name, "is given twice");
            }
            assert_int_equal(parse(command, &s, alone ? with_value : dashed, NULL, NULL, NULL),
                             USAGE);
            check_said(o->name, flag    ? "takes no value"
                                : alone ? "takes mean|all, or nothing"
                                        : "needs a value");
        }
    }
}

static void check_refused(const struct tested *o, const char *text)
{
    static struct settings before;
    const struct row *row = &rows[row_of(o)];
    char dashed[80];
    fill(&got, PATTERN);
    fill(&before, PATTERN);
    messages = 0;
    if (set_value(row, &got, text) != USAGE) fail_msg("--%s takes '%s'", o->name, text);
    check_said(o->name, text);
    check_same(o->name, text, &got, &before);
    snprintf(dashed, sizeof dashed, "--%s", o->name);
    if (o->kind == MAYBE) { /* a word behind it that is none of its values is another word */
        assert_int_equal(parse(o->command, &got, dashed, text, NULL, NULL), -1);
        snprintf(dashed, sizeof dashed, "--%s=%s", o->name, text);
        assert_int_equal(parse(o->command, &got, dashed, NULL, NULL, NULL), USAGE);
    } else assert_int_equal(parse(o->command, &got, dashed, text, NULL, NULL), USAGE);
    check_said(o->name, text);
}

/* What makes no sense is refused with a message, and nothing is changed. */
static void refused_texts(void **state)
{
    char text[128];
    int k, j;
    (void)state;
    for (k = 0; k < N_TESTED; k++) {
        const struct tested *o = &table[k];
        const char *const *bad = bad_texts_of(o->kind);
        for (; *bad; bad++) check_refused(o, *bad);
        if (o->kind != CHOICE) continue;
        if (strchr(rows[row_of(o)].argument, '|')) check_refused(o, rows[row_of(o)].argument);
        for (j = 0; o->choices[j].text; j++) {
            snprintf(text, sizeof text, "%s?", o->choices[j].text);
            check_refused(o, text);
            snprintf(text, sizeof text, "%s|", o->choices[j].text);
            check_refused(o, text);
        }
    }
}

/* Options that may be given several times: all of them, in their order, and then no more. */
static void lists_of_texts(void **state)
{
    static struct settings before;
    static char text[MAX_TEXTS + 1][8];
    struct texts several;
    int k, i;
    (void)state;
    for (k = 0; k < N_TESTED; k++) {
        const struct tested *o = &table[k];
        if (o->kind != TEXTS) continue;
        fill(&got, PATTERN);
        for (i = 0; i <= MAX_TEXTS; i++) {
            snprintf(text[i], sizeof text[i], "%d", i);
            memcpy(&before, &got, sizeof before);
            messages = 0;
            assert_int_equal(set_value(&rows[row_of(o)], &got, text[i]),
                             i < MAX_TEXTS ? DONE : USAGE);
            assert_int_equal(messages, i == MAX_TEXTS);
        }
        check_same(o->name, text[MAX_TEXTS], &got, &before);
        memcpy(&several, (char *)&got + o->offset, sizeof several);
        assert_int_equal(several.n, MAX_TEXTS);
        for (i = 0; i < MAX_TEXTS; i++) assert_ptr_equal(several.item[i], text[i]);
    }
}

/* ---- what an option does beyond writing its field ---- */

static int seen[MAX_OPTIONS];

/* Gives an option; `wanted` is to be told all that this does. */
static void give(int command, const char *name, const char *text)
{
    int i = find(command, name);
    if (i < 0 || !rows[i].then) fail_msg("--%s of command %d does nothing besides", name, command);
    seen[i] = 1;
    fill(&got, PATTERN);
    fill(&wanted, PATTERN);
    assert_int_equal(set_value(&rows[i], &got, text), DONE);
    rows[i].then(&got);
}

/* It has done just that, and no option before it in the table has lost its value: single options
   win over presets. */
static void check_given(int command, const char *name, const char *text)
{
    int i = find(command, name), k;
    size_t byte;
    check_same(name, text, &got, &wanted);
    for (k = 0; k < N_TESTED; k++) {
        int row = row_of(&table[k]);
        if (row >= i || !(rows[row].commands & rows[i].commands & COMMANDS)) continue;
        for (byte = 0; byte < sizeof got; byte++)
            if (((const unsigned char *)&got)[byte] != PATTERN && owns(&table[k], byte) &&
                table[k].kind != TEXTS)
                fail_msg("--%s, a row before --%s, is overwritten by it", table[k].name, name);
    }
}
#define EFFECT(command, name, text, ...) \
    do { give(command, name, text); __VA_ARGS__; check_given(command, name, text); } while (0)

static void want_conventions(int paper)
{
    wanted.train.conventions = paper ? TRF_CONVENTIONS_PAPER : TRF_CONVENTIONS_PYTORCH;
    wanted.config.activation = TRF_RELU;
    wanted.config.feed_forward_gate = wanted.config.embedding_norm = wanted.config.source_bos = 0;
    wanted.config.segments = 0;
    wanted.config.kv_heads = wanted.config.d_head = wanted.config.scale_logits = 0;
    wanted.config.attention_scale = 0;
    wanted.config.positions = TRF_POSITIONS_INTERLEAVED;
    wanted.config.position_offset = 0;
    wanted.config.norm_place = TRF_POST_NORM;
    wanted.config.norm_rule = TRF_NORM_STANDARD;
    wanted.config.norm_epsilon = paper ? 1e-6 : 1e-5;
    wanted.config.final_norm = !paper;
    wanted.config.scale_embeddings = 1;
    wanted.config.tying = paper ? TRF_TIED_ALL : TRF_UNTIED;
    wanted.config.generator_bias = !paper;
    wanted.config.init = paper ? TRF_INIT_XAVIER : TRF_INIT_XAVIER_PACKED;
    wanted.config.embedding_init = paper ? TRF_EMBEDDING_NORMAL_D : TRF_EMBEDDING_NORMAL_1;
    wanted.config.source_eos = 1;
    wanted.config.decoder_start = TRF_START_BOS;
    wanted.training.optimizer = TRF_ADAM;
    wanted.training.beta1 = 0.9;
    wanted.training.beta2 = paper ? 0.98 : 0.999;
    wanted.training.epsilon = paper ? 1e-9 : 1e-8;
    wanted.training.epsilon_rule = paper ? TRF_EPSILON_FAIRSEQ : TRF_EPSILON_OUTSIDE;
    wanted.training.smoothing_rule = paper ? TRF_SMOOTH_OTHERS_KL : TRF_SMOOTH_UNIFORM;
}

static void want_size(int32_t size, int32_t layers, int32_t d_model, int32_t d_ff, int32_t n_heads)
{
    wanted.train.size = size;
    wanted.config.encoder_layers = wanted.config.decoder_layers = layers;
    wanted.config.d_model = d_model;
    wanted.config.d_ff = d_ff;
    wanted.config.n_heads = n_heads;
}

static void want_rule(trf_search_rule rule, trf_length_rule length_rule, double alpha,
                      int32_t score_prefix, int32_t candidates, int32_t eos_in_top_beam,
                      int32_t shrink, trf_beam_stop stop, trf_at_limit at_limit, int32_t min_length,
                      int32_t renormalize_logits)
{
    wanted.answer.search_rule = (int32_t)rule;
    wanted.search.length_rule = length_rule;
    wanted.search.alpha = alpha;
    wanted.search.count_eos = 1;
    wanted.search.score_prefix = score_prefix;
    wanted.search.count_prefix = rule != TRF_SEARCH_HUGGING_FACE;
    wanted.search.word_penalty = 0;
    wanted.search.candidates = candidates;
    wanted.search.eos_in_top_beam = eos_in_top_beam;
    wanted.search.shrink = shrink;
    wanted.search.stop = stop;
    wanted.search.at_limit = at_limit;
    wanted.search.min_length = min_length;
    wanted.search.renormalize_logits = renormalize_logits;
    wanted.search.ensemble.rule = rule == TRF_SEARCH_MARIAN ? TRF_ENSEMBLE_GEOMETRIC
                                                            : TRF_ENSEMBLE_ARITHMETIC;
}

static void effects(void **state)
{
    static const char name[] = "some file";
    int i;
    (void)state;
    memset(seen, 0, sizeof seen);
    EFFECT(TRAIN, "tokens", "words",
           wanted.train.tokens = wanted.train.source_tokens = wanted.train.target_tokens =
               TOKENS_WORDS);
    EFFECT(TRAIN, "sentencepiece", name,
           wanted.train.sentencepiece = wanted.train.source_sentencepiece =
               wanted.train.target_sentencepiece = name);
    EFFECT(TRAIN, "vocab-size", "7",
           wanted.train.vocab_size = wanted.train.source_vocab_size =
               wanted.train.target_vocab_size = 7);
    EFFECT(TRAIN, "recipe", "auto", wanted.train.recipe = RECIPE_AUTO);
    EFFECT(TRAIN, "recipe", "paper", wanted.train.recipe = RECIPE_PAPER; want_conventions(1);
           wanted.training.schedule = TRF_NOAM; wanted.training.learning_rate = 1;
           wanted.training.warmup = 4000;
           wanted.training.label_smoothing = wanted.training.dropout =
               wanted.training.residual_dropout = 0.1;
           wanted.training.attention_dropout = wanted.training.activation_dropout = 0);
    EFFECT(TRAIN, "size", "auto", wanted.train.size = SIZE_AUTO);
    EFFECT(TRAIN, "size", "tiny", want_size(SIZE_TINY, 4, 128, 256, 4));
    EFFECT(TRAIN, "size", "small", want_size(SIZE_SMALL, 3, 256, 512, 4));
    EFFECT(TRAIN, "size", "base", want_size(SIZE_BASE, 6, 512, 2048, 8));
    EFFECT(TRAIN, "size", "big", want_size(SIZE_BIG, 6, 1024, 4096, 16));
    EFFECT(TRAIN, "conventions", "pytorch", want_conventions(0));
    EFFECT(TRAIN, "conventions", "paper", want_conventions(1));
    EFFECT(TRAIN, "seed", "7",
           wanted.seed = wanted.config.seed = wanted.training.seed = wanted.corpus.seed = 7);
    EFFECT(TRAIN, "dropout", "0.25",
           wanted.train.dropout = wanted.training.dropout = wanted.training.attention_dropout =
               0.25;
           wanted.training.activation_dropout = wanted.training.residual_dropout = 0.25);
    EFFECT(TRANSLATE, "search-rule", "paper",
           want_rule(TRF_SEARCH_PAPER, TRF_LENGTH_GNMT, 0.6, 0, 2, 0, 0, TRF_STOP_BOUND,
                     TRF_LIMIT_FALL_BACK, 0, 0));
    EFFECT(TRANSLATE, "search-rule", "fairseq",
           want_rule(TRF_SEARCH_FAIRSEQ, TRF_LENGTH_POWER, 1, 1, 2, 1, 0, TRF_STOP_FINISHED,
                     TRF_LIMIT_FORCE_EOS, 1, 0));
    EFFECT(TRANSLATE, "search-rule", "ctranslate2",
           want_rule(TRF_SEARCH_CTRANSLATE2, TRF_LENGTH_POWER, 1, 0, 2, 1, 0, TRF_STOP_FINISHED,
                     TRF_LIMIT_KEEP_LIVE, 1, 1));
    EFFECT(TRANSLATE, "search-rule", "marian",
           want_rule(TRF_SEARCH_MARIAN, TRF_LENGTH_POWER, 1, 1, 1, 1, 1, TRF_STOP_NONE_ALIVE,
                     TRF_LIMIT_KEEP_LIVE, 0, 0));
    EFFECT(TRANSLATE, "search-rule", "raw",
           want_rule(TRF_SEARCH_RAW, TRF_LENGTH_RAW, 0, 1, 1, 1, 0, TRF_STOP_FINISHED,
                     TRF_LIMIT_FALL_BACK, 0, 0));
    EFFECT(TRANSLATE, "search-rule", "hugging-face",
           want_rule(TRF_SEARCH_HUGGING_FACE, TRF_LENGTH_POWER, 1, 0, 2, 1, 0, TRF_STOP_HEURISTIC,
                     TRF_LIMIT_KEEP_LIVE, 0, 0));
    EFFECT(TRANSLATE, "weights", "full", wanted.kept = 0;
           wanted.search.weights = wanted.sampling.weights = TRF_WEIGHTS_FULL);
    EFFECT(TRANSLATE, "weights", "int8", wanted.kept = 2;
           wanted.search.weights = wanted.sampling.weights = TRF_WEIGHTS_INT8);
    EFFECT(TRANSLATE, "ensemble-rule", "geometric",
           wanted.search.ensemble.rule = wanted.sampling.ensemble.rule = TRF_ENSEMBLE_GEOMETRIC);
    for (i = 0; i < n_rows; i++)
        if (!rows[i].then != !seen[i])
            fail_msg("what --%s does besides is not in tests/test_options.c", rows[i].name);
}

/* Presets come first and single options win, whatever the order on the command line. The model
   computes where
   --device says, also without --threads. */
static void order_on_command_lines(void **state)
{
    static struct settings s;
    (void)state;
    assert_int_equal(parse(TRAIN, &s, "--d-model=64", "--size=base", NULL, NULL), -1);
    assert_int_equal(s.config.d_model, 64);
    assert_int_equal(s.config.d_ff, 2048);
    assert_int_equal(parse(TRAIN, &s, "--size=base", "--d-model=64", NULL, NULL), -1);
    assert_int_equal(s.config.d_model, 64);
    assert_int_equal(s.config.d_ff, 2048);
    assert_int_equal(parse(TRAIN, &s, "--beta2=0.5", "--conventions=pytorch", "--recipe=paper",
                           NULL),
                     -1);
    assert_true(s.training.beta2 == 0.5 && s.training.epsilon == 1e-8 &&
                s.training.attention_dropout == 0);
    assert_int_equal(s.config.final_norm, 1);
    assert_int_equal(parse(TRANSLATE, &s, "--alpha=2", "--search-rule=raw", NULL, NULL), -1);
    assert_true(s.search.alpha == 2 && s.search.length_rule == TRF_LENGTH_RAW);
    assert_int_equal(parse(TRAIN, &s, "--device=cuda:2", "--precision=bf16", NULL, NULL), -1);
    assert_int_equal(s.config.device.kind, TRF_DEVICE_CUDA);
    assert_int_equal(s.config.device.index, 2);
    assert_int_equal(s.config.device.precision, TRF_PRECISION_BF16);
    assert_int_equal(s.config.device.threads, s.device.threads);
}

/* What the log of a training run has of options: those with a value, files and switches too, but not
   the names of what a training run writes, and no --size that other options have overruled. */
static char *logged(const char *a, const char *b, const char *c, const char *d)
{
    static struct settings s;
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    assert_int_equal(parse(TRAIN, &s, a, b, c, d), -1);
    print_json_options(file, &s, 0, sizeof s);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void check_logged(char *text, const char *has, const char *lacks)
{
    if (!strstr(text, has)) fail_msg("no '%s' in %s", has, text);
    if (strstr(text, lacks)) fail_msg("there is '%s' in %s", lacks, text);
    free(text);
}

static void options_of_a_log(void **state)
{
    (void)state;
    check_logged(logged("--size=base", NULL, NULL, NULL), "\"size\":\"base\"", "\"size\":\"tiny\"");
    check_logged(logged("--size=base", "--d-model=512", NULL, NULL), "\"size\":\"base\"",
                 "\"d-model\":\"128\"");
    check_logged(logged("--size=base", "--d-model=64", NULL, NULL), "\"d-model\":\"64\"",
                 "\"size\"");
    check_logged(logged("--size=base", "--decoder-layers=5", NULL, NULL),
                 "\"decoder-layers\":\"5\"", "\"size\"");
    check_logged(logged(NULL, NULL, NULL, NULL), "\"d-model\":\"128\"", "\"size\"");
    check_logged(logged("--tsv=some", "--strict", "--model=one", "--log=two"), "\"tsv\":\"some\"",
                 "\"model\"");
    check_logged(logged("--tsv=some", "--strict", "--model=one", "--log=two"), "\"strict\":\"yes\"",
                 "\"log\"");
    check_logged(logged("--overwrite", "--resume", "--quiet", NULL), "\"seed\":\"1\"",
                 "\"resume\"");
    check_logged(logged("--freeze=a*", "--freeze=b", NULL, NULL), "\"freeze\":\"a* b\",", ",,");
    check_logged(logged(NULL, NULL, NULL, NULL), "{\"objective\":\"translate\",", "\"freeze\"");
}

/* trf export compares what options of trf train set (export_config.c): all fields but these, which
   it sets itself. */
static const char *const without_option[] = {"kind", "source_vocab", "target_vocab", "pad", "bos",
                                             "eos",  "unk",          "head",         "n_labels",
                                             "mask", "seed",         "sequence_labels", "bare_prompts",
                                             "trained_source", "trained_target"};

static void check_config_field(const char *name, size_t field, size_t bytes)
{
    int i, options = 0, listed = 0;
    for (i = 0; i < (int)(sizeof without_option / sizeof *without_option); i++)
        listed += !strcmp(without_option[i], name);
    for (i = 0; i < n_rows; i++) {
        if (!(rows[i].commands & TRAIN) || !row_writes(&rows[i], AT(config) + field)) continue;
        options++;
        assert_int_equal(bytes, rows[i].kind == REAL ? sizeof(double) : sizeof(int32_t));
    }
    if (options + listed != 1) fail_msg("%s: %d options, listed %d times", name, options, listed);
}

static void fields_of_the_configuration(void **state)
{
    (void)state;
#define X(type, field, low, high, stored) \
    check_config_field(#field, offsetof(trf_config, field), sizeof(type));
    TRF__CONFIG_FIELDS(X)
#undef X
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(none_twice),
        cmocka_unit_test(one_name_of_a_field),
        cmocka_unit_test(names_of_fields),
        cmocka_unit_test(every_choice),
        cmocka_unit_test(fields),
        cmocka_unit_test(every_real),
        cmocka_unit_test(defaults),
        cmocka_unit_test(command_lines),
        cmocka_unit_test(refused_texts),
        cmocka_unit_test(lists_of_texts),
        cmocka_unit_test(effects),
        cmocka_unit_test(order_on_command_lines),
        cmocka_unit_test(options_of_a_log),
        cmocka_unit_test(fields_of_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

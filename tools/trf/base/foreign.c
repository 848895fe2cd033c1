// trf: the names that other programs have for its options, for the message about an unknown one.
//
// fairseq, Marian, OpenNMT, transformers, llama.cpp and sentencepiece; and those of trf 0.3. A name
// is written with "-" for "_". tests/test_trf_usage.sh tries every name with every command of its
// row.

#include "options.h"

#define SHOWS (TRANSLATE | CLASSIFY | TAG | RERANK | EMBED)      /* they have --input */
#define RUNS (TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | EMBED)

static const struct foreign { int commands; const char *theirs, *ours; } foreign[] = {
    {TRAIN, "lr learn-rate", "--learning-rate"},
    {TRAIN, "max-update max-steps train-steps after-batches steps num-steps iterations", "--updates"},
    {TRAIN, "max-epoch num-train-epochs after-epochs num-epochs", "--epochs"},
    {TRAIN, "max-tokens mini-batch-words", "--batch-tokens, the tokens of a batch"},
    {TRAIN, "batch-size per-device-train-batch-size mini-batch max-sentences",
     "--batch-sentences, besides --batch-tokens"},
    {TRAIN, "update-freq accum-count gradient-accumulation-steps optimizer-delay grad-accum",
     "--accumulate"},
    {TRAIN, "warmup-updates warmup-steps lr-warmup", "--warmup"},
    {TRAIN, "lr-scheduler lr-scheduler-type decay-method", "--schedule"},
    {TRAIN, "clip max-grad-norm", "--clip-norm"},
    {TRAIN, "adam-betas optimizer-params", "--beta1 and --beta2"},
    {TRAIN, "adam-beta1", "--beta1"},
    {TRAIN, "adam-beta2", "--beta2"},
    {TRAIN, "adam-eps adam-epsilon", "--epsilon"},
    {TRAIN, "arch type model-type", "--size"},
    {TRAIN, "encoder-embed-dim decoder-embed-dim dim-emb hidden-size rnn-size n-embd", "--d-model"},
    {TRAIN, "encoder-ffn-embed-dim decoder-ffn-embed-dim transformer-dim-ffn transformer-ff",
     "--d-ff"},
    {TRAIN, "encoder-attention-heads decoder-attention-heads transformer-heads heads n-head "
            "num-heads", "--n-heads"},
    {TRAIN, "enc-depth enc-layers", "--encoder-layers"},
    {TRAIN, "dec-depth dec-layers", "--decoder-layers"},
    {TRAIN, "layers n-layer n-layers num-layers", "--encoder-layers and --decoder-layers"},
    {TRAIN, "share-all-embeddings tied-embeddings-all share-embeddings", "--tying all"},
    {TRAIN, "share-decoder-input-output-embed tied-embeddings share-decoder-embeddings",
     "--tying decoder"},
    {TRAIN, "transformer-dropout", "--dropout"},
    {TRAIN, "relu-dropout transformer-dropout-ffn", "--activation-dropout"},
    {TRAIN, "transformer-dropout-attention", "--attention-dropout"},
    {TRAIN, "exponential-smoothing ema-decay average-decay", "--ema"},
    {TRAIN, "early-stopping early-stopping-patience", "--patience"},
    {TRAIN, "save-interval-updates save-freq save-checkpoint-steps save-steps",
     "--checkpoint-every"},
    {TRAIN, "valid-freq valid-steps eval-steps validate-interval-updates", "--valid-every"},
    {TRAIN, "valid-metrics valid-metric metric-for-best-model", "--metric"},
    {TRAIN, "disp-freq report-every logging-steps log-interval", "--log-every"},
    {TRAIN, "log-file log-format", "--log"},
    {TRAIN, "save-dir save-model output-dir model-prefix", "--model, a file"},
    {TRAIN, "restore-file train-from resume-from-checkpoint", "--resume"},
    {TRAIN, "finetune-from-model pretrained-model model-name-or-path", "--init-from"},
    {TRAIN, "train-sets train-file data input", "--source and --target, --tsv or --text"},
    {TRAIN, "trainpref", "--source and --target"},
    {TRAIN, "src train-src", "--source"},
    {TRAIN, "tgt train-tgt", "--target"},
    {TRAIN, "valid-sets validpref validation-file", "--valid-source and --valid-target, --valid-tsv "
            "or --valid-text"},
    {TRAIN, "valid-src", "--valid-source"},
    {TRAIN, "valid-tgt", "--valid-target"},
    {TRAIN, "vocabs dim-vocabs src-vocab-size nwordssrc", "--vocab-size"},
    {TRAIN, "criterion loss", "--objective"},
    {TRAIN, "bpe subword-type", "--tokens"},
    {TRANSLATE, "beam-size num-beams", "--beam"},
    {TRANSLATE, "lenpen length-penalty normalize", "--alpha, with --length-rule power"},
    {TRANSLATE, "nbest num-return-sequences", "--n-best"},
    {TRANSLATE, "no-repeat-ngram-size block-ngram-repeat", "--no-repeat-ngram"},
    {TRANSLATE, "repeat-penalty", "--repetition-penalty"},
    {TRANSLATE, "max-len-a max-length-factor", "--max-length-a"},
    {TRANSLATE, "max-len-b max-length max-new-tokens max-decoding-length max-len",
     "--max-length-b"},
    {TRANSLATE, "min-len min-decoding-length", "--min-length"},
    {TRANSLATE, "src-lang src", "--source-language for a code, --input for a file"},
    {TRANSLATE, "tgt-lang", "--target-language"},
    {TRANSLATE, "alignment print-alignment report-align", "--alignments"},
    {TRANSLATE, "replace-unk", "--unknown copy"},
    {TRANSLATE, "prefix-size target-prefix tgt-prefix", "--prefixes"},
    {TRANSLATE, "ban-unk suppress-unk disable-unk", "--allow-unk no"},
    {TRANSLATE, "mini-batch batch-size max-sentences", "--batch-sentences"},
    {TRANSLATE, "max-tokens", "--batch-tokens"},
    {TRANSLATE, "print-score report-score print-scores", "--scores"},
    {GENERATE, "n-predict n max-new-tokens max-length predict", "--max-tokens"},
    {GENERATE, "sampling-temperature", "--temperature"},
    {GENERATE, "topk sampling-topk", "--top-k"},
    {GENERATE, "topp sampling-topp", "--top-p"},
    {GENERATE, "repeat-penalty", "--repetition-penalty"},
    {GENERATE, "no-repeat-ngram-size", "--no-repeat-ngram"},
    {GENERATE, "p text", "--prompt"},
    {GENERATE, "f file", "--input"},
    {GENERATE, "s", "--seed"},
    {GENERATE, "num-return-sequences num-samples", "--count"},
    {GENERATE, "batch-size b", "--batch-sentences"},
    {GENERATE, "min-new-tokens min-length", "--min-tokens"},
    {GENERATE, "bad-words-ids", "--ban"},
    {GENERATE, "r reverse-prompt stop-sequences stop-strings", "--stop"},
    {GENERATE, "i", "--interactive"},
    {CLASSIFY | TAG | EMBED | SCORE, "batch-size mini-batch per-device-eval-batch-size", "--buffer"},
    {TRANSLATE | CLASSIFY | TAG | EMBED | SCORE, "batch buffer-size", "--buffer"},
    {INSPECT, "batch", "--translate-batch"},
    {CLASSIFY, "n-best", "--top"},
    {ATTENTION, "source", "--source-text"},
    {ATTENTION, "target", "--target-text"},
    {REPORT, "lines", "--worst"},
    {TAG, "columns", "--conll"},
    {TRAIN, "normalise normalize normalization-rule-name", "--normalization"},
    {TRAIN, "keep-last-epochs keep-checkpoint save-total-limit", "--keep-models"},
    {SHOWS, "i file input-file", "--input"},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG, "models",
     "--model, and --with for each further one"},
    {RUNS, "m models path model-path model-name-or-path checkpoint", "--model"},
    {RUNS, "output-file", "--output"},
    {RUNS | TRAIN, "t num-threads cpu-threads intra-threads", "--threads"},
    {RUNS | TRAIN, "gpu ngl n-gpu-layers gpu-layers devices gpus world-size",
     "--device cuda"},
    {RUNS | TRAIN, "fp16 bf16 mixed-precision", "--precision bf16"},
    {RUNS, "compute-type quantization int8 load-in-8bit", "--weights"},
    {SCORE, "src", "--source"},
    {SCORE, "tgt", "--target"},
};

const char *ours_for(int command, const char *theirs)
{
    size_t i, n = strlen(theirs);
    for (i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const char *at = foreign[i].commands & command ? foreign[i].theirs : "", *end;
        for (; *at; at = *end ? end + 1 : end) {
            end = at + strcspn(at, " ");
            if ((size_t)(end - at) == n && !memcmp(at, theirs, n)) return foreign[i].ours;
        }
    }
    return NULL;
}

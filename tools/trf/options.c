// trf: the table of all options, with help and parsing. See trf.h.

#include "trf.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>settings       defaults, and what an option does beyond writing its field
//
// Options that follow from the data (recipe.c) have no default here.
// -----------------------------------------------------------------------------------------------

/* One seed for everything that is random. */
static void then_seed(struct settings *s) { s->config.seed = s->training.seed = s->corpus.seed = s->seed; }

void set_defaults(struct settings *s)
{
    memset(s, 0, sizeof *s);
    s->config = trf_config_tiny();
    s->training = trf_train_defaults();
    s->corpus = trf_corpus_defaults();
    s->search = trf_search_defaults();
    s->config.hooks.log = s->training.hooks.log = s->corpus.hooks.log = s->search.hooks.log = log_warning;
    s->noise = trf_noise_defaults();
    s->sampling = trf_sampling_defaults();
    s->min_count = 1;
    s->dropout = s->training.dropout;
    s->seed = s->config.seed;
    then_seed(s);
    s->device = trf_device_default();
    s->updates = INT64_MAX;
    s->minutes = HUGE_VAL;
    s->checkpoint_every = 1000;
    s->log_every = 100;
    s->accumulate = s->seeds = s->valid_beam = s->average = s->subword_samples = 1;
    s->subword_alpha = 0.1;
    s->chunk = s->config.max_length - 1;
    s->count = 1;
    s->labels_told = INT64_MAX;
    s->batch = 32;
    s->lines = 200;
    s->labels = 2;
    s->source_length = s->target_length = 32;
    s->metrics = "bleu,chrf,exact,wer,cer";
    s->plot_schedules = "noam";
    s->plot_warmups = "4000";
    s->plot_updates = 20000;
    s->plot_rows = 50;
    s->plot_kinds = "full,causal";
    s->plot_length = 8;
}

/* What an option does beyond writing its field. Rows are applied in the order of the table, whatever the
   order on the command line: presets first, then single fields. */

static void then_size(struct settings *s)
{
    trf_config size;
    if (s->size == SIZE_AUTO) return;
    size = s->size == SIZE_BASE ? trf_config_base() : s->size == SIZE_BIG ? trf_config_big() : trf_config_tiny();
    if (s->size == SIZE_SMALL) {
        size.encoder_layers = size.decoder_layers = 3;
        size.d_model = 256;
        size.d_ff = 512;
    }
    s->config.d_model = size.d_model;
    s->config.n_heads = size.n_heads;
    s->config.d_ff = size.d_ff;
    s->config.encoder_layers = size.encoder_layers;
    s->config.decoder_layers = size.decoder_layers;
}

/* Adam and the rule of smoothing. Schedule, smoothing and dropout stay: --recipe decides them. */
static void then_conventions(struct settings *s)
{
    trf_train_options *o = &s->training, kept = *o;
    trf_config_set_conventions(&s->config, (trf_conventions)s->conventions);
    trf_train_set_conventions(o, (trf_conventions)s->conventions);
    o->schedule = kept.schedule;
    o->learning_rate = kept.learning_rate;
    o->warmup = kept.warmup;
    o->label_smoothing = kept.label_smoothing;
    o->dropout = kept.dropout;
    o->attention_dropout = kept.attention_dropout;
    o->activation_dropout = kept.activation_dropout;
    o->residual_dropout = kept.residual_dropout;
}

static void then_recipe(struct settings *s)
{
    if (s->recipe != RECIPE_PAPER) return;
    s->conventions = TRF_CONVENTIONS_PAPER;
    trf_config_set_conventions(&s->config, TRF_CONVENTIONS_PAPER);
    trf_train_set_conventions(&s->training, TRF_CONVENTIONS_PAPER);
}

static void then_tokens(struct settings *s) { s->source_tokens = s->target_tokens = s->tokens; }
static void then_vocab_size(struct settings *s) { s->source_vocab_size = s->target_vocab_size = s->vocab_size; }

static void then_sentencepiece(struct settings *s)
{
    s->source_sentencepiece = s->target_sentencepiece = s->sentencepiece;
}

static void then_dropout(struct settings *s) { trf_train_set_dropout(&s->training, s->dropout); }
static void then_rule(struct settings *s) { trf_search_set_rule(&s->search, (trf_search_rule)s->search_rule); }

static void then_device(struct settings *s) { s->config.device = s->device; }

// -----------------------------------------------------------------------------------------------
// >>options        the table: each option once
//
// From one row come the parsing, the help text with its default, the list of a checkpoint's
// settings, and the check that a resumed run is asked for the model it has. Options that are
// fields of the library's structs carry the fields' names.
// -----------------------------------------------------------------------------------------------

#define NO_YES "no|yes"
#define POSITIONS "interleaved|halves-n1|halves|learned|none"
#define EMBEDDING_INITS "normal-d|normal-1|xavier|fan-out"
#define SMOOTHINGS "uniform|others|others-kl|no-pad-kl"
#define TOKENS "auto|words|characters|sentencepiece:unigram|sentencepiece:bpe|sentencepiece"
#define METRICS "auto|loss|bleu|chrf|exact|wer|cer|accuracy|f1"
#define OBJECTIVES "translate|causal|classify|tag|mask|span"
#define RULES "paper|fairseq|ctranslate2|marian|raw|hugging-face"

#define SHAPES "none|paper-base|paper-big|gpt2|gpt2-medium|gpt2-large|gpt2-xl|bert-base|bert-large|t5-small|t5-base|" \
    "t5-large|opus-mt"

const struct row rows[] = {
    {INSPECT, HEADING, "A model without a file (options of trf train, and these)", 0, NULL, NULL, NULL},
    {INSPECT, CHOICE, "shape", AT(shape), SHAPES,
     "the numbers of a published model, its count of weights beside the one here, and what of it cannot be built here; "
     "other options change it", NULL},
    {INSPECT, COUNT, "labels", AT(labels), "N", "with --objective classify and tag: how many labels", NULL},
    {INSPECT, COUNT, "source-length", AT(source_length), "N",
     "tokens of the source, for FLOPs and shapes, or as many as the model takes", NULL},
    {INSPECT, COUNT, "target-length", AT(target_length), "N", "and of the target", NULL},
    {INSPECT, FLAG, "trace", AT(trace), NULL, "the shape that each step of a pass leaves, of a model in a file too", NULL},
    {RUN | ATTENTION, HEADING, "Data", 0, NULL, NULL, NULL},
    {TRAIN | INSPECT, CHOICE, "objective", AT(objective), OBJECTIVES,
     "what is learned. translate: the other line of each pair; causal: a text, token by token (a language model); "
     "classify: a label for a text (the target); tag: a label for each word (as many in the target); mask: hidden "
     "tokens of a text (as BERT); span: missing spans of a text (as T5)", NULL},
    {TRAIN | SCORE, TEXT, "source", AT(source), "FILE",
     "source side, a sentence a line; '-' is standard input", NULL},
    {TRAIN | SCORE, TEXT, "target", AT(target), "FILE", "target side: line n belongs to line n of the source", NULL},
    {TRAIN | SCORE, TEXT, "tsv", AT(tsv), "FILE", "both sides in one file instead: source, one tab, target", NULL},
    {TRAIN, TEXT, "columns", AT(columns), "S,T",
     "of a TSV with more columns (and of --valid-tsv), which are source and target, from 1; without it there are "
     "exactly two. Quotation marks are part of the text", NULL},
    {SCORE | REPORT, TEXT, "columns", AT(columns), "S,T",
     "of a TSV with more columns, which are source and target, from 1; without it there are exactly two. Quotation "
     "marks are part of the text", NULL},
    {TRAIN, TEXT, "text", AT(text), "FILE", "for causal, mask and span: the text, and nothing else", NULL},
    {TRAIN, CHOICE, "documents", AT(documents), "lines|file",
     "every line is a document, or the whole file is one, in which a line end is a token (of characters, and of "
     "subwords that are learned here; words have none)", NULL},
    {TRAIN, FLAG, "pack", AT(pack), NULL,
     "documents follow one another in a chunk; without it each begins one", NULL},
    {TRAIN | FROM_DATA, COUNT, "chunk", AT(chunk), "N",
     "tokens of a chunk, into which documents are cut, at most: 2 to max-length - 1, and without it max-length - 1. "
     "A model learns nothing about positions beyond its longest chunk", NULL},
    {TRAIN, TEXT, "valid-source", AT(valid_source), "FILE", "pairs for validation, never trained on: source", NULL},
    {TRAIN, TEXT, "valid-target", AT(valid_target), "FILE", "and target", NULL},
    {TRAIN, TEXT, "valid-tsv", AT(valid_tsv), "FILE", "or both in one file", NULL},
    {TRAIN, TEXT, "valid-text", AT(valid_text), "FILE", "or text alone", NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "valid-size", AT(valid_size), "N",
     "without these, about so many pairs are held out of the training data, with all lines of their "
     "source if these are up to four: about a twentieth, and 1,000 at most (with --documents file as many lines at "
     "its end); 0: none", NULL},
    {TRAIN, FLAG, "strict", AT(strict), NULL,
     "a line that cannot be trained on ends the training; without it, it is left out and reported", NULL},
    {TRAIN, FLAG, "keep-empty", AT(keep_empty), NULL,
     "train on pairs with one empty side; without it they are left out and reported", NULL},
    {TRANSLATE | CLASSIFY | TAG, TEXT, "input", AT(input), "FILE",
     "sentences, one a line (or the file's name without this option); without it, or '-': standard input", NULL},
    {TRANSLATE, TEXT, "prefixes", AT(prefixes), "FILE",
     "line n is what the answer to line n begins with (forced decoding), words that the model does not know as its "
     "unknown token; an empty line leaves it free, and so does one that is not there", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG, TEXT, "output", AT(output), "FILE",
     "results; without it, or '-': standard output", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | REPORT, FLAG, "overwrite", AT(overwrite), NULL,
     "--output may replace a file that exists", NULL},
    {TRAIN, TEXT, "model", AT(model), "FILE",
     "the model file (safetensors): the best so far from the first validation on", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG, TEXT, "model", AT(model), "FILE",
     "the model file, made by trf train; or a checkpoint, which has the weights of its last update without the "
     "average of --ema", NULL},
    {REPORT, TEXT, "model", AT(model), "FILE", "the model file: its parts and its vocabulary, and its answers to --data", NULL},
    {REPORT, TEXT, "data", AT(data), "FILE",
     "what --model answers, a line each: a source, one tab and a reference; for a model that gives labels a text, one tab "
     "and its label, or the labels of its words; for a language model a text", NULL},
    {REPORT, NUMBER, "lines", AT(lines), "N",
     "show the N worst lines of --data; scores count all", NULL},
    {REPORT, TEXT, "output", AT(output), "FILE", "the page; '-' is standard output", NULL},

    {TRAIN | INSPECT, HEADING, "Tokens", 0, NULL, NULL, NULL},
    {TRAIN | FROM_DATA, CHOICE, "tokens", AT(tokens), TOKENS,
     "what a token is: a word between blanks, a UTF-8 character, or a subword of raw text, learned here by "
     "libsentencepiece (sentencepiece alone is unigram). auto: words where nearly all of them are seen several "
     "times, else characters for single words, else subwords", then_tokens},
    {TRAIN | FROM_DATA, CHOICE, "source-tokens", AT(source_tokens), TOKENS, "the same for the source alone", NULL},
    {TRAIN | FROM_DATA, CHOICE, "target-tokens", AT(target_tokens), TOKENS, "and for the target", NULL},
    {TRAIN, TEXT, "sentencepiece", AT(sentencepiece), "FILE",
     "subwords of this SentencePiece model, for both sides", then_sentencepiece},
    {TRAIN, TEXT, "source-sentencepiece", AT(source_sentencepiece), "FILE", "for the source alone", NULL},
    {TRAIN, TEXT, "target-sentencepiece", AT(target_sentencepiece), "FILE", "for the target", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "vocab-size", AT(vocab_size), "N",
     "keep at most so many tokens a side, four special ones included, the most frequent first; of subwords: learn so "
     "many, SentencePiece's three special ones included. Without it 32000, and for subwords what the text can bear, "
     "8000 at most", then_vocab_size},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "source-vocab-size", AT(source_vocab_size), "N",
     "the same for the source alone", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "target-vocab-size", AT(target_vocab_size), "N", "and for the target", NULL},
    {TRAIN, LONG_COUNT, "min-count", AT(min_count), "N",
     "leave out tokens seen less often than this; of words and characters", NULL},
    {TRAIN, CHOICE, "normalise", AT(normalise), "auto|identity|nfc|nfkc",
     "how text is normalised before it is cut into the subwords that are learned here. identity: not at all; nfc: a "
     "letter and its mark become one character (Unicode's NFC), a tab becomes a blank; nfkc: SentencePiece's "
     "nmt_nfkc, which also rewrites characters (x\xC2\xB2 becomes x2). auto: nfc for a source, identity for a target; for "
     "one vocabulary of both sides nfc if it leaves every target as it is, else identity", NULL},
    {TRAIN, COUNT, "subword-samples", AT(subword_samples), "N",
     "translate: subword regularisation (Kudo 2018): train on N copies of every pair, the first cut best, the others "
     "cut into "
     "subwords at random; a pass over the data is N times as long", NULL},
    {TRAIN, REAL, "subword-alpha", AT(subword_alpha), "X",
     "how random, 0 to 1: unigram samples from probabilities to the power X (0: all cuts alike), BPE leaves out a "
     "share X of its merges (Provilkov et al. 2020)", NULL},
    {TRAIN | INSPECT | FROM_DATA, SWITCH, "joint-vocabulary", AT(joint_vocabulary), NO_YES,
     "one vocabulary for both sides; implied by --tying all and embeddings", NULL},

    {TRAIN | INSPECT, HEADING, "Presets (single options win over them, wherever they stand)", 0, NULL, NULL, NULL},
    {TRAIN | INSPECT, CHOICE, "recipe", AT(recipe), "auto|paper",
     "auto: what is marked 'from the data' or 'of --recipe auto' is chosen to give a good model; paper: Vaswani et "
     "al. 2017 as it stands, with its base model, 4,000 updates of warm-up, and batches of 4,096 tokens; what tokens "
     "are, and when to validate, follows from the data all the same", then_recipe},
    {TRAIN | INSPECT | FROM_DATA, CHOICE, "size", AT(size), "auto|tiny|small|base|big",
     "layers of encoder + decoder, d-model / d-ff, heads: tiny 4+4, 128 / 256, 4; small 3+3, 256 / 512, 4; base 6+6, "
     "512 / 2048, 8; big 6+6, 1024 / 4096, 16", then_size},
    {TRAIN | INSPECT, CHOICE, "conventions", AT(conventions), "pytorch|paper",
     "sets what these two do differently, in the model and in training; without it the defaults are as listed",
     then_conventions},
    {TRAIN, SEED, "seed", AT(seed), "N",
     "of the initial weights, of dropout and of the order of the data", then_seed},

    {TRAIN | INSPECT, HEADING, "Model", 0, NULL, NULL, NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "d-model", AT(config.d_model), "N", "width of every token's vector", NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "n-heads", AT(config.n_heads), "N", "attention heads; divides d-model", NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "d-ff", AT(config.d_ff), "N", "inner width of the feed-forward block", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "encoder-layers", AT(config.encoder_layers), "N", "layers of the encoder", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "decoder-layers", AT(config.decoder_layers), "N", "layers of the decoder", NULL},
    {TRAIN | INSPECT, COUNT, "max-length", AT(config.max_length), "N",
     "longest sequence in tokens, its begin or end mark included, 2 to 1048576; longer pairs are left out and "
     "reported", NULL},
    {TRAIN | INSPECT, CHOICE, "activation", AT(config.activation), "relu|gelu|silu", "of the feed-forward block", NULL},
    {TRAIN | INSPECT, CHOICE, "positions", AT(config.positions), POSITIONS,
     "sines and cosines: in turn, angle p / 10000^(2i/d) (paper, PyTorch tutorials); in two halves, angle p / "
     "10000^(i/(d/2-1)) (tensor2tensor, fairseq, Marian); in two halves with the paper's angle (Hugging Face "
     "Marian); or learned, or none", NULL},
    {TRAIN | INSPECT, NUMBER, "position-offset", AT(config.position_offset), "N", "number of the first position", NULL},
    {TRAIN | INSPECT | FROM_DATA, CHOICE, "norm-place", AT(config.norm_place), "post-norm|pre-norm",
     "post-norm: norm(x + sublayer(x)), the paper; pre-norm: x + sublayer(norm(x))", NULL},
    {TRAIN | INSPECT, CHOICE, "norm-rule", AT(config.norm_rule), "standard|annotated|rms",
     "standard: (x - mean) / sqrt(variance + epsilon); annotated: (x - mean) / (deviation + epsilon), The "
     "Annotated Transformer; rms: x / sqrt(mean of squares + epsilon), without a bias, T5 and Llama", NULL},
    {TRAIN | INSPECT, REAL, "norm-epsilon", AT(config.norm_epsilon), "X", "epsilon of layer norm", NULL},
    {TRAIN | INSPECT, CHOICE, "final-norm", AT(config.final_norm), NO_YES "|encoder|decoder",
     "one more norm after the last layer: of no stack, of both, of the encoder or of the decoder alone", NULL},
    {TRAIN | INSPECT, SWITCH, "scale-embeddings", AT(config.scale_embeddings), NO_YES,
     "multiply embeddings by sqrt(d-model)", NULL},
    {TRAIN | INSPECT | FROM_DATA, CHOICE, "tying", AT(config.tying), "untied|decoder|all|embeddings",
     "matrices that are one: decoder: target embedding and output projection; all: these and the source embedding; "
     "embeddings: source and target embedding, with an output projection of its own (T5). all and embeddings need one "
     "vocabulary", NULL},
    {TRAIN | INSPECT | FROM_DATA, SWITCH, "generator-bias", AT(config.generator_bias), NO_YES,
     "a bias in the output projection", NULL},
    {TRAIN | INSPECT, SWITCH, "qkv-bias", AT(config.qkv_bias), NO_YES,
     "biases in the projections to queries, keys and values", NULL},
    {TRAIN | INSPECT, SWITCH, "out-bias", AT(config.out_bias), NO_YES, "a bias in attention's output projection", NULL},
    {TRAIN | INSPECT, SWITCH, "feed-forward-bias", AT(config.feed_forward_bias), NO_YES, "biases in feed-forward", NULL},
    {TRAIN | INSPECT, CHOICE, "init", AT(config.init), "xavier-packed|xavier|linear",
     "first weights of attention and feed-forward, uniform +-sqrt(6 / (in + out)): q, k and v counted as one "
     "matrix (nn.Transformer) or as three (tensor2tensor); linear: these and their biases uniform +-1 / sqrt(in) "
     "(nn.Linear)", NULL},
    {TRAIN | INSPECT, CHOICE, "embedding-init", AT(config.embedding_init), EMBEDDING_INITS,
     "first embeddings: normal with deviation 1 / sqrt(d-model) or 1, uniform +-sqrt(6 / (vocabulary + "
     "d-model)) or +-sqrt(3 / d-model)", NULL},
    {TRAIN | INSPECT, SWITCH, "source-eos", AT(config.source_eos), NO_YES, "end every source with an end mark", NULL},
    {TRAIN | INSPECT, SWITCH, "target-eos", AT(config.target_eos), NO_YES,
     "end every target with an end mark; without, models do not learn where to end", NULL},
    {TRAIN | INSPECT, CHOICE, "decoder-start", AT(config.decoder_start), "bos|eos|pad|zero",
     "what the decoder reads before its first token; zero: a vector of zeros", NULL},

    {TRAIN | INSPECT, CHOICE, "pooling", AT(pooling), "mean|first",
     "classify: from the mean of all rows of the encoder's output, or from the first", NULL},

    {TRAIN, HEADING, "What is hidden (mask, span)", 0, NULL, NULL, NULL},
    {TRAIN, REAL, "noise-density", AT(noise.density), "X",
     "share of the tokens that is hidden, 0 to 1", NULL},
    {TRAIN, REAL, "masked-share", AT(noise.masked), "X",
     "of these, mask: the share that becomes the mask, 0 to 1 less --random-share", NULL},
    {TRAIN, REAL, "random-share", AT(noise.randomised), "X",
     "and that which becomes another token; the rest stay", NULL},
    {TRAIN, SWITCH, "whole-words", AT(noise.whole_words), NO_YES, "mask: all tokens of a word, or none", NULL},
    {TRAIN, REAL, "mean-span", AT(noise.mean_span), "X",
     "span: tokens of a missing span, on the average, 1 or more", NULL},

    {TRAIN, HEADING, "Fine-tuning", 0, NULL, NULL, NULL},
    {TRAIN, TEXT, "init-from", AT(init_from), "FILE",
     "begin with this model: its vocabularies, its options under 'Model', and its weights as far as the new model "
     "has them; also a model of another objective, whose encoder or decoder is taken (a half that it lacks is new, "
     "and as deep as the other)", NULL},
    {TRAIN, FLAG, "extend-vocabulary", AT(extend_vocabulary), NULL,
     "with it: tokens of the training data that its vocabularies lack are added; of words and characters", NULL},
    {TRAIN, TEXTS, "freeze", AT(freeze), "PATTERN",
     "parameters of such names keep their values ('*': any characters; \"encoder.*\"); may be given several times",
     NULL},

    {TRAIN, HEADING, "Training", 0, NULL, NULL, NULL},
    {TRAIN, LONG_NUMBER, "updates", AT(updates), "N", "end after update N, counted from the very beginning", NULL},
    {TRAIN, LONG_COUNT, "epochs", AT(corpus.epochs), "N",
     "end after N passes over the data", NULL},
    {TRAIN, REAL, "minutes", AT(minutes), "X",
     "end after X minutes (above 0), those before --resume included if --minutes was given there too", NULL},
    {TRAIN | FROM_DATA, NUMBER, "patience", AT(patience), "N",
     "early stopping: end when N validations in a row bring nothing better (3 once the score is perfect); 0: never. "
     "Without it, 10 where none of the three above is given, else 0", NULL},
    {TRAIN, COUNT, "accumulate", AT(accumulate), "N", "batches summed into one update (gradient accumulation)", NULL},
    {TRAIN, CHOICE, "optimizer", AT(training.optimizer), "adam|adamw", "the rule of the update", NULL},
    {TRAIN | FROM_DATA, CHOICE, "schedule", AT(training.schedule), "noam|inverse-sqrt|cosine|constant",
     "learning rate of update s. noam: learning-rate * d-model^-0.5 * min(s^-0.5, s * warmup^-1.5), the "
     "paper; the others rise linearly during warm-up, then fall with sqrt(warmup / s), fall as half a cosine, "
     "or stay", NULL},
    {TRAIN | FROM_DATA, REAL, "learning-rate", AT(training.learning_rate), "X",
     "a factor for noam, the highest rate for the others", NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "warmup", AT(training.warmup), "N", "updates in which the rate rises", NULL},
    {TRAIN, REAL, "initial-rate", AT(training.initial_rate), "X", "where it rises from; not for noam", NULL},
    {TRAIN, REAL, "final-rate", AT(training.final_rate), "X", "where cosine ends", NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "total-steps", AT(training.total_steps), "N",
     "when cosine ends; without it: at --updates or at the end of --epochs", NULL},
    {TRAIN, REAL, "beta1", AT(training.beta1), "X", "Adam: decay of the first moment, 0 to below 1", NULL},
    {TRAIN, REAL, "beta2", AT(training.beta2), "X", "Adam: decay of the second moment, 0 to below 1", NULL},
    {TRAIN, REAL, "epsilon", AT(training.epsilon), "X", "Adam: epsilon", NULL},
    {TRAIN, CHOICE, "epsilon-rule", AT(training.epsilon_rule), "outside|fairseq|inside",
     "Adam: m / (sqrt(v) + epsilon) with bias-corrected m and v (PyTorch); the same with epsilon added to the "
     "raw sqrt(v) (fairseq, tensor2tensor); m / sqrt(v + epsilon)", NULL},
    {TRAIN, REAL, "weight-decay", AT(training.weight_decay), "X",
     "adamw: weights shrink by learning rate times this; adam: added to the gradient, times the weights", NULL},
    {TRAIN, SWITCH, "decay-all", AT(training.decay_all), NO_YES, "decay biases, norms and embeddings too", NULL},
    {TRAIN, REAL, "clip-norm", AT(training.clip_norm), "X",
     "largest norm of the whole gradient; 1e300: no limit", NULL},
    {TRAIN | FROM_DATA, REAL, "label-smoothing", AT(training.label_smoothing), "X",
     "e, the share of probability that is spread over all tokens, 0 to below 1; without it 0.1 for translate and span, "
     "and 0 for causal, mask, classify and tag, whose probabilities are used as they are", NULL},
    {TRAIN, CHOICE, "smoothing-rule", AT(training.smoothing_rule), SMOOTHINGS,
     "the share e of V tokens: uniform: e / V on each, the right one too (PyTorch, Marian); others: e / (V-1) "
     "on each wrong one (fairseq); others-kl: the same less its entropy (tensor2tensor); no-pad-kl: e / "
     "(V-2), nothing on pad (Annotated Transformer, JoeyNMT)", NULL},
    {TRAIN | FROM_DATA, REAL, "dropout", AT(dropout), "X",
     "all four dropouts at once, each 0 to below 1; the next four change one of them", then_dropout},
    {TRAIN | FROM_DATA, REAL, "embedding-dropout", AT(training.dropout), "X",
     "on the sum of embedding and position", NULL},
    {TRAIN | FROM_DATA, REAL, "attention-dropout", AT(training.attention_dropout), "X", "on attention weights", NULL},
    {TRAIN | FROM_DATA, REAL, "activation-dropout", AT(training.activation_dropout), "X",
     "inside the feed-forward block", NULL},
    {TRAIN | FROM_DATA, REAL, "residual-dropout", AT(training.residual_dropout), "X",
     "on the output of every sublayer", NULL},

    {TRAIN | INSPECT, HEADING, "Batches", 0, NULL, NULL, NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "batch-tokens", AT(corpus.batch_tokens), "N",
     "at most so many tokens a side in a batch; a pair that has more is a batch of its own", NULL},
    {TRAIN | INSPECT, COUNT, "batch-sentences", AT(corpus.batch_sentences), "N", "and at most so many pairs", NULL},
    {TRAIN, SWITCH, "padded-budget", AT(corpus.padded_budget), NO_YES,
     "count tokens as systems with padding do: the longest pair times the pairs", NULL},
    {TRAIN, SWITCH, "shuffle", AT(corpus.shuffle), NO_YES, "a new order in each epoch", NULL},
    {TRAIN, SWITCH, "buckets", AT(corpus.buckets), NO_YES, "pairs of similar length share a batch", NULL},
    {TRAIN | INSPECT, SWITCH, "recompute", AT(training.recompute), NO_YES,
     "keep only the outputs of layers and compute the rest again: less memory, a fifth more time, the same model",
     NULL},

    {TRAIN, HEADING, "Stopping, going on, reporting", 0, NULL, NULL, NULL},
    {TRAIN, TEXT, "checkpoint", AT(checkpoint), "FILE",
     "where the state of training is kept; without it: the model's name and .checkpoint; '' keeps none", NULL},
    {TRAIN, LONG_NUMBER, "checkpoint-every", AT(checkpoint_every), "N",
     "write it every N updates, whenever a validation finds a better model, and at the end; 0: not every so "
     "often", NULL},
    {TRAIN, FLAG, "resume", AT(resume), NULL,
     "go on from the checkpoint, as if never stopped; same data, batch options, --max-length and --seed", NULL},
    {TRAIN, FLAG, "overwrite", AT(overwrite), NULL,
     "begin anew where a model, a checkpoint or a log of these names exists, and replace it; with --resume: replace a "
     "--model that another training wrote", NULL},
    {TRAIN, TEXT, "log", AT(log), "FILE",
     "JSON lines: the start with the options and their values, progress, validations, the end; trf plot draws it, trf "
     "report compares several", NULL},
    {TRAIN | SCORE | REPORT, FLAG, "quiet", AT(quiet), NULL,
     "on standard error nothing but warnings and errors", NULL},
    {TRAIN, LONG_COUNT, "log-every", AT(log_every), "N",
     "a line of progress every N updates, and at least every 30 seconds", NULL},

    {TRAIN, HEADING, "Validation, and which model it keeps", 0, NULL, NULL, NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "valid-every", AT(valid_every), "N",
     "validate every N updates, and at the end; 0: after each pass over the data. Without it, after a pass, but not "
     "more often than every 100 updates nor less often than every 1,000", NULL},
    {TRAIN | FROM_DATA, CHOICE, "metric", AT(metric), METRICS,
     "what is called better: the loss, or translations of the pairs held out: BLEU (of words between blanks, '@@ ' "
     "joined, where tokens are words, else as trf eval), chrF, share of exact answers, error rate of words or "
     "characters; of labels the share of right ones or their macro-averaged F1. auto: "
     "accuracy for labels, loss for text alone; for translations bleu where targets have six tokens and more of a "
     "vocabulary beyond 500, cer where they are characters, else wer", NULL},
    {TRAIN, COUNT, "valid-beam", AT(valid_beam), "N", "beam of these translations, 1 to 1024; 1: greedy", NULL},
    {TRAIN | FROM_DATA, REAL, "ema", AT(ema), "X",
     "validate and keep an exponential moving average of the weights, to which each update adds the share X, and "
     "in the beginning more: update s the share 9 / (10 + s); 0 to 0.5, 0: the weights themselves", NULL},
    {TRAIN, NUMBER, "keep", AT(keep), "N",
     "keep the models of the last N validations, as the model's name and .update-NUMBER", NULL},
    {TRAIN, COUNT, "average", AT(average), "N",
     "the model is at the end the mean of N validated ones, if that is better than the best (checkpoint averaging)",
     NULL},
    {TRAIN, CHOICE, "average-of", AT(average_of), "best|last",
     "which: the N best validated ones, or the N last (always, where nothing is validated)", NULL},
    {TRAIN, COUNT, "seeds", AT(seeds), "N",
     "train N times with --seed and the numbers after it, to models (and logs) with .seed-NUMBER behind the name; "
     "report mean and deviation, and copy the best to --model", NULL},

    {TRANSLATE, HEADING, "Answers", 0, NULL, NULL, NULL},
    {TRANSLATE, COUNT, "n-best", AT(search.n_best), "N",
     "the N best answers (at most --beam, which is as wide as need be where it is not given; fewer where the search "
     "ends with fewer), in the form INDEX tab RANK tab SCORE tab TEXT; INDEX is the line's number. Answers of "
     "subwords may have the same text, cut in different ways", NULL},
    {TRANSLATE, FLAG, "scores", AT(scores), NULL, "put the score and a tab before each answer", NULL},
    {TRANSLATE, FLAG, "json", AT(json), NULL,
     "an object a line: line, source, answers with text, score, log-probability, tokens, and how each ended; "
     "unusable where there can be none", NULL},
    {TRANSLATE, FLAG, "token-scores", AT(token_scores), NULL,
     "with --json: the log-probability of each token, and the end mark's behind them", NULL},
    {TRANSLATE, FLAG, "alignments", AT(alignments), NULL,
     "with --json: for each answer the source token that each target token attends to most", NULL},
    {TRANSLATE, MAYBE, "attention", AT(attention), "mean|all",
     "with --json: the whole matrix of it. mean, or the option alone: the mean of the heads of the last decoder layer; "
     "all: a list of layers, each a list of heads, each a matrix", NULL},
    {GENERATE, HEADING, "Texts", 0, NULL, NULL, NULL},
    {GENERATE, TEXT, "prompt", AT(prompt), "TEXT",
     "what to go on with (or the text without this option); without it and --input: nothing, or, of an encoder-decoder model, the lines of standard "
     "input", NULL},
    {GENERATE, TEXT, "input", AT(input), "FILE",
     "go on with each line of it ('-': standard input); of an encoder-decoder model: answer each line", NULL},
    {GENERATE, COUNT, "count", AT(count), "N", "draw N texts for each", NULL},
    {GENERATE, FLAG, "json", AT(json), NULL, "an object a text: text, log-probability, tokens, how it ended", NULL},
    {GENERATE, FLAG, "token-scores", AT(token_scores), NULL,
     "with --json: the tokens that were drawn, and the log-probability of each, the end mark's behind them", NULL},
    {GENERATE, HEADING, "Sampling (in this order)", 0, NULL, NULL, NULL},
    {GENERATE, SEED, "seed", AT(seed), "N", "the same number draws the same texts", NULL},
    {GENERATE, REAL, "repetition-penalty", AT(sampling.repetition_penalty), "X",
     "logits of tokens that were there already are divided by it, negative ones multiplied (Keskar et al. 2019)",
     NULL},
    {GENERATE, REAL, "temperature", AT(sampling.temperature), "X",
     "logits are divided by it; 0: always the most likely token", NULL},
    {GENERATE, NUMBER, "top-k", AT(sampling.top_k), "N", "of the N most likely tokens; 0: of all", NULL},
    {GENERATE, REAL, "top-p", AT(sampling.top_p), "X",
     "of as few of the most likely as have this probability (0 to 1) together (Holtzman et al. 2020)", NULL},
    {GENERATE, REAL, "min-p", AT(sampling.min_p), "X",
     "of those with at least this share (0 to 1) of the largest probability (Nguyen et al. 2024)", NULL},
    {GENERATE, COUNT, "max-tokens", AT(sampling.max_tokens), "N",
     "tokens drawn for a text, at most; an encoder-decoder's text has no more than max-length - 1", NULL},
    {GENERATE, NUMBER, "min-tokens", AT(sampling.min_tokens), "N", "before it may end", NULL},
    {GENERATE, SWITCH, "allow-unk", AT(sampling.allow_unk), NO_YES, "<unk> may be drawn", NULL},
    {GENERATE, COUNT, "batch", AT(batch), "N", "texts drawn at a time", NULL},
    {CLASSIFY | TAG, HEADING, "Answers", 0, NULL, NULL, NULL},
    {CLASSIFY, FLAG, "truncate", AT(truncate), NULL,
     "label a line that is too long by its beginning, as many tokens as the model takes; without it the answer is an "
     "empty line", NULL},
    {TAG, FLAG, "split", AT(split), NULL,
     "label a line that is too long in parts, cut between words, each as if it were a line; without it the answer is "
     "an empty line", NULL},
    {SCORE, HEADING, "Texts that are too long", 0, NULL, NULL, NULL},
    {SCORE, FLAG, "split", AT(split), NULL,
     "of a language model: cut a text that is longer than those of the training into parts, as trf train does, and "
     "score each part as if nothing came before it; without it a text that is too long for the model has no score",
     NULL},
    {CLASSIFY, FLAG, "scores", AT(scores), NULL, "put the probability and a tab before each label", NULL},
    {CLASSIFY, FLAG, "json", AT(json), NULL,
     "an object a line: all labels with their probabilities, the most probable first", NULL},
    {TAG, FLAG, "json", AT(json), NULL,
     "an object a line: the words, each with its label and that one's probability", NULL},
    {CLASSIFY | TAG, MAYBE, "attention", AT(attention), "mean|all",
     "with --json: tokens, and a row of attention of the encoder for each, the end mark's last. mean, or the option alone: "
     "the mean of the heads of the last layer; all: a list of layers, each a list of heads, each a matrix", NULL},
    {CLASSIFY, LONG_COUNT, "n-best", AT(labels_told), "N", "with --json: the N most probable labels alone", NULL},
    {TRANSLATE, CHOICE, "unknown", AT(unknown), "count|report|copy|drop",
     "what is done about words that the model does not know. count: a line at the end where they are more than 5 % of "
     "the tokens; report: a line for every source line that has some; copy: each <unk> of an answer becomes the unknown "
     "word of the source that it attends to most; drop: answers lose their <unk>. --json lists the unknown words of a "
     "source in any case", NULL},
    {TRANSLATE | REPORT | INSPECT, HEADING, "Search", 0, NULL, NULL, NULL},
    {TRANSLATE, CHOICE, "search-rule", AT(search_rule), RULES,
     "whose search: sets the options from --length-rule to --renormalize-logits", then_rule},
    {TRANSLATE | REPORT | INSPECT, COUNT, "beam", AT(search.beam), "N", "hypotheses kept alive, 1 to 1024; 1: greedy", NULL},
    {TRANSLATE, CHOICE, "length-rule", AT(search.length_rule), "raw|power|gnmt",
     "score of a hypothesis with log-probability S and length L: S, S / L^alpha, or S / ((5 + L) / 6)^alpha", NULL},
    {TRANSLATE, REAL, "alpha", AT(search.alpha), "X", "exponent of the length rule (length penalty), 0 to 10", NULL},
    {TRANSLATE, SWITCH, "count-eos", AT(search.count_eos), NO_YES, "the end mark counts in L", NULL},
    {TRANSLATE, SWITCH, "score-prefix", AT(search.score_prefix), NO_YES,
     "what is given, --prefixes or a decoder-only model's beginning, counts in S", NULL},
    {TRANSLATE, REAL, "word-penalty", AT(search.word_penalty), "X", "taken off S for each token", NULL},
    {TRANSLATE, COUNT, "candidates", AT(search.candidates), "N",
     "continuations looked at in each step, times beam: 1 to 16", NULL},
    {TRANSLATE, SWITCH, "eos-in-top-beam", AT(search.eos_in_top_beam), NO_YES,
     "an end counts only if it is among the best --beam continuations", NULL},
    {TRANSLATE, SWITCH, "shrink", AT(search.shrink), NO_YES,
     "a finished hypothesis takes its place in the beam with it", NULL},
    {TRANSLATE, CHOICE, "stop", AT(search.stop), "bound|finished|none-alive|heuristic",
     "a sentence is done when no live hypothesis can beat the best finished ones, when --beam have finished, "
     "when none is alive, or when the best --beam finished ones beat the best live one as it is", NULL},
    {TRANSLATE, CHOICE, "at-limit", AT(search.at_limit), "keep-live|fall-back|force-eos",
     "at the longest length live hypotheses count as they are, count only if none has finished, or get one "
     "more step in which they must end", NULL},
    {TRANSLATE, NUMBER, "min-length", AT(search.min_length), "N", "target tokens before an end is allowed", NULL},
    {TRANSLATE, SWITCH, "renormalize-logits", AT(search.renormalize_logits), NO_YES,
     "until then the end mark leaves the softmax", NULL},
    {TRANSLATE | FROM_DATA, SWITCH, "ban-unk", AT(search.ban_unk), NO_YES,
     "no answer has an unknown token; without it: yes where no target of the training had one, but not with --unknown "
     "copy", NULL},
    {TRANSLATE, REAL, "max-length-a", AT(search.max_length_a), "A",
     "at most A * source tokens + B target tokens", NULL},
    {TRANSLATE, NUMBER, "max-length-b", AT(search.max_length_b), "B", "the B of it", NULL},

    {ATTENTION, TEXT, "model", AT(model), "FILE", "the model file (or the file's name without this option)", NULL},
    {ATTENTION, TEXT, "source", AT(source_text), "TEXT", "the text that is read; of a language model its only one", NULL},
    {ATTENTION, TEXT, "target", AT(target_text), "TEXT",
     "of an encoder-decoder model: what the decoder reads; without it the model's own best answer", NULL},
    {ATTENTION, CHOICE, "kind", AT(map_kind), "auto|cross|encoder|decoder",
     "cross: from the target to the source; encoder, decoder: inside one of them. auto: cross where there are both", NULL},
    {ATTENTION, TEXT, "layer", AT(layer), "N|all", "counted from 0; without it the last layer", NULL},
    {ATTENTION, TEXT, "head", AT(head), "N|all|mean",
     "counted from 0; mean: the mean of the heads of a layer; without it all", NULL},
    {ATTENTION, HEADING, "Form", 0, NULL, NULL, NULL},
    {ATTENTION, TEXT, "output", AT(output), "FILE",
     "an .svg, with the weights of the squares under the pointer, or, where gnuplot is installed, a .png or .pdf; without it "
     "the maps are drawn with characters", NULL},
    {ATTENTION, FLAG, "overwrite", AT(overwrite), NULL, "--output may replace a file that exists", NULL},
    {ATTENTION, FLAG, "json", AT(json), NULL,
     "one JSON object on standard output: tokens, and for each head its entropy, its strongest link, its matrix", NULL},
    {RUN | INSPECT | ATTENTION, HEADING, "Running", 0, NULL, NULL, NULL},
    {TRANSLATE | SCORE | CLASSIFY | TAG | INSPECT, COUNT, "batch", AT(batch), "N",
     "lines read before results are written", NULL},
    {TRANSLATE, COUNT, "max-sentences", AT(search.max_sentences), "N", "sentences searched at a time", NULL},
    {TRANSLATE, COUNT, "max-tokens", AT(search.max_tokens), "N", "and source tokens at a time", NULL},
    {TRANSLATE | SCORE | CLASSIFY | TAG, FLAG, "interactive", AT(interactive), NULL,
     "answer each line at once; goes without saying when the input is a terminal", NULL},
    {RUN | ATTENTION, DEVICE, "device", AT(device), "cpu|cuda|cuda:N",
     "where to compute: with a trf built by make cuda on a GPU, of several on number N", NULL},
    {RUN | ATTENTION, CHOICE, "precision", AT(device.precision), "float32|bf16",
     "on a GPU: bf16 makes products of 16 bits; weights and sums keep 32", NULL},
    {RUN | ATTENTION, CHOICE, "products", AT(device.products), "auto|cblas|built-in",
     "what multiplies matrices; built-in: trf itself; cblas: OpenBLAS, if they have more than a few rows; auto: built-in "
     "where trf was compiled for AVX2 or AVX-512, else cblas, if OpenBLAS is installed", NULL},
    {RUN | INSPECT | ATTENTION, COUNT, "threads", AT(device.threads), "N", "results do not depend on it", NULL},

    {EVAL, HEADING, "Figures", 0, NULL, NULL, NULL},
    {EVAL, TEXT, "metrics", AT(metrics), "LIST",
     "some of bleu,chrf,chrf++,exact,wer,cer: BLEU and chrF as sacreBLEU has them, lines whose words are all right, "
     "errors in 100 words and in 100 characters as jiwer has them", NULL},
    {EVAL, CHOICE, "tokenize", AT(tokenize), "13a|none|char",
     "BLEU's words: cut as WMT does, between blanks, or characters", NULL},
    {EVAL, FLAG, "lowercase", AT(lowercase), NULL, "capital letters are small ones, in all figures", NULL},
    {EVAL, HEADING, "References", 0, NULL, NULL, NULL},
    {EVAL, TEXTS, "reference", AT(references), "FILE",
     "one more file of references, line by line; may be given several times", NULL},
    {EVAL, FLAG, "alternatives", AT(alternatives), NULL,
     "a line of references holds several, with tabs between them, any of which counts", NULL},
    {EVAL, HEADING, "Form", 0, NULL, NULL, NULL},
    {EVAL, NUMBER, "worst", AT(worst), "N",
     "then the N lines with the worst values, the worst first: of chrF where it is one of --metrics, else of the first "
     "of them", NULL},
    {EVAL, FLAG, "by-length", AT(by_length), NULL,
     "then the figures of references of 1 word, of 2 and 3, 4 to 7, 8 to 15 and so on (of the first reference; words are "
     "between blanks; characters with --tokenize char)", NULL},
    {EVAL, FLAG, "json", AT(json), NULL, "one JSON object: figures, signatures, and the sums they come from", NULL},

    {INSPECT, HEADING, "Form", 0, NULL, NULL, NULL},
    {INSPECT, FLAG, "json", AT(json), NULL, "one JSON object", NULL},
    {AVERAGE, HEADING, "Files", 0, NULL, NULL, NULL},
    {AVERAGE, TEXT, "output", AT(output), "FILE", "the model to write", NULL},
    {AVERAGE, CHOICE, "weights", AT(weights), "full|bf16|f16",
     "how they are stored: 32 bits each, or 16, half the file; then one model alone may be given", NULL},
    {AVERAGE, FLAG, "overwrite", AT(overwrite), NULL, "--output may replace a file that exists", NULL},
    {PLOT, HEADING, "Picture", 0, NULL, NULL, NULL},
    {PLOT, TEXT, "output", AT(output), "FILE",
     "the picture: an .svg, .png or .pdf; without it, it is drawn with characters on standard output",
     NULL},
    {PLOT, FLAG, "overwrite", AT(overwrite), NULL, "--output may replace a file that exists", NULL},
    {PLOT, FLAG, "csv", AT(csv), NULL, "write the numbers instead of a picture, as comma-separated values", NULL},
    {PLOT, HEADING, "Logs", 0, NULL, NULL, NULL},
    {PLOT, TEXT, "only", AT(only), "LIST",
     "some of loss,metric,accuracy,rate,speed,gradient; without it, all that the logs have", NULL},
    {PLOT, HEADING, "trf plot schedule (of a LIST, a curve for each combination)", 0, NULL, NULL, NULL},
    {PLOT, TEXT, "schedule", AT(plot_schedules), "LIST", "some of noam,inverse-sqrt,cosine,constant", NULL},
    {PLOT, TEXT, "warmup", AT(plot_warmups), "LIST", "updates in which the rate rises", NULL},
    {PLOT, TEXT, "d-model", AT(plot_widths), "LIST",
     "width of the model, which matters to noam (default 512); of positions: one number (default 64)", NULL},
    {PLOT, TEXT, "learning-rate", AT(plot_rates), "LIST",
     "a factor for noam (default 1), the highest rate for the others (default 0.001)", NULL},
    {PLOT, REAL, "initial-rate", AT(training.initial_rate), "X", "where it rises from; not for noam", NULL},
    {PLOT, REAL, "final-rate", AT(training.final_rate), "X", "where cosine ends", NULL},
    {PLOT, LONG_NUMBER, "total-steps", AT(training.total_steps), "N",
     "when cosine ends; 0: at --updates", NULL},
    {PLOT, LONG_COUNT, "updates", AT(plot_updates), "N", "where the picture ends", NULL},
    {PLOT, HEADING, "trf plot positions", 0, NULL, NULL, NULL},
    {PLOT, CHOICE, "positions", AT(config.positions), "interleaved|halves-n1|halves", "the rule, as of trf train", NULL},
    {PLOT, COUNT, "max-length", AT(plot_rows), "N", "positions", NULL},
    {PLOT, NUMBER, "position-offset", AT(config.position_offset), "N", "number of the first position", NULL},
    {PLOT, CHOICE, "view", AT(plot_view), "all|heat|curves|similarity",
     "what is drawn. heat: all numbers as a heat map; curves: some dimensions over the positions; similarity: the cosine between every "
     "two positions; all: these three, in one .svg", NULL},
    {PLOT, TEXT, "dimensions", AT(plot_dimensions), "LIST",
     "which dimensions are curves, from 0; without it, sines of five frequencies", NULL},
    {PLOT, HEADING, "trf plot masks", 0, NULL, NULL, NULL},
    {PLOT, TEXT, "kind", AT(plot_kinds), "LIST", "some of full,causal,prefix,padding, side by side", NULL},
    {PLOT, COUNT, "length", AT(plot_length), "N", "tokens, 1 to 1000", NULL},
    {PLOT, TEXT, "words", AT(plot_words), "TEXT", "the tokens themselves, with blanks between them", NULL},
    {PLOT, TEXT, "prefix", AT(plot_prefix), "N",
     "tokens at the beginning that see one another, of prefix; without it, half of the tokens", NULL},
    {PLOT, TEXT, "padded", AT(plot_padded), "N",
     "tokens at the end that fill a batch, of padding; without it, a quarter of the tokens", NULL},
};

const int n_rows = (int)(sizeof rows / sizeof *rows);
typedef char rows_fit[sizeof rows / sizeof *rows <= MAX_OPTIONS ? 1 : -1];

/* Number of the choice `text` in "a|b|c", or -1. */
static int choice_number(const char *choices, const char *text)
{
    size_t length = strlen(text);
    int number = 0;
    for (;; number++) {
        const char *end = strchrnul(choices, '|');
        if ((size_t)(end - choices) == length && !memcmp(choices, text, length)) return number;
        if (!*end) return -1;
        choices = end + 1;
    }
}

/* Writes the current value of a row as text: what would be typed to set it. Empty: nothing is set. */
void value_text(const struct row *row, const struct settings *s, char *text, size_t size)
{
    const char *field = (const char *)s + row->offset, *choice = row->argument, *path;
    int32_t number = 0;
    int64_t wide = 0;
    uint64_t seed;
    double real;
    trf_device device;
    *text = 0;
    switch (row->kind) {
    case HEADING: case TEXTS: break;
    case FLAG: memcpy(&number, field, sizeof number); snprintf(text, size, "%s", number ? "yes" : ""); break;
    case MAYBE:
        memcpy(&number, field, sizeof number);
        if (!number) break;
        while (--number > 0 && *choice) choice = strchrnul(choice, '|'), choice += *choice == '|';
        snprintf(text, size, "%.*s", (int)(strchrnul(choice, '|') - choice), choice);
        break;
    case TEXT: memcpy(&path, field, sizeof path); snprintf(text, size, "%s", path ? path : ""); break;
    case SWITCH: case CHOICE:
        memcpy(&number, field, sizeof number);
        while (number-- > 0 && *choice) choice = strchrnul(choice, '|'), choice += *choice == '|';
        snprintf(text, size, "%.*s", (int)(strchrnul(choice, '|') - choice), choice);
        break;
    case NUMBER: case COUNT: memcpy(&number, field, sizeof number); snprintf(text, size, "%d", (int)number); break;
    case LONG_NUMBER: case LONG_COUNT:
        memcpy(&wide, field, sizeof wide);
        if (wide == INT64_MAX) snprintf(text, size, "no limit"); else snprintf(text, size, "%lld", (long long)wide);
        break;
    case SEED: memcpy(&seed, field, sizeof seed); snprintf(text, size, "%llu", (unsigned long long)seed); break;
    case REAL:
        memcpy(&real, field, sizeof real);
        if (isinf(real)) snprintf(text, size, "no limit"); else snprintf(text, size, "%.17g", real);
        if (strtod(text, NULL) == real) {       /* as short as it comes back the same */
            int digits;
            for (digits = 1; digits <= 17; digits++) {
                snprintf(text, size, "%.*g", digits, real);
                if (strtod(text, NULL) == real) break;
            }
        }
        break;
    case DEVICE:
        memcpy(&device, field, sizeof device);
        if (device.kind == TRF_DEVICE_CPU) snprintf(text, size, "cpu");
        else snprintf(text, size, "cuda:%d", (int)device.index);
        break;
    }
}

int row_within(const struct row *row, size_t member, size_t bytes)
{
    return row->kind != HEADING && row->offset >= member && row->offset < member + bytes;
}

static int is_value_within(const struct row *row, size_t member, size_t bytes)
{
    return (row->commands & TRAIN) && row->kind != TEXT && row->kind != TEXTS && row->kind != FLAG &&
           row_within(row, member, bytes);
}

void print_options(FILE *file, const struct settings *s, size_t member, size_t bytes)
{
    char value[64];
    int i;
    for (i = 0; i < n_rows; i++) {
        if (!is_value_within(&rows[i], member, bytes)) continue;
        value_text(&rows[i], s, value, sizeof value);
        fprintf(file, "  --%s %s\n", rows[i].name, value);
    }
}

/* Whether the sizes are those of --size: single options may have overruled it. */
static int is_of_size(const struct settings *s)
{
    struct settings preset = *s;
    then_size(&preset);
    return s->size != SIZE_AUTO && s->config.d_model == preset.config.d_model &&
           s->config.n_heads == preset.config.n_heads && s->config.d_ff == preset.config.d_ff &&
           s->config.encoder_layers == preset.config.encoder_layers &&
           s->config.decoder_layers == preset.config.decoder_layers;
}

/* A preset that was not given, or that other options have overruled, says nothing: the options that it would set are
   there themselves. */
static int is_silent(const struct settings *s, int i)
{
    const struct row *row = &rows[i];
    if (row->then == then_size) return !is_of_size(s);
    return !s->given[i] && (row->then == then_conventions || row->then == then_tokens || row->then == then_dropout ||
                            row->then == then_vocab_size);
}

/* Files of data and switches say what a training was; names of what it writes do not. NULL: not set, or of no
   interest. */
static const char *text_value(const struct row *row, const struct settings *s)
{
    static const size_t own[] = {AT(model), AT(checkpoint), AT(log), AT(resume), AT(overwrite), AT(quiet)};
    const char *text = NULL;
    int32_t flag = 0;
    size_t i;
    for (i = 0; i < sizeof own / sizeof *own; i++) if (row->offset == own[i]) return NULL;
    if (row->kind == TEXT) memcpy(&text, (const char *)s + row->offset, sizeof text);
    if (row->kind == FLAG) memcpy(&flag, (const char *)s + row->offset, sizeof flag);
    return flag ? "yes" : text;
}

/* "name":"value"; of an option that may be given several times there are blanks between the values. Whether there is
   anything to print. */
static int print_json_option(FILE *file, const char *comma, const struct row *row, const struct settings *s)
{
    char value[64], *joined = NULL;
    const char *text = value;
    int i;
    if (row->kind == TEXTS) {
        struct texts all;
        memcpy(&all, (const char *)s + row->offset, sizeof all);
        for (i = 0; i < all.n; i++) {
            char *longer = format_text("%s%s%s", joined ? joined : "", joined ? " " : "", all.item[i]);
            free(joined);
            joined = longer;
        }
        text = joined;
    } else if (row->kind == TEXT || row->kind == FLAG) text = text_value(row, s);
    else value_text(row, s, value, sizeof value);
    if (text) {
        fprintf(file, "%s\"%s\":", comma, row->name);
        print_json_text(file, text, strlen(text));
    }
    free(joined);
    return text != NULL;
}

void print_json_options(FILE *file, const struct settings *s, size_t member, size_t bytes)
{
    const char *comma = "";
    int i;
    fputc('{', file);
    for (i = 0; i < n_rows; i++) {
        if (!(rows[i].commands & TRAIN) || !row_within(&rows[i], member, bytes) || is_silent(s, i)) continue;
        if (print_json_option(file, comma, &rows[i], s)) comma = ",";
    }
    fputc('}', file);
}

static int set_device(const struct row *row, char *field, const char *text)
{
    trf_device device;
    char *end;
    memcpy(&device, field, sizeof device);
    device.kind = strncmp(text, "cuda", 4) ? TRF_DEVICE_CPU : TRF_DEVICE_CUDA;
    device.index = 0;
    end = (char *)(uintptr_t)text + (device.kind == TRF_DEVICE_CUDA ? 4 : 3);
    if (device.kind == TRF_DEVICE_CUDA && *end == ':' && end[1] >= '0' && end[1] <= '9') {
        long number = strtol(end + 1, &end, 10);
        device.index = number > INT32_MAX ? INT32_MAX : (int32_t)number;
    }
    if ((device.kind == TRF_DEVICE_CPU && strcmp(text, "cpu")) || (device.kind == TRF_DEVICE_CUDA && *end)) {
        say("--%s takes %s, got '%s'", row->name, row->argument, text);
        return USAGE;
    }
    memcpy(field, &device, sizeof device);
    return DONE;
}

static int set_whole(const struct row *row, char *field, const char *text)
{
    int wide = row->kind == LONG_NUMBER || row->kind == LONG_COUNT;
    int64_t low = row->kind == COUNT || row->kind == LONG_COUNT, high = wide ? INT64_MAX : INT32_MAX;
    long long value;
    int32_t narrow;
    char *end;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) {
        say("--%s takes a whole number from %lld to %lld, got '%s'", row->name,
            (long long)low, (long long)high, text);
        return USAGE;
    }
    narrow = (int32_t)(wide ? 0 : value);
    if (wide) memcpy(field, &value, sizeof value); else memcpy(field, &narrow, sizeof narrow);
    return DONE;
}

static int add_to_texts(const struct row *row, char *field, const char *text)
{
    struct texts *texts = (struct texts *)(void *)field;
    if (texts->n == MAX_TEXTS) { say("--%s: at most %d of them", row->name, MAX_TEXTS); return USAGE; }
    texts->item[texts->n++] = text;
    return DONE;
}

/* Writes the text of an option into its field. */
int set_value(const struct row *row, struct settings *s, const char *text)
{
    char *field = (char *)s + row->offset, *end;
    unsigned long long seed;
    int32_t number = 1;
    double real;
    switch (row->kind) {
    case HEADING: break;
    case TEXT: memcpy(field, &text, sizeof text); break;
    case TEXTS: return add_to_texts(row, field, text);
    case FLAG: memcpy(field, &number, sizeof number); break;
    case MAYBE:
        if (*text) number = choice_number(row->argument, text) + 1;
        if (number < 1) { say("--%s takes %s, or nothing, got '%s'", row->name, row->argument, text); return USAGE; }
        memcpy(field, &number, sizeof number);
        break;
    case SWITCH: case CHOICE:
        number = choice_number(row->argument, text);
        if (row->kind == SWITCH && (!strcmp(text, "0") || !strcmp(text, "1"))) number = *text - '0';
        if (number < 0) { say("--%s takes %s, got '%s'", row->name, row->argument, text); return USAGE; }
        memcpy(field, &number, sizeof number);
        break;
    case NUMBER: case COUNT: case LONG_NUMBER: case LONG_COUNT: return set_whole(row, field, text);
    case SEED:
        errno = 0;
        seed = strtoull(text, &end, 10);
        if (end == text || *end || errno || strchr(text, '-')) {
            say("--%s takes a whole number from 0 to 2^64 - 1, got '%s'", row->name, text);
            return USAGE;
        }
        memcpy(field, &seed, sizeof seed);
        break;
    case REAL:
        real = strtod(text, &end);
        if (end != text && !*end && isfinite(real)) { memcpy(field, &real, sizeof real); break; }
        say("--%s takes a number, got '%s'", row->name, text);
        return USAGE;
    case DEVICE: return set_device(row, field, text);
    }
    return DONE;
}

static int writes(const struct row *row, size_t field) { return row->kind != HEADING && row->offset == field; }

const char *option_name(size_t field)
{
    int i;
    for (i = 0; i < n_rows; i++) if (writes(&rows[i], field)) return rows[i].name;
    say("no option writes the field at %zu of the settings", field);        /* a mistake in trf itself */
    abort();
}

const char *text_given(const struct settings *s, size_t field)
{
    int i;
    option_name(field);
    for (i = 0; i < n_rows; i++) if (s->given[i] && writes(&rows[i], field)) return s->given[i];
    return NULL;
}

int is_given(const struct settings *s, size_t field) { return text_given(s, field) != NULL; }

const char *given_text(const struct settings *s, const char *name)
{
    int i;
    for (i = 0; i < n_rows; i++) if (s->given[i] && !strcmp(rows[i].name, name)) return s->given[i];
    return NULL;
}

int shares_embedding(const trf_config *config)
{
    return config->tying == TRF_TIED_ALL || config->tying == TRF_TIED_EMBEDDINGS;
}

int was_given(const struct settings *s, const char *name) { return given_text(s, name) != NULL; }

/* Applies all options that were given to s, in the order of the table. */
int apply_given(struct settings *s)
{
    int i;
    for (i = 0; i < n_rows; i++) {
        if (!s->given[i] || rows[i].kind == TEXTS) continue;      /* texts are there already */
        if (set_value(&rows[i], s, s->given[i])) return USAGE;
        if (rows[i].then) rows[i].then(s);
    }
    if (is_given(s, AT(joint_vocabulary)) && !s->joint_vocabulary && !is_given(s, AT(config.tying)) &&
        s->config.tying == TRF_TIED_ALL)
        s->config.tying = TRF_TIED_DECODER;     /* as far as a preset's goes with two vocabularies */
    then_device(s);
    return DONE;
}

int set_given_architecture(struct settings *s)
{
    int i;
    for (i = 0; i < n_rows; i++)
        if (s->given[i] && row_within(&rows[i], AT(config), sizeof s->config) && set_value(&rows[i], s, s->given[i]))
            return USAGE;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>help           texts made from the table
//
// Defaults are not written here: they are asked from the library, once plainly and once under each
// preset, and a preset is named where it differs. But for the few that recipe.c has chosen.
// -----------------------------------------------------------------------------------------------

/* Prints text from column `indent` on, broken before column 100. `column` is where the cursor stands. */
static void print_wrapped(const char *text, int indent, int column)
{
    enum { WIDTH = 99 };
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word > WIDTH) { putchar('\n'); column = 0; }
        else if (column > indent) { putchar(' '); column++; }
        for (; column < indent; column++) putchar(' ');
        printf("%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* "default 128; --size base 512; --size big 1024" */
void default_text(const struct row *row, char *text, size_t size)
{
    static const struct { size_t field; const char *value; } presets[] = {
        {AT(conventions), "pytorch"}, {AT(conventions), "paper"}, {AT(search_rule), "fairseq"},
        {AT(search_rule), "ctranslate2"}, {AT(search_rule), "marian"}, {AT(search_rule), "raw"},
        {AT(search_rule), "hugging-face"}};
    static const struct { size_t field; const char *value; } fixed[] = {    /* by recipe.c, whatever the data are */
        {AT(config.norm_place), "pre-norm"}, {AT(config.generator_bias), "no"},
        {AT(training.schedule), "inverse-sqrt"}, {AT(training.attention_dropout), "0"},
        {AT(training.activation_dropout), "0"}, {AT(ema), "0.002"}};
    const char *chosen = NULL;
    struct settings plain, changed;
    char value[64], other[64];
    size_t used, i;
    int j;
    set_defaults(&plain);
    for (i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (row->commands & TRAIN && writes(row, fixed[i].field)) chosen = fixed[i].value;
    if (chosen) set_value(row, &plain, chosen);
    value_text(row, &plain, value, sizeof value);
    *text = 0;
    if (!chosen && row->commands & FROM_DATA) { snprintf(text, size, " (default: from the data)"); return; }
    if (!*value || row->then == then_conventions) return;
    used = (size_t)snprintf(text, size, " (default %s%s", value, chosen ? ", of --recipe auto" : "");
    for (i = 0; i < sizeof presets / sizeof *presets && used < size; i++) {
        changed = plain;
        for (j = 0; j < n_rows; j++)
            if (writes(&rows[j], presets[i].field)) {
                if (row == &rows[j]) break;             /* a preset does not explain itself */
                set_value(&rows[j], &changed, presets[i].value);
                rows[j].then(&changed);
            }
        value_text(row, &changed, other, sizeof other);
        if (!strcmp(value, other)) continue;
        used += (size_t)snprintf(text + used, size - used, "; %s: %s", presets[i].value, other);
    }
    if (used < size) snprintf(text + used, size - used, ")");
}

static void print_help(const struct command *command)
{
    enum { COLUMN = 30 };
    char defaults[256], sentence[1024];
    int i, width;
    printf("usage: %s\n\n", command->usage);
    puts(command->text);
    for (i = 0; i < n_rows; i++) {
        const struct row *row = &rows[i];
        if (!(row->commands & command->bit)) continue;
        if (row->kind == HEADING) { printf("\n%s:\n", row->name); continue; }
        width = printf("  --%s%s%s%s", row->name, row->kind == MAYBE ? " [" : row->argument ? " " : "",
                       row->argument ? row->argument : "", row->kind == MAYBE ? "]" : "");
        if (width > COLUMN - 2) { putchar('\n'); width = 0; }
        default_text(row, defaults, sizeof defaults);
        snprintf(sentence, sizeof sentence, "%s%s", row->help, defaults);
        print_wrapped(sentence, COLUMN, width);
    }
    printf("\n%s\n", command->after);
}

// -----------------------------------------------------------------------------------------------
// >>command-line   getopt_long over the table, and messages that help
// -----------------------------------------------------------------------------------------------

/* Levenshtein's distance, for "did you mean". */
int distance(const char *a, const char *b)
{
    int cost[64], n = (int)strlen(b), i, j;
    if (n >= 64) return INT32_MAX;
    for (j = 0; j <= n; j++) cost[j] = j;
    for (i = 0; a[i]; i++) {
        int diagonal = cost[0];
        cost[0] = i + 1;
        for (j = 1; j <= n; j++) {
            int best = diagonal + (a[i] != b[j - 1]);
            diagonal = cost[j];
            if (cost[j] + 1 < best) best = cost[j] + 1;
            if (cost[j - 1] + 1 < best) best = cost[j - 1] + 1;
            cost[j] = best;
        }
    }
    return cost[n];
}

static void say_unknown(const struct command *command, const char *argument)
{
    char name[64], several[512] = "";
    const char *nearest = NULL;
    int i, best = INT32_MAX;
    if (strncmp(argument, "--", 2)) { say("unknown option '%s'; all options: %s --help", argument, program); return; }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    for (i = 0; i < n_rows; i++) {
        int far;
        if (!(rows[i].commands & command->bit) || rows[i].kind == HEADING) continue;
        if (!strncmp(rows[i].name, name, strlen(name)))
            snprintf(several + strlen(several), sizeof several - strlen(several), " --%s", rows[i].name);
        far = distance(name, rows[i].name);
        if (far < best) { best = far; nearest = rows[i].name; }
    }
    if (*several) say("'--%s' is short for several options:%s", name, several);
    else if (nearest && best <= 1 + (int)strlen(name) / 3)
        say("unknown option '--%s'; did you mean --%s?", name, nearest);
    else say("unknown option '--%s'; all options: %s --help", name, program);
}

/* Fills s from argv. Returns -1 to go on, or the exit status when all is said. */
int parse_command_line(const struct command *command, struct settings *s, int argc, char **argv)
{
    enum { FIRST = 1000, HELP = FIRST + MAX_OPTIONS };
    struct option options[MAX_OPTIONS + 2];
    int n = 0, i, code;
    memset(options, 0, sizeof options);
    for (i = 0; i < n_rows; i++) {
        if (!(rows[i].commands & command->bit) || rows[i].kind == HEADING) continue;
        options[n].name = rows[i].name;
        options[n].has_arg = rows[i].kind == FLAG ? no_argument : rows[i].kind == MAYBE ? optional_argument
                                                                                        : required_argument;
        options[n++].val = FIRST + i;
    }
    options[n].name = "help";
    options[n].val = HELP;
    opterr = 0;
    while ((code = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (code == HELP || code == 'h') { print_help(command); return DONE; }
        if (code == ':') { say("%s needs a value", argv[optind - 1]); return USAGE; }
        if (code == '?' && optopt == HELP) { say("--help takes no value"); return USAGE; }
        if (code == '?' && optopt >= FIRST) { say("--%s takes no value", rows[optopt - FIRST].name); return USAGE; }
        if (code == '?' && optopt) {
            say("unknown option '-%c'; all options: %s --help", optopt, program);
            return USAGE;
        }
        if (code == '?') { say_unknown(command, argv[optind - 1]); return USAGE; }
        if (rows[code - FIRST].kind == MAYBE && !optarg && optind < argc &&
            choice_number(rows[code - FIRST].argument, argv[optind]) >= 0)
            optarg = argv[optind++];
        if (rows[code - FIRST].kind == TEXTS) {
            if (set_value(&rows[code - FIRST], s, optarg)) return USAGE;
        } else if (s->given[code - FIRST]) {
            say("--%s is given twice", rows[code - FIRST].name);
            return USAGE;
        }
        s->given[code - FIRST] = optarg ? optarg : "";
    }
    return apply_given(s) ? USAGE : -1;
}


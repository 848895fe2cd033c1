// trf: the command line of transformer.h. Train, translate, score, inspect.
// SPDX-License-Identifier: MIT
//
// Build (from the root of the repository):
//     cc -O2 -march=native -fopenmp -I. tools/trf.c -o build/trf -lopenblas -lm
// Run:
//     build/trf --help
//
// A file of parallel lines goes in, a model file comes out; a model file and lines go in, lines come
// out. Everything is done through the public half of the header: what stands here is reading lines,
// options and messages.
//
// Contents: >>messages  >>settings  >>options  >>help  >>command-line  >>lines  >>sequences
//           >>train  >>progress  >>training-loop  >>translate  >>score  >>inspect  >>main

#define _GNU_SOURCE     /* getline, getopt_long, fileno, clock_gettime, sigaction */
#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRF_IMPLEMENTATION
#include "transformer.h"

// -----------------------------------------------------------------------------------------------
// >>messages       what goes to standard error, and the exit statuses
//
// Every message begins with the command: "trf train: corpus.de:17: ...". A problem of one line of
// input is told with file and line. Nothing but results goes to standard output.
// -----------------------------------------------------------------------------------------------

enum { DONE = 0, FAILED = 1, USAGE = 2, SIGNALLED = 128 };

static const char *program = "trf";             /* "trf train" once the command is known */
static int unfinished_line;                     /* 1: a line of progress stands on the terminal, without its end */

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "%s%s: ", unfinished_line ? "\n" : "", program);
    unfinished_line = 0;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* The message of a failed library call. doing NULL: it is about a file, whose path it begins with. */
static void say_error(const char *doing, const trf_error *err)
{
    say("%s%s%s (%s)", doing ? doing : "", doing ? ": " : "", err->message, trf_status_name((trf_status)err->status));
}

/* The hook of the library: its warnings are worth a line, the rest is not. */
static void log_warning(void *user, int level, const char *message)
{
    (void)user;
    if (level >= TRF_LOG_WARNING) say("warning: %s", message);
}

/* A tool may end when memory does; nothing half written is left, since files are renamed into place. */
static void *grow(void *items, size_t *capacity, size_t needed, size_t item_bytes)
{
    size_t wanted = *capacity ? *capacity : 64;
    if (needed <= *capacity) return items;
    while (wanted < needed) wanted = wanted > SIZE_MAX / 2 ? needed : wanted * 2;
    items = wanted > SIZE_MAX / item_bytes ? NULL : realloc(items, wanted * item_bytes);
    if (!items) {
        say("out of memory: %zu items of %zu bytes", wanted, item_bytes);
        exit(FAILED);
    }
    *capacity = wanted;
    return items;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// -----------------------------------------------------------------------------------------------
// >>settings       everything that can be set, and its defaults
//
// The structs of the library are in here as they are; options write straight into their fields.
// -----------------------------------------------------------------------------------------------

enum { MAX_OPTIONS = 128 };

struct settings {
    trf_config config;
    trf_train_options training;
    trf_corpus_options corpus;
    trf_search search;

    const char *source, *target, *tsv;                          /* data */
    const char *valid_source, *valid_target, *valid_tsv;
    const char *model, *checkpoint, *input, *output;
    int32_t source_tokens, target_tokens;                       /* trf_token_kind of each side */
    int32_t source_vocab_size, target_vocab_size, joint_vocabulary;
    int64_t min_count;

    int32_t size, conventions, search_rule;                     /* presets: numbers of their choices */
    double dropout;
    uint64_t seed;
    trf_device device;
    int32_t threads;

    int64_t updates, checkpoint_every, valid_every, log_every;  /* training */
    int32_t accumulate, resume;

    int32_t batch, interactive, scores;                         /* translating, scoring */

    const char *given[MAX_OPTIONS];     /* by row of the table below: the text of an option that was given, or NULL */
};

static trf_load_options load_options(const struct settings *s)
{
    trf_load_options load = trf_load_defaults();
    load.device = s->device;
    load.hooks.log = log_warning;
    return load;
}

/* One seed for everything that is random. */
static void then_seed(struct settings *s) { s->config.seed = s->training.seed = s->corpus.seed = s->seed; }

static void set_defaults(struct settings *s)
{
    memset(s, 0, sizeof *s);
    s->config = trf_config_tiny();
    s->training = trf_train_defaults();
    s->corpus = trf_corpus_defaults();
    s->search = trf_search_defaults();
    s->config.hooks.log = s->training.hooks.log = s->corpus.hooks.log = s->search.hooks.log = log_warning;
    s->source_vocab_size = s->target_vocab_size = 32000;
    s->min_count = 1;
    s->dropout = s->training.dropout;
    s->seed = s->config.seed;
    then_seed(s);
    s->device = trf_device_default();
    s->threads = s->device.threads;
    s->updates = INT64_MAX;
    s->checkpoint_every = s->valid_every = 1000;
    s->log_every = 100;
    s->accumulate = 1;
    s->batch = 32;
}

/* What an option does beyond writing its field. Rows are applied in the order of the table, whatever the
   order on the command line: presets first, then single fields. */

static void then_size(struct settings *s)
{
    trf_hooks hooks = s->config.hooks;
    s->config = s->size == 0 ? trf_config_tiny() : s->size == 1 ? trf_config_base() : trf_config_big();
    s->config.hooks = hooks;
}

static void then_conventions(struct settings *s)
{
    trf_config_set_conventions(&s->config, (trf_conventions)s->conventions);
    trf_train_set_conventions(&s->training, (trf_conventions)s->conventions);
}

static void then_dropout(struct settings *s) { trf_train_set_dropout(&s->training, s->dropout); }
static void then_rule(struct settings *s) { trf_search_set_rule(&s->search, (trf_search_rule)s->search_rule); }

static void then_threads(struct settings *s)
{
    s->device.threads = s->training.threads = s->search.threads = s->threads;
    s->config.device = s->device;
}

// -----------------------------------------------------------------------------------------------
// >>options        the table: each option once
//
// From one row come the parsing, the help text with its default, the list of a checkpoint's
// settings, and the check that a resumed run is asked for the model it has. Options that are
// fields of the library's structs carry the fields' names.
// -----------------------------------------------------------------------------------------------

enum { TRAIN = 1, TRANSLATE = 2, SCORE = 4, INSPECT = 8, RUN = TRAIN | TRANSLATE | SCORE };

enum kind {
    HEADING,        /* no option: a title in the help text */
    TEXT,           /* const char * */
    FLAG,           /* int32_t; given: 1 */
    SWITCH,         /* int32_t; no or yes */
    CHOICE,         /* int32_t or an enum; the argument lists the values 0, 1, ... */
    NUMBER,         /* int32_t, not negative */
    COUNT,          /* int32_t, at least 1 */
    LONG_NUMBER,    /* int64_t, not negative */
    LONG_COUNT,     /* int64_t, at least 1 */
    SEED,           /* uint64_t */
    DEVICE,         /* trf_device: its kind and index */
    REAL            /* double */
};

typedef char enums_are_int32[sizeof(trf_tying) == sizeof(int32_t) ? 1 : -1];

struct row {
    int commands;
    enum kind kind;
    const char *name;
    size_t offset;
    const char *argument;
    const char *help;
    void (*then)(struct settings *s);
};

#define AT(field) offsetof(struct settings, field)
#define NO_YES "no|yes"
#define POSITIONS "interleaved|halves-n1|halves|learned|none"
#define EMBEDDING_INITS "normal-d|normal-1|xavier|fan-out"
#define SMOOTHINGS "uniform|others|others-kl|no-pad-kl"
#define RULES "paper|fairseq|ctranslate2|marian|raw|hugging-face"

static const struct row rows[] = {
    {RUN, HEADING, "Data", 0, NULL, NULL, NULL},
    {TRAIN | SCORE, TEXT, "source", AT(source), "FILE",
     "source side, a sentence a line; '-' is standard input", NULL},
    {TRAIN | SCORE, TEXT, "target", AT(target), "FILE", "target side: line n belongs to line n of the source", NULL},
    {TRAIN | SCORE, TEXT, "tsv", AT(tsv), "FILE", "both sides in one file instead: source, one tab, target", NULL},
    {TRAIN, TEXT, "valid-source", AT(valid_source), "FILE", "pairs for validation, never trained on: source", NULL},
    {TRAIN, TEXT, "valid-target", AT(valid_target), "FILE", "and target", NULL},
    {TRAIN, TEXT, "valid-tsv", AT(valid_tsv), "FILE", "or both in one file", NULL},
    {TRANSLATE, TEXT, "input", AT(input), "FILE", "sentences, one a line; without it, or '-': standard input", NULL},
    {TRANSLATE | SCORE, TEXT, "output", AT(output), "FILE", "results; without it, or '-': standard output", NULL},
    {TRAIN, TEXT, "model", AT(model), "FILE", "the model file to write when training ends (safetensors)", NULL},
    {TRANSLATE | SCORE, TEXT, "model", AT(model), "FILE", "the model file, made by trf train", NULL},

    {TRAIN, HEADING, "Tokens", 0, NULL, NULL, NULL},
    {TRAIN, CHOICE, "source-tokens", AT(source_tokens), "words|characters",
     "what a source token is: a word between blanks, or a UTF-8 character", NULL},
    {TRAIN, CHOICE, "target-tokens", AT(target_tokens), "words|characters", "what a target token is", NULL},
    {TRAIN, NUMBER, "source-vocab-size", AT(source_vocab_size), "N",
     "keep at most so many source tokens, four special ones included, the most frequent first", NULL},
    {TRAIN, NUMBER, "target-vocab-size", AT(target_vocab_size), "N", "the same on the target side", NULL},
    {TRAIN, LONG_COUNT, "min-count", AT(min_count), "N", "leave out tokens seen less often than this", NULL},
    {TRAIN, FLAG, "joint-vocabulary", AT(joint_vocabulary), NULL,
     "one vocabulary for both sides, of source-vocab-size; implied by --tying all", NULL},

    {TRAIN, HEADING, "Presets (single options win over them, wherever they stand)", 0, NULL, NULL, NULL},
    {TRAIN, CHOICE, "size", AT(size), "tiny|base|big", "layers and widths", then_size},
    {TRAIN, CHOICE, "conventions", AT(conventions), "pytorch|paper",
     "sets what these two do differently, in the model and in training; without it the defaults are as listed",
     then_conventions},
    {TRAIN, SEED, "seed", AT(seed), "N",
     "of the initial weights, of dropout and of the order of the data", then_seed},

    {TRAIN, HEADING, "Model", 0, NULL, NULL, NULL},
    {TRAIN, NUMBER, "d-model", AT(config.d_model), "N", "width of every token's vector", NULL},
    {TRAIN, NUMBER, "n-heads", AT(config.n_heads), "N", "attention heads; divides d-model", NULL},
    {TRAIN, NUMBER, "d-ff", AT(config.d_ff), "N", "inner width of the feed-forward block", NULL},
    {TRAIN, NUMBER, "encoder-layers", AT(config.encoder_layers), "N", "layers of the encoder", NULL},
    {TRAIN, NUMBER, "decoder-layers", AT(config.decoder_layers), "N", "layers of the decoder", NULL},
    {TRAIN, COUNT, "max-length", AT(config.max_length), "N",
     "longest sequence in tokens, its begin or end mark included; longer pairs are left out and reported", NULL},
    {TRAIN, CHOICE, "activation", AT(config.activation), "relu|gelu|silu", "of the feed-forward block", NULL},
    {TRAIN, CHOICE, "positions", AT(config.positions), POSITIONS,
     "sines and cosines: in turn, angle p / 10000^(2i/d) (paper, PyTorch tutorials); in two halves, angle p / "
     "10000^(i/(d/2-1)) (tensor2tensor, fairseq, Marian); in two halves with the paper's angle (Hugging Face "
     "Marian); or learned, or none", NULL},
    {TRAIN, NUMBER, "position-offset", AT(config.position_offset), "N", "number of the first position", NULL},
    {TRAIN, CHOICE, "norm-place", AT(config.norm_place), "post-norm|pre-norm",
     "post-norm: norm(x + sublayer(x)), the paper; pre-norm: x + sublayer(norm(x))", NULL},
    {TRAIN, CHOICE, "norm-rule", AT(config.norm_rule), "standard|annotated",
     "standard: (x - mean) / sqrt(variance + epsilon); annotated: (x - mean) / (deviation + epsilon), The "
     "Annotated Transformer", NULL},
    {TRAIN, REAL, "norm-epsilon", AT(config.norm_epsilon), "X", "epsilon of layer norm", NULL},
    {TRAIN, SWITCH, "final-norm", AT(config.final_norm), NO_YES,
     "one more norm after the last encoder and decoder layer", NULL},
    {TRAIN, SWITCH, "scale-embeddings", AT(config.scale_embeddings), NO_YES,
     "multiply embeddings by sqrt(d-model)", NULL},
    {TRAIN, CHOICE, "tying", AT(config.tying), "untied|decoder|all",
     "matrices that are one: decoder: target embedding and output projection; all: these and the source "
     "embedding, which needs one vocabulary", NULL},
    {TRAIN, SWITCH, "generator-bias", AT(config.generator_bias), NO_YES, "a bias in the output projection", NULL},
    {TRAIN, CHOICE, "init", AT(config.init), "xavier-packed|xavier",
     "first weights of attention and feed-forward, uniform +-sqrt(6 / (in + out)): q, k and v counted as one "
     "matrix (nn.Transformer) or as three (tensor2tensor)", NULL},
    {TRAIN, CHOICE, "embedding-init", AT(config.embedding_init), EMBEDDING_INITS,
     "first embeddings: normal with deviation 1 / sqrt(d-model) or 1, uniform +-sqrt(6 / (vocabulary + "
     "d-model)) or +-sqrt(3 / d-model)", NULL},
    {TRAIN, SWITCH, "source-eos", AT(config.source_eos), NO_YES, "end every source with an end mark", NULL},
    {TRAIN, CHOICE, "decoder-start", AT(config.decoder_start), "bos|eos|pad|zero",
     "what the decoder reads before its first token; zero: a vector of zeros", NULL},

    {TRAIN, HEADING, "Training", 0, NULL, NULL, NULL},
    {TRAIN, LONG_NUMBER, "updates", AT(updates), "N", "end after update N, counted from the very beginning", NULL},
    {TRAIN, LONG_COUNT, "epochs", AT(corpus.epochs), "N",
     "end after N passes over the data; one of these two is needed", NULL},
    {TRAIN, COUNT, "accumulate", AT(accumulate), "N", "batches summed into one update", NULL},
    {TRAIN, CHOICE, "optimizer", AT(training.optimizer), "adam|adamw", "the rule of the update", NULL},
    {TRAIN, CHOICE, "schedule", AT(training.schedule), "noam|inverse-sqrt|cosine|constant",
     "learning rate of update s. noam: learning-rate * d-model^-0.5 * min(s^-0.5, s * warmup^-1.5), the "
     "paper; the others rise linearly during warm-up, then fall with sqrt(warmup / s), fall as half a cosine, "
     "or stay", NULL},
    {TRAIN, REAL, "learning-rate", AT(training.learning_rate), "X",
     "a factor for noam, the highest rate for the others", NULL},
    {TRAIN, LONG_NUMBER, "warmup", AT(training.warmup), "N", "updates in which the rate rises", NULL},
    {TRAIN, REAL, "initial-rate", AT(training.initial_rate), "X", "where it rises from; not for noam", NULL},
    {TRAIN, REAL, "final-rate", AT(training.final_rate), "X", "where cosine ends", NULL},
    {TRAIN, LONG_NUMBER, "total-steps", AT(training.total_steps), "N",
     "when cosine ends; without it: at --updates; needed with --epochs alone", NULL},
    {TRAIN, REAL, "beta1", AT(training.beta1), "X", "Adam: decay of the first moment", NULL},
    {TRAIN, REAL, "beta2", AT(training.beta2), "X", "Adam: decay of the second moment", NULL},
    {TRAIN, REAL, "epsilon", AT(training.epsilon), "X", "Adam: epsilon", NULL},
    {TRAIN, CHOICE, "epsilon-rule", AT(training.epsilon_rule), "outside|fairseq|inside",
     "Adam: m / (sqrt(v) + epsilon) with bias-corrected m and v (PyTorch); the same with epsilon added to the "
     "raw sqrt(v) (fairseq, tensor2tensor); m / sqrt(v + epsilon)", NULL},
    {TRAIN, REAL, "weight-decay", AT(training.weight_decay), "X",
     "adamw: weights shrink by learning rate times this; adam: added to the gradient, times the weights", NULL},
    {TRAIN, SWITCH, "decay-all", AT(training.decay_all), NO_YES, "decay biases, norms and embeddings too", NULL},
    {TRAIN, REAL, "clip-norm", AT(training.clip_norm), "X",
     "largest norm of the whole gradient; 1e300: no limit", NULL},
    {TRAIN, REAL, "label-smoothing", AT(training.label_smoothing), "X",
     "e, the share of probability that is spread over all tokens", NULL},
    {TRAIN, CHOICE, "smoothing-rule", AT(training.smoothing_rule), SMOOTHINGS,
     "the share e of V tokens: uniform: e / V on each, the right one too (PyTorch, Marian); others: e / (V-1) "
     "on each wrong one (fairseq); others-kl: the same less its entropy (tensor2tensor); no-pad-kl: e / "
     "(V-2), nothing on pad (Annotated Transformer, JoeyNMT)", NULL},
    {TRAIN, REAL, "dropout", AT(dropout), "X",
     "all four dropouts at once; the next four change one of them", then_dropout},
    {TRAIN, REAL, "embedding-dropout", AT(training.dropout), "X", "on the sum of embedding and position", NULL},
    {TRAIN, REAL, "attention-dropout", AT(training.attention_dropout), "X", "on attention weights", NULL},
    {TRAIN, REAL, "activation-dropout", AT(training.activation_dropout), "X", "inside the feed-forward block", NULL},
    {TRAIN, REAL, "residual-dropout", AT(training.residual_dropout), "X", "on the output of every sublayer", NULL},

    {TRAIN, HEADING, "Batches", 0, NULL, NULL, NULL},
    {TRAIN, COUNT, "batch-tokens", AT(corpus.batch_tokens), "N", "at most so many tokens a side in a batch", NULL},
    {TRAIN, COUNT, "batch-sentences", AT(corpus.batch_sentences), "N", "and at most so many pairs", NULL},
    {TRAIN, SWITCH, "padded-budget", AT(corpus.padded_budget), NO_YES,
     "count tokens as systems with padding do: the longest pair times the pairs", NULL},
    {TRAIN, SWITCH, "shuffle", AT(corpus.shuffle), NO_YES, "a new order in each epoch", NULL},
    {TRAIN, SWITCH, "buckets", AT(corpus.buckets), NO_YES, "pairs of similar length share a batch", NULL},

    {TRAIN, HEADING, "Stopping, going on, reporting", 0, NULL, NULL, NULL},
    {TRAIN, TEXT, "checkpoint", AT(checkpoint), "FILE",
     "where the state of training is kept; without it: the model's name and .checkpoint; '' keeps none", NULL},
    {TRAIN, LONG_NUMBER, "checkpoint-every", AT(checkpoint_every), "N",
     "write it every N updates; 0: only at the end", NULL},
    {TRAIN, FLAG, "resume", AT(resume), NULL,
     "go on from the checkpoint, as if never stopped; same data, batch options, --max-length and --seed", NULL},
    {TRAIN, LONG_COUNT, "valid-every", AT(valid_every), "N", "validate every N updates, and at the end", NULL},
    {TRAIN, LONG_COUNT, "log-every", AT(log_every), "N", "a line of progress every N updates", NULL},

    {TRANSLATE, HEADING, "Answers", 0, NULL, NULL, NULL},
    {TRANSLATE, COUNT, "n-best", AT(search.n_best), "N",
     "the N best answers (at most --beam), in the form INDEX tab RANK tab SCORE tab TEXT; INDEX is the line's number",
     NULL},
    {TRANSLATE, FLAG, "scores", AT(scores), NULL, "put the score and a tab before each answer", NULL},
    {TRANSLATE, HEADING, "Search", 0, NULL, NULL, NULL},
    {TRANSLATE, CHOICE, "search-rule", AT(search_rule), RULES,
     "whose search: sets the options below down to renormalise", then_rule},
    {TRANSLATE, COUNT, "beam", AT(search.beam), "N", "hypotheses kept alive; 1: greedy", NULL},
    {TRANSLATE, CHOICE, "length-rule", AT(search.length_rule), "raw|power|gnmt",
     "score of a hypothesis with log-probability S and length L: S, S / L^alpha, or S / ((5 + L) / 6)^alpha", NULL},
    {TRANSLATE, REAL, "alpha", AT(search.alpha), "X", "exponent of the length rule", NULL},
    {TRANSLATE, SWITCH, "count-eos", AT(search.count_eos), NO_YES, "the end mark counts in L", NULL},
    {TRANSLATE, SWITCH, "score-prefix", AT(search.score_prefix), NO_YES,
     "a decoder-only model's beginning counts in S", NULL},
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
    {TRANSLATE, SWITCH, "renormalise", AT(search.renormalise), NO_YES,
     "until then the end mark leaves the softmax", NULL},
    {TRANSLATE, REAL, "max-length-a", AT(search.max_length_a), "A",
     "at most A * source tokens + B target tokens", NULL},
    {TRANSLATE, NUMBER, "max-length-b", AT(search.max_length_b), "B", "the B of it", NULL},

    {RUN, HEADING, "Running", 0, NULL, NULL, NULL},
    {TRANSLATE | SCORE, COUNT, "batch", AT(batch), "N", "lines read before results are written", NULL},
    {TRANSLATE, COUNT, "max-sentences", AT(search.max_sentences), "N", "sentences searched at a time", NULL},
    {TRANSLATE, COUNT, "max-tokens", AT(search.max_tokens), "N", "and source tokens at a time", NULL},
    {TRANSLATE | SCORE, FLAG, "interactive", AT(interactive), NULL,
     "answer each line at once; goes without saying when the input is a terminal", NULL},
    {RUN, DEVICE, "device", AT(device), "cpu|cuda|cuda:N",
     "where to compute: with a trf built by make cuda on a GPU, of several on number N", NULL},
    {RUN, CHOICE, "precision", AT(device.precision), "float32|bf16",
     "on a GPU: bf16 makes products of 16 bits, several times as fast; weights and sums keep 32", NULL},
    {RUN, CHOICE, "products", AT(device.products), "auto|cblas|built-in",
     "whose matrix products; auto: the faster one on this machine (see trf_products)", NULL},
    {RUN, COUNT, "threads", AT(threads), "N", "results do not depend on it", then_threads},
};

enum { N_ROWS = (int)(sizeof rows / sizeof *rows) };
typedef char rows_fit[(int)N_ROWS <= (int)MAX_OPTIONS ? 1 : -1];

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
static void value_text(const struct row *row, const struct settings *s, char *text, size_t size)
{
    const char *field = (const char *)s + row->offset, *choice = row->argument, *path;
    int32_t number = 0;
    int64_t wide = 0;
    uint64_t seed;
    double real;
    trf_device device;
    *text = 0;
    switch (row->kind) {
    case HEADING: case FLAG: break;
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
    case REAL: memcpy(&real, field, sizeof real); snprintf(text, size, "%.9g", real); break;
    case DEVICE:
        memcpy(&device, field, sizeof device);
        if (device.kind == TRF_DEVICE_CPU) snprintf(text, size, "cpu");
        else snprintf(text, size, "cuda:%d", (int)device.index);
        break;
    }
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

/* Writes the text of an option into its field. */
static int set_value(const struct row *row, struct settings *s, const char *text)
{
    char *field = (char *)s + row->offset, *end;
    unsigned long long seed;
    int32_t number = 1;
    double real;
    switch (row->kind) {
    case HEADING: break;
    case TEXT: memcpy(field, &text, sizeof text); break;
    case FLAG: memcpy(field, &number, sizeof number); break;
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

/* Applies all options that were given to s, in the order of the table. */
static int apply_given(struct settings *s)
{
    int i;
    for (i = 0; i < N_ROWS; i++) {
        if (!s->given[i]) continue;
        if (set_value(&rows[i], s, s->given[i])) return USAGE;
        if (rows[i].then) rows[i].then(s);
    }
    then_threads(s);
    return DONE;
}

static int was_given(const struct settings *s, const char *name)
{
    int i;
    for (i = 0; i < N_ROWS; i++) if (s->given[i] && !strcmp(rows[i].name, name)) return 1;
    return 0;
}

// -----------------------------------------------------------------------------------------------
// >>help           texts made from the table
//
// Defaults are not written anywhere: they are asked from the library, once plainly and once under
// each preset, and a preset is named where it differs.
// -----------------------------------------------------------------------------------------------

struct command {
    int bit;
    const char *name, *summary, *usage, *text, *after;
    int (*run)(struct settings *s, int argc, char **argv);
};

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
static void default_text(const struct row *row, char *text, size_t size)
{
    static const char *const presets[][2] = {
        {"size", "base"}, {"size", "big"}, {"conventions", "pytorch"}, {"conventions", "paper"},
        {"search-rule", "fairseq"}, {"search-rule", "ctranslate2"}, {"search-rule", "marian"},
        {"search-rule", "raw"}, {"search-rule", "hugging-face"}};
    struct settings plain, changed;
    char value[64], other[64];
    size_t used, i;
    int j;
    set_defaults(&plain);
    value_text(row, &plain, value, sizeof value);
    *text = 0;
    if (!*value || row->then == then_conventions) return;
    used = (size_t)snprintf(text, size, " (default %s", value);
    for (i = 0; i < sizeof presets / sizeof *presets && used < size; i++) {
        set_defaults(&changed);
        for (j = 0; j < N_ROWS; j++)
            if (!strcmp(rows[j].name, presets[i][0])) {
                if (row == &rows[j]) break;             /* a preset does not explain itself */
                set_value(&rows[j], &changed, presets[i][1]);
                rows[j].then(&changed);
            }
        value_text(row, &changed, other, sizeof other);
        if (!strcmp(value, other)) continue;
        used += (size_t)snprintf(text + used, size - used, "; %s: %s", presets[i][1], other);
    }
    if (used < size) snprintf(text + used, size - used, ")");
}

static void print_help(const struct command *command)
{
    enum { COLUMN = 30 };
    char defaults[256], sentence[512];
    int i, width;
    printf("usage: %s\n\n", command->usage);
    puts(command->text);
    for (i = 0; i < N_ROWS; i++) {
        const struct row *row = &rows[i];
        if (!(row->commands & command->bit)) continue;
        if (row->kind == HEADING) { printf("\n%s:\n", row->name); continue; }
        width = printf("  --%s%s%s", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
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
static int distance(const char *a, const char *b)
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
    for (i = 0; i < N_ROWS; i++) {
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
static int parse_command_line(const struct command *command, struct settings *s, int argc, char **argv)
{
    enum { FIRST = 1000, HELP = FIRST + MAX_OPTIONS };
    struct option options[MAX_OPTIONS + 2];
    int n = 0, i, code;
    memset(options, 0, sizeof options);
    for (i = 0; i < N_ROWS; i++) {
        if (!(rows[i].commands & command->bit) || rows[i].kind == HEADING) continue;
        options[n].name = rows[i].name;
        options[n].has_arg = rows[i].kind == FLAG ? no_argument : required_argument;
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
        if (code == '?') { say_unknown(command, argv[optind - 1]); return USAGE; }
        s->given[code - FIRST] = optarg ? optarg : "";
    }
    return apply_given(s) ? USAGE : -1;
}

// -----------------------------------------------------------------------------------------------
// >>lines          reading sentences and pairs, with their line numbers
//
// A line ends with LF or CR LF, which do not belong to the sentence; the last line may lack it.
// Lines that cannot be read as a sentence or as a pair (a NUL byte, no tab) come with a `fault`:
// training stops there, translating and scoring answer them with an empty result and go on.
// -----------------------------------------------------------------------------------------------

struct reader {
    FILE *file;
    const char *name;
    char *line;
    size_t capacity, length;
    int64_t number;         /* of the line just read, from 1 */
    const char *fault;      /* NULL, or why the line is no sentence */
};

static int open_reader(struct reader *r, const char *path)
{
    memset(r, 0, sizeof *r);
    if (!path || !strcmp(path, "-")) { r->file = stdin; r->name = "standard input"; return DONE; }
    r->name = path;
    r->file = fopen(path, "r");
    if (!r->file) { say("cannot read '%s': %s", path, strerror(errno)); return FAILED; }
    return DONE;
}

static void close_reader(struct reader *r)
{
    if (r->file && r->file != stdin) fclose(r->file);
    free(r->line);
    memset(r, 0, sizeof *r);
}

/* 1: a line is in r->line; 0: the end; -1: an error, which has been told. */
static int next_line(struct reader *r)
{
    ssize_t length;
    errno = 0;
    length = getline(&r->line, &r->capacity, r->file);
    if (length < 0) {
        if (feof(r->file) && !ferror(r->file)) return 0;
        say("%s:%lld: cannot read on: %s", r->name, (long long)r->number + 1, strerror(errno));
        return -1;
    }
    r->number++;
    if (r->number == 1 && length >= 3 && !memcmp(r->line, "\xEF\xBB\xBF", 3))     /* a byte order mark is no text */
        memmove(r->line, r->line + 3, (size_t)(length -= 3) + 1);
    if (length > 0 && r->line[length - 1] == '\n') r->line[--length] = 0;
    if (length > 0 && r->line[length - 1] == '\r') r->line[--length] = 0;
    r->length = (size_t)length;
    r->fault = memchr(r->line, 0, r->length) ? "a NUL byte" : NULL;
    return 1;
}

/* Two files line by line, or one file with a tab in each line. */
struct pair_reader {
    struct reader side[2];          /* source, target; of a TSV only the first is used */
    int tsv;
    int keep_unpaired;              /* 1: a line without a partner is a pair with a fault, so that each is answered */
    int unpaired;                   /* 1: there was one */
    const struct reader *at;        /* whose name and number tell where the pair stands */
    const char *source, *target;    /* the pair just read */
    const char *fault;
};

static int open_pairs(struct pair_reader *p, const char *source, const char *target, const char *tsv)
{
    memset(p, 0, sizeof *p);
    p->tsv = tsv != NULL;
    p->at = &p->side[0];
    if (open_reader(&p->side[0], tsv ? tsv : source)) return FAILED;
    if (tsv) return DONE;
    if (!strcmp(source, "-") && !strcmp(target, "-")) {
        say("source and target cannot both be standard input; use --tsv -");
        return USAGE;
    }
    return open_reader(&p->side[1], target);
}

static void close_pairs(struct pair_reader *p)
{
    close_reader(&p->side[0]);
    close_reader(&p->side[1]);
}

static int next_tsv_pair(struct pair_reader *p)
{
    struct reader *r = &p->side[0];
    int got = next_line(r);
    char *tab;
    p->source = p->target = "";
    if (got < 1) return got;
    tab = strchr(r->line, '\t');
    p->fault = r->fault ? r->fault : tab ? NULL : "no tab between source and target";
    if (tab && strchr(tab + 1, '\t')) p->fault = "more than one tab";
    if (p->fault) return 1;
    *tab = 0;
    p->source = r->line;
    p->target = tab + 1;
    return 1;
}

/* As next_line, for a pair. Two files that do not end together are an error that names both lengths. */
static int next_pair(struct pair_reader *p)
{
    struct reader *a = &p->side[0], *b = &p->side[1];
    int got_a, got_b;
    if (p->tsv) return next_tsv_pair(p);
    got_a = next_line(a);
    got_b = got_a < 0 ? -1 : next_line(b);
    if (got_a == 1 && got_b == 1) {
        p->source = a->line;
        p->target = b->line;
        p->fault = a->fault ? a->fault : b->fault;
        return 1;
    }
    if (got_a == 0 && got_b == 0 && !p->unpaired) return 0;
    if (p->keep_unpaired && got_a >= 0 && got_b >= 0 && (got_a || got_b)) {
        p->unpaired = 1;
        p->at = got_a ? a : b;
        p->source = p->target = "";
        p->fault = "the other file has no such line";
        return 1;
    }
    while (got_a > 0) got_a = next_line(a);
    while (got_b > 0) got_b = next_line(b);
    if (got_a == 0 && got_b == 0)
        say("%s has %lld lines, but %s has %lld: line n of one must belong to line n of the other",
            a->name, (long long)a->number, b->name, (long long)b->number);
    return -1;
}

/* Whether the three options of a command say which pairs are meant. */
static int check_pairs_given(const char *prefix, const char *source, const char *target, const char *tsv)
{
    if (tsv ? !source && !target : source && target) return DONE;
    say("give --%ssource FILE and --%starget FILE, or --%stsv FILE alone", prefix, prefix, prefix);
    return USAGE;
}

// -----------------------------------------------------------------------------------------------
// >>sequences      token ids, one sentence after another, as the library takes them
// -----------------------------------------------------------------------------------------------

struct side {
    int32_t *ids, *lengths;
    size_t used, ids_capacity, count, lengths_capacity;
};

static void free_side(struct side *side)
{
    free(side->ids);
    free(side->lengths);
    memset(side, 0, sizeof *side);
}

static void clear_side(struct side *side) { side->used = side->count = 0; }

static trf_sequences sequences_of(const struct side *side)
{
    trf_sequences all;
    all.ids = side->ids;
    all.lengths = side->lengths;
    all.count = (int32_t)side->count;
    return all;
}

/* Appends a text as one more sequence of at most `limit` tokens. Where that fails, *n is still the number of
   tokens (0 if the text is not UTF-8), nothing is appended, and `why` is a sentence about it. */
static int add_text(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit, int32_t *n,
                    char why[300])
{
    trf_error err;
    trf_status status;
    *n = 0;
    side->ids = grow(side->ids, &side->ids_capacity, side->used + (size_t)limit, sizeof *side->ids);
    side->lengths = grow(side->lengths, &side->lengths_capacity, side->count + 1, sizeof *side->lengths);
    status = trf_vocab_encode(vocab, text, side->ids + side->used, limit, n, &err);
    if (status == TRF_E_LIMIT) { snprintf(why, 300, "%d tokens, at most %d", (int)*n, (int)limit); return FAILED; }
    if (status) { *n = 0; snprintf(why, 300, "%s", err.message); return FAILED; }
    side->used += (size_t)*n;
    side->lengths[side->count++] = *n;
    return DONE;
}

/* Takes the last sequence away again. */
static void drop_last(struct side *side)
{
    side->used -= (size_t)side->lengths[--side->count];
}

/* Whether two names mean one file, which exists. */
static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (!a || !b || stat(a, &x) || stat(b, &y)) return 0;
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A file that is written must be none that the command reads. */
static int check_written(const struct settings *s, const char *option, const char *path)
{
    const struct { const char *option, *path; } read[] = {
        {"source", s->source}, {"target", s->target}, {"tsv", s->tsv}, {"valid-source", s->valid_source},
        {"valid-target", s->valid_target}, {"valid-tsv", s->valid_tsv}, {"input", s->input}, {"model", s->model}
    };
    struct stat in, out;
    size_t i;
    for (i = 0; i < sizeof read / sizeof *read; i++)
        if (path != read[i].path && same_file(path, read[i].path)) {
            say("--%s '%s' is the file that --%s reads", option, path, read[i].option);
            return FAILED;
        }
    if (path && !stat(path, &out) && !fstat(STDIN_FILENO, &in) && S_ISREG(in.st_mode) && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino) {
        say("--%s '%s' is the file that standard input reads", option, path);
        return FAILED;
    }
    return DONE;
}

/* Results go to standard output or a file; a full disk or a closed pipe must not look like success. */
static FILE *open_output(const struct settings *s)
{
    FILE *file;
    if (!s->output || !strcmp(s->output, "-")) return stdout;
    if (check_written(s, "output", s->output)) return NULL;
    file = fopen(s->output, "w");
    if (!file) say("cannot write '%s': %s", s->output, strerror(errno));
    return file;
}

static int check_output(FILE *file, const char *path)
{
    if (!fflush(file) && !ferror(file)) return DONE;
    say("cannot write %s: %s", path && strcmp(path, "-") ? path : "standard output", strerror(errno));
    return FAILED;
}

static int close_output(FILE *file, const char *path)
{
    int status = check_output(file, path);
    if (file != stdout && fclose(file) && !status) {
        say("cannot write %s: %s", path, strerror(errno));
        status = FAILED;
    }
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>train          from files to a corpus, a model and a trainer
//
// The text is read once into memory (so pipes will do), vocabularies are learned from it, then it
// becomes ids and is freed. With --resume the vocabularies and all settings come from the
// checkpoint, and options that were given are compared with it.
// -----------------------------------------------------------------------------------------------

struct text {                       /* lines, each ended by NUL */
    char *bytes;
    size_t *starts;
    size_t used, capacity, count, starts_capacity;
};

struct training {
    struct settings *s;
    char *checkpoint;               /* path, or NULL: none is kept */
    struct text text[2];
    trf_vocab *vocab[2];            /* ours, while learning; both are one when joint */
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    struct side valid[2];
    int64_t left_out, empty;        /* pairs that were not taken */
    int32_t longest;                /* tokens of the longest side of a pair that was */
};

static void add_line(struct text *text, const char *line)
{
    size_t bytes = strlen(line) + 1;
    text->bytes = grow(text->bytes, &text->capacity, text->used + bytes, 1);
    text->starts = grow(text->starts, &text->starts_capacity, text->count + 1, sizeof *text->starts);
    memcpy(text->bytes + text->used, line, bytes);
    text->starts[text->count++] = text->used;
    text->used += bytes;
}

static const char *line_of(const struct text *text, size_t index) { return text->bytes + text->starts[index]; }

static void free_text(struct text *text)
{
    free(text->bytes);
    free(text->starts);
    memset(text, 0, sizeof *text);
}

static const char *training_file(const struct settings *s, int side)
{
    return s->tsv ? s->tsv : side ? s->target : s->source;
}

static int read_training_text(struct training *t)
{
    struct pair_reader pairs;
    int got = -1;
    if (!open_pairs(&pairs, t->s->source, t->s->target, t->s->tsv)) {
        while ((got = next_pair(&pairs)) > 0) {
            if (pairs.fault) {
                say("%s:%lld: %s", pairs.side[0].name, (long long)pairs.side[0].number, pairs.fault);
                got = -1;
                break;
            }
            add_line(&t->text[0], pairs.source);
            add_line(&t->text[1], pairs.target);
        }
        if (got == 0 && t->text[0].count == 0) {
            say("%s is empty: nothing to train on", pairs.side[0].name);
            got = -1;
        }
    }
    close_pairs(&pairs);
    return got ? FAILED : DONE;
}

/* Counts the tokens of one side and keeps at most max_size of them. */
static int learn_side(struct training *t, trf_vocab *vocab, int side)
{
    trf_error err;
    size_t i;
    for (i = 0; i < t->text[side].count; i++)
        if (trf_vocab_learn(vocab, line_of(&t->text[side], i), &err)) {
            say("%s:%zu: %s", training_file(t->s, side), i + 1, err.message);
            return FAILED;
        }
    return DONE;
}

static int learn_vocabularies(struct training *t)
{
    struct settings *s = t->s;
    int joint = s->joint_vocabulary || s->config.tying == TRF_TIED_ALL, side;
    int32_t kinds[2], sizes[2];
    trf_error err;
    kinds[0] = s->source_tokens; kinds[1] = s->target_tokens;
    sizes[0] = s->source_vocab_size; sizes[1] = s->target_vocab_size;
    if (joint && kinds[0] != kinds[1]) {
        say("one vocabulary for both sides needs the same --source-tokens and --target-tokens");
        return USAGE;
    }
    if (joint && was_given(s, "target-vocab-size") && sizes[0] != sizes[1]) {
        say("one vocabulary for both sides has one size: --source-vocab-size %d, --target-vocab-size %d",
            (int)sizes[0], (int)sizes[1]);
        return USAGE;
    }
    for (side = 0; side < 2; side++) {
        if (side && joint) t->vocab[1] = t->vocab[0];
        else if (trf_vocab_create(&t->vocab[side], (trf_token_kind)kinds[side], NULL, &err)) goto failed;
        if (learn_side(t, t->vocab[side], side)) return FAILED;
    }
    for (side = 0; side < (joint ? 1 : 2); side++)
        if (trf_vocab_finish(t->vocab[side], sizes[side], s->min_count, &err)) goto failed;
    return DONE;
failed:
    say_error("vocabulary", &err);
    return FAILED;
}

static void free_vocabularies(struct training *t)
{
    if (t->vocab[1] != t->vocab[0]) trf_vocab_destroy(t->vocab[1]);
    trf_vocab_destroy(t->vocab[0]);
    t->vocab[0] = t->vocab[1] = NULL;
}

/* Lines to ids, into the corpus; pairs that cannot be trained on are told one by one. */
static int fill_corpus(struct training *t, const trf_vocab *const vocab[2])
{
    struct side ids[2];
    int32_t limit = t->s->corpus.max_length, n[2] = {0, 0};
    char why[300];
    trf_error err;
    size_t i;
    int side, status = FAILED;
    memset(ids, 0, sizeof ids);
    if (trf_corpus_create(&t->corpus, &t->s->corpus, &err)) { say_error("corpus", &err); return FAILED; }
    for (i = 0; i < t->text[0].count; i++) {
        for (side = 0; side < 2; side++) {
            clear_side(&ids[side]);
            if (!add_text(&ids[side], vocab[side], line_of(&t->text[side], i), limit, &n[side], why)) continue;
            say("%s: %s:%zu: %s", n[side] ? "left out" : "not readable", training_file(t->s, side), i + 1, why);
            if (n[side] == 0) goto done;
            break;
        }
        if (side < 2) { t->left_out++; continue; }
        if (n[0] == 0 && n[1] == 0) {
            say("left out: %s:%zu: empty on both sides", training_file(t->s, 0), i + 1);
            t->empty++;
            continue;
        }
        if (trf_corpus_add(t->corpus, ids[0].ids, n[0], ids[1].ids, n[1], &err)) {
            say("%s:%zu: %s", training_file(t->s, 0), i + 1, err.message);
            goto done;
        }
        for (side = 0; side < 2; side++) if (n[side] > t->longest) t->longest = n[side];
    }
    status = DONE;
    if (trf_corpus_size(t->corpus) == 0) { say("no pair is left to train on"); status = FAILED; }
done:
    free_side(&ids[0]);
    free_side(&ids[1]);
    return status;
}

static int read_validation(struct training *t, const trf_vocab *const vocab[2])
{
    struct settings *s = t->s;
    struct pair_reader pairs;
    int got = -1;
    int32_t n;
    char why[300];
    if (!s->valid_tsv && !s->valid_source) return DONE;
    if (!open_pairs(&pairs, s->valid_source, s->valid_target, s->valid_tsv)) {
        while ((got = next_pair(&pairs)) > 0) {
            const char *fault = pairs.fault;
            if (!fault && add_text(&t->valid[0], vocab[0], pairs.source, s->corpus.max_length, &n, why)) fault = why;
            else if (!fault && add_text(&t->valid[1], vocab[1], pairs.target, s->corpus.max_length, &n, why)) {
                drop_last(&t->valid[0]);
                fault = why;
            }
            if (fault) say("left out of validation: %s:%lld: %s", pairs.side[0].name,
                           (long long)pairs.side[0].number, fault);
        }
        if (got == 0 && t->valid[0].count == 0) { say("%s: no pair to validate on", pairs.side[0].name); got = -1; }
    }
    close_pairs(&pairs);
    return got ? FAILED : DONE;
}

/* The limits of a batch follow from the corpus; what the plan of memory would not hold it grows by. */
static void set_limits(struct training *t, trf_train_options *training)
{
    const trf_corpus_options *corpus = &t->s->corpus;
    int32_t tokens = corpus->batch_tokens > t->longest + 1 ? corpus->batch_tokens : t->longest + 1;
    training->source_tokens = training->target_tokens = tokens;
    training->sequences = corpus->batch_sentences < tokens ? corpus->batch_sentences : tokens;
    training->longest = t->longest + 1;
}

static int make_model(struct training *t)
{
    struct settings *s = t->s;
    trf_error err;
    s->config.source_vocab = trf_vocab_size(t->vocab[0]);
    s->config.target_vocab = trf_vocab_size(t->vocab[1]);
    if (trf_model_create(&t->model, &s->config, &err)) { say_error("model", &err); return FAILED; }
    if (trf_model_set_vocabs(t->model, t->vocab[0], t->vocab[1], &err)) { say_error("model", &err); return FAILED; }
    set_limits(t, &s->training);
    if (trf_trainer_create(&t->trainer, t->model, &s->training, &err)) { say_error("trainer", &err); return FAILED; }
    return DONE;
}

/* Whether a row is a field of a given member of struct settings. */
static int row_within(const struct row *row, size_t member, size_t bytes)
{
    return row->kind != HEADING && row->offset >= member && row->offset < member + bytes;
}

/* Options of this command line on top of those in the checkpoint. The model cannot change any more. */
static int merge_settings(struct training *t, const trf_model *model, const trf_trainer *trainer)
{
    struct settings *s = t->s, stored = *s, merged;
    const trf_vocab *vocab[2];
    char old[64], new[64];
    int i, side;
    stored.config = *trf_model_config(model);
    stored.training = *trf_trainer_options(trainer);
    stored.training.hooks = s->training.hooks;
    vocab[0] = trf_model_source_vocab(model); vocab[1] = trf_model_target_vocab(model);
    merged = stored;
    if (apply_given(&merged)) return USAGE;
    for (i = 0; i < N_ROWS; i++) {
        if (!row_within(&rows[i], AT(config), sizeof s->config)) continue;
        value_text(&rows[i], &stored, old, sizeof old);
        value_text(&rows[i], &merged, new, sizeof new);
        if (!strcmp(old, new)) continue;
        say("the checkpoint was made with --%s %s, now it is %s: a model cannot change while it is trained",
            rows[i].name, old, new);
        return FAILED;
    }
    for (side = 0; side < 2; side++) {
        if (!vocab[side]) { say("%s holds no vocabularies", t->checkpoint); return FAILED; }
        if (!was_given(s, side ? "target-tokens" : "source-tokens")) continue;
        if ((int)trf_vocab_kind(vocab[side]) == (side ? s->target_tokens : s->source_tokens)) continue;
        say("the checkpoint was made with other --%s-tokens", side ? "target" : "source");
        return FAILED;
    }
    *s = merged;
    s->config = stored.config;
    if (!was_given(s, "seed")) s->corpus.seed = stored.config.seed;     /* one seed for all, as then_seed has it */
    s->corpus.max_length = s->config.max_length - 1;
    return DONE;
}

/* One stored training option into its field; choices are stored as numbers, which the library checks. */
static int set_stored(const struct row *row, struct settings *s, const char *value)
{
    int32_t number = (int32_t)strtol(value, NULL, 10);
    if (row->kind != CHOICE && row->kind != SWITCH) return set_value(row, s, value);
    memcpy((char *)s + row->offset, &number, sizeof number);
    return DONE;
}

/* The training options of a checkpoint, from its header: a trainer gets its options when it is loaded. */
static int read_stored(struct settings *s, const char *path, const trf_load_options *load)
{
    trf_file *file = NULL;
    trf_error err;
    const char *value;
    char key[96], *c;
    int i, status = DONE;
    if (trf_file_open(&file, path, load, &err)) { say_error(NULL, &err); return FAILED; }
    value = trf_file_metadata(file, "trf.content");
    if (!value || strcmp(value, "checkpoint")) goto done;       /* loading will say what it is */
    for (i = 0; i < N_ROWS && !status; i++) {
        if (!row_within(&rows[i], AT(training), sizeof s->training)) continue;
        snprintf(key, sizeof key, "trf.train.%s", rows[i].offset == AT(training.dropout) ? "dropout" : rows[i].name);
        for (c = key; *c; c++) if (*c == '-') *c = '_';
        value = trf_file_metadata(file, key);
        if (!value) say("%s lacks %s", path, key);
        status = value && !set_stored(&rows[i], s, value) ? DONE : FAILED;
    }
    value = trf_file_metadata(file, "trf.train.seed");
    if (value) s->training.seed = (uint64_t)strtoll(value, NULL, 10);
    value = trf_file_metadata(file, "trf.train.longest");
    if (value) s->training.longest = (int32_t)strtol(value, NULL, 10);
done:
    trf_file_close(file);
    return status;
}

/* The vocabularies of the checkpoint make the corpus, which is then moved to its place in the data. */
static int load_training(struct training *t)
{
    trf_load_options load = load_options(t->s);
    struct settings merged = *t->s;
    const trf_vocab *vocab[2];
    trf_error err;
    int status = read_stored(&merged, t->checkpoint, &load);
    if (status) return status;
    if (apply_given(&merged)) return USAGE;
    /* the data are not read yet: the plan of memory is the stored one, within reason; it can grow */
    t->longest = (int32_t)fmax(1, fmin(merged.training.longest, merged.corpus.batch_tokens) - 1);
    set_limits(t, &merged.training);
    t->longest = 0;
    if (trf_checkpoint_load(&t->model, &t->trainer, NULL, t->checkpoint, &merged.training, &load, &err)) {
        say_error(NULL, &err);
        return FAILED;
    }
    if ((status = merge_settings(t, t->model, t->trainer))) return status;
    vocab[0] = trf_model_source_vocab(t->model); vocab[1] = trf_model_target_vocab(t->model);
    if ((status = fill_corpus(t, vocab)) || (status = read_validation(t, vocab))) return status;
    set_limits(t, &t->s->training);
    if (trf_corpus_resume(t->corpus, t->trainer, &err)) {
        say_error(t->checkpoint, &err);
        if (err.status == TRF_E_STATE)
            say("going on needs the data, --batch-tokens, --batch-sentences, --padded-budget, --shuffle, --buckets, "
                "--max-length and --seed of the beginning");
        return FAILED;
    }
    return DONE;
}

static int start_training(struct training *t)
{
    const trf_vocab *vocab[2];
    int status = learn_vocabularies(t);
    if (status) return status;
    vocab[0] = t->vocab[0]; vocab[1] = t->vocab[1];
    if ((status = fill_corpus(t, vocab)) || (status = read_validation(t, vocab))) return status;
    return make_model(t);
}

static void free_training(struct training *t)
{
    int side;
    trf_trainer_destroy(t->trainer);
    trf_model_destroy(t->model);
    trf_corpus_destroy(t->corpus);
    free_vocabularies(t);
    for (side = 0; side < 2; side++) { free_text(&t->text[side]); free_side(&t->valid[side]); }
    free(t->checkpoint);
}

// -----------------------------------------------------------------------------------------------
// >>progress       a line now and then: step, loss, learning rate, real tokens a second, time left
//
// Loss is the mean over the target tokens since the last line. Tokens are real ones of both sides:
// there is no padding to count. On a terminal the line is written over once a second.
// -----------------------------------------------------------------------------------------------

struct progress {
    double began, drawn;                        /* times: training began; the last line was drawn */
    double window_began, window_loss;           /* since the last finished line */
    int64_t window_target, window_tokens;
    int64_t tokens, updates, applied;           /* of this run; applied: updates that were not left out */
    double passes;                              /* over the data, in this run */
    int64_t first_epoch;
    int terminal;
};

static void start_progress(struct progress *p, int64_t epoch)
{
    memset(p, 0, sizeof *p);
    p->began = p->drawn = p->window_began = now();
    p->first_epoch = epoch;
    p->terminal = isatty(STDERR_FILENO);
}

static void count_update(struct progress *p, const trf_step_report *report)
{
    int64_t tokens = report->source_tokens + report->target_tokens;
    p->updates++;
    p->tokens += tokens;
    p->window_tokens += tokens;
    if (report->skipped) return;
    p->applied++;
    p->window_target += report->target_tokens;
    p->window_loss += report->loss * (double)report->target_tokens;
}

/* "2h05m", "3m09s", "12s" */
static void time_text(double seconds, char text[32])
{
    long long s = (long long)(seconds + 0.5);
    if (!(seconds < 1e9)) snprintf(text, 32, "unknown");
    else if (s >= 3600) snprintf(text, 32, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else if (s >= 60) snprintf(text, 32, "%lldm%02llds", s / 60, s % 60);
    else snprintf(text, 32, "%llds", s);
}

/* Seconds until the last update or the last epoch, whichever comes first. */
static double time_left(const struct progress *p, const struct settings *s, int64_t step)
{
    double spent = now() - p->began, left = DBL_MAX, passes;
    if (s->updates != INT64_MAX) left = spent / (double)p->updates * (double)(s->updates - step);
    if (s->corpus.epochs == TRF_ENDLESS || p->passes <= 0) return left;
    passes = (double)(s->corpus.epochs - p->first_epoch);
    passes = passes > p->passes ? passes - p->passes : 0;
    return fmin(left, spent / p->passes * passes);
}

static void show_progress(struct progress *p, const struct settings *s, int64_t epoch, const trf_step_report *report)
{
    int whole = report->step % s->log_every == 0;
    double time = now(), seconds = time - p->window_began;
    char left[32], loss[32] = "-";      /* '-': every update since the last line was left out */
    if (!whole && !(p->terminal && time - p->drawn > 1)) return;
    time_text(time_left(p, s, report->step), left);
    if (p->window_target) snprintf(loss, sizeof loss, "%.4f", p->window_loss / (double)p->window_target);
    fprintf(stderr, "%sstep %lld  epoch %lld  loss %s  lr %.3e  %.0f tokens/s  left %s%s", p->terminal ? "\r" : "",
            (long long)report->step, (long long)epoch + 1, loss, report->learning_rate,
            (double)p->window_tokens / fmax(seconds, 1e-9), left, p->terminal ? "\033[K" : "");
    if (whole) fputc('\n', stderr);
    unfinished_line = !whole;
    p->drawn = time;
    if (!whole) return;
    p->window_began = time;
    p->window_loss = 0;
    p->window_target = p->window_tokens = 0;
}

// -----------------------------------------------------------------------------------------------
// >>training-loop  updates, validation, checkpoints, and ending well
//
// SIGINT and SIGTERM only set a flag: the update that runs is finished, a checkpoint is written,
// and the exit status is 128 + the signal. A second one of the same kind ends the program at once.
// -----------------------------------------------------------------------------------------------

static volatile sig_atomic_t stopped_by;

static void stop_soon(int signal_number) { stopped_by = signal_number; }

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM};
    struct sigaction action, inherited;
    size_t i;
    memset(&action, 0, sizeof action);
    action.sa_handler = stop_soon;
    action.sa_flags = (int)(SA_RESETHAND | SA_RESTART);
    for (i = 0; i < sizeof signals / sizeof *signals; i++)      /* one that the parent ignores stays ignored */
        if (!sigaction(signals[i], NULL, &inherited) && inherited.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

/* One update from `accumulate` batches, fewer when the last epoch ends. TRF_E_END: no data are left. */
static trf_status one_update(struct training *t, struct progress *p, trf_step_report *report, trf_error *err)
{
    trf_batch batch;
    trf_status status;
    int32_t i;
    for (i = 0; i < t->s->accumulate; i++) {
        status = trf_corpus_next(t->corpus, &batch, err);
        if (status == TRF_E_END && i > 0) break;
        if (status) return status;
        if ((status = trf_forward_backward(t->trainer, &batch, report, err))) return status;
        p->passes += (double)batch.target.count / (double)trf_corpus_size(t->corpus);
    }
    return trf_optimizer_step(t->trainer, report, err);
}

/* Mean loss over the validation pairs, in batches of the training's size. */
static int validate(struct training *t, int64_t step)
{
    const trf_train_options limits = t->s->training;
    size_t i = 0, source = 0, target = 0;
    double loss = 0, nll = 0, right = 0, tokens = 0;
    if (t->valid[0].count == 0) return DONE;
    while (i < t->valid[0].count) {
        int64_t tokens_of[2] = {0, 0};
        trf_step_report report;
        trf_batch batch;
        trf_error err;
        memset(&batch, 0, sizeof batch);
        batch.source.ids = t->valid[0].ids + source; batch.source.lengths = t->valid[0].lengths + i;
        batch.target.ids = t->valid[1].ids + target; batch.target.lengths = t->valid[1].lengths + i;
        for (; i < t->valid[0].count && batch.source.count < limits.sequences; i++, batch.source.count++) {
            tokens_of[0] += t->valid[0].lengths[i] + 1;
            tokens_of[1] += t->valid[1].lengths[i] + 1;
            if (batch.source.count > 0 &&
                (tokens_of[0] > limits.source_tokens || tokens_of[1] > limits.target_tokens)) break;
            source += (size_t)t->valid[0].lengths[i];
            target += (size_t)t->valid[1].lengths[i];
        }
        batch.target.count = batch.source.count;
        if (trf_evaluate(t->trainer, &batch, &report, &err)) { say_error("validation", &err); return FAILED; }
        loss += report.loss * (double)report.target_tokens;
        nll += report.nll * (double)report.target_tokens;
        right += report.accuracy * (double)report.target_tokens;
        tokens += (double)report.target_tokens;
    }
    if (unfinished_line) fputc('\n', stderr);
    unfinished_line = 0;
    fprintf(stderr, "validation: step %lld  loss %.4f  nll %.4f  perplexity %.4g  accuracy %.4f\n", (long long)step,
            loss / tokens, nll / tokens, exp(nll / tokens), right / tokens);
    return DONE;
}

static int save_checkpoint(struct training *t)
{
    trf_error err;
    if (!t->checkpoint) return DONE;
    if (!trf_checkpoint_save(t->trainer, t->corpus, t->checkpoint, &err)) return DONE;
    say_error(NULL, &err);
    return FAILED;
}

/* Runs until the last update, the last epoch or a signal. A checkpoint that cannot be written on the way is
   told and tried again later; what counts is the last one. */
static int train_on(struct training *t, struct progress *p)
{
    struct settings *s = t->s;
    trf_step_report report;
    trf_error err;
    trf_status status = TRF_OK;
    int64_t step = trf_trainer_step(t->trainer), validated = -1, epoch;
    while (!stopped_by && step < s->updates) {
        epoch = trf_corpus_epoch(t->corpus);    /* before the update: behind the last batch it is the next one */
        status = one_update(t, p, &report, &err);
        if (status == TRF_E_END) break;
        if (status) { say_error("training", &err); return FAILED; }
        step = report.step;
        if (report.skipped) say("update %lld was left out: %s is not finite", (long long)step, report.tensor);
        count_update(p, &report);
        show_progress(p, s, epoch, &report);
        if (step % s->valid_every == 0 && validate(t, validated = step)) return FAILED;
        if (s->checkpoint_every && step % s->checkpoint_every == 0) save_checkpoint(t);
    }
    return !stopped_by && validated != step ? validate(t, step) : DONE;
}

/* Better now than after a night of training. */
static int check_writable(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    struct stat there;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    if (!stat(path, &there) && S_ISDIR(there.st_mode)) errno = EISDIR;
    else if (!access(folder, W_OK | X_OK)) return DONE;
    say("cannot write '%s': %s", path, strerror(errno));
    return FAILED;
}

static int check_training(struct training *t)
{
    struct settings *s = t->s;
    struct stat there;
    size_t bytes, capacity = 0;
    if (check_pairs_given("", s->source, s->target, s->tsv)) return USAGE;
    if ((s->valid_tsv || s->valid_source || s->valid_target) &&
        check_pairs_given("valid-", s->valid_source, s->valid_target, s->valid_tsv)) return USAGE;
    if (!s->model) { say("give --model FILE, the file to write the model to"); return USAGE; }
    if (s->updates == INT64_MAX && s->corpus.epochs == TRF_ENDLESS) {
        say("give --updates N or --epochs N: when training ends");
        return USAGE;
    }
    if (!s->checkpoint || *s->checkpoint) {
        const char *name = s->checkpoint ? s->checkpoint : s->model;
        bytes = strlen(name) + sizeof ".checkpoint";
        t->checkpoint = grow(NULL, &capacity, bytes, 1);
        snprintf(t->checkpoint, bytes, "%s%s", name, s->checkpoint ? "" : ".checkpoint");
    }
    if (s->resume && !t->checkpoint) { say("--resume needs a checkpoint"); return USAGE; }
    if (t->checkpoint && (!strcmp(t->checkpoint, s->model) || same_file(t->checkpoint, s->model))) {
        say("--model and --checkpoint name the same file");
        return USAGE;
    }
    if (check_written(s, "model", s->model) || check_written(s, "checkpoint", t->checkpoint)) return FAILED;
    if (check_writable(s->model) || (t->checkpoint && check_writable(t->checkpoint))) return FAILED;
    if (t->checkpoint && !s->resume && !stat(t->checkpoint, &there))
        say("'%s' exists and will be replaced; --resume would go on from it", t->checkpoint);
    if (s->training.schedule == TRF_COSINE && s->training.total_steps == 0) {
        if (s->updates == INT64_MAX && !s->resume) {
            say("--schedule cosine needs --total-steps, or --updates, at which it then ends");
            return USAGE;
        }
        if (s->updates != INT64_MAX) s->training.total_steps = s->updates;
    }
    s->corpus.max_length = s->config.max_length - 1;    /* the library adds a begin or an end mark */
    return DONE;
}

static void describe(const struct training *t)
{
    const trf_config *config = trf_model_config(t->model);
    size_t bytes = trf_model_memory(config) + trf_trainer_memory(config, &t->s->training);
    fprintf(stderr, "%lld pairs", (long long)trf_corpus_size(t->corpus));
    if (t->left_out) fprintf(stderr, ", %lld more left out as too long", (long long)t->left_out);
    if (t->empty) fprintf(stderr, ", %lld more left out as empty", (long long)t->empty);
    fprintf(stderr, "; %d source and %d target tokens; %lld weights; %.0f MB of memory; %s from update %lld\n",
            (int)config->source_vocab, (int)config->target_vocab, (long long)trf_parameter_total(t->model),
            (double)bytes * 1e-6, t->s->resume ? "resumed" : "training", (long long)trf_trainer_step(t->trainer) + 1);
}

/* Training with everything ready; then the model is saved. */
static int train_and_save(struct training *t)
{
    struct progress p;
    trf_error err;
    double seconds;
    int kept;
    describe(t);
    catch_signals();
    start_progress(&p, trf_corpus_epoch(t->corpus));
    if (train_on(t, &p)) return FAILED;
    seconds = now() - p.began;
    kept = save_checkpoint(t);
    if (stopped_by && kept != DONE) return FAILED;
    if (stopped_by) {
        say("stopped by signal %d after update %lld; %s%s", (int)stopped_by, (long long)trf_trainer_step(t->trainer),
            t->checkpoint ? t->checkpoint : "no checkpoint was wanted, nothing is kept",
            t->checkpoint ? " is complete: the same command with --resume goes on" : "");
        return SIGNALLED + (int)stopped_by;
    }
    if (p.updates && !p.applied) {
        say("all %lld updates were left out: nothing was learnt, and no model is written", (long long)p.updates);
        return FAILED;
    }
    if (trf_model_save(t->model, t->s->model, &err)) { say_error(NULL, &err); return FAILED; }
    if (unfinished_line) fputc('\n', stderr);
    unfinished_line = 0;
    fprintf(stderr, "done: %lld updates, %lld real tokens in %.1f s, %.0f tokens/s; model in %s\n",
            (long long)p.updates, (long long)p.tokens, seconds, (double)p.tokens / fmax(seconds, 1e-9), t->s->model);
    return kept;
}

static int command_train(struct settings *s, int argc, char **argv)
{
    struct training t;
    int status;
    (void)argc;
    (void)argv;
    memset(&t, 0, sizeof t);
    t.s = s;
    status = check_training(&t);
    if (!status) status = read_training_text(&t);
    if (!status) status = s->resume ? load_training(&t) : start_training(&t);
    if (!status) {
        free_text(&t.text[0]);
        free_text(&t.text[1]);
        free_vocabularies(&t);      /* the model has copies */
        status = train_and_save(&t);
    }
    free_training(&t);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>translate      one line out for every line in
//
// A few lines are read, translated together, written. A line without tokens gives an empty line. A
// line that cannot be translated (too long, not UTF-8) gives an empty line too, a message with its
// number, and exit status 1 at the end. So line n of the output always belongs to line n of the input.
// -----------------------------------------------------------------------------------------------

enum { EMPTY = -1, UNUSABLE = -2 };     /* instead of the number of a sentence */

struct translating {
    struct settings *s;
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *source_vocab, *target_vocab;
    struct reader in;
    FILE *out;
    struct side sources;
    int32_t *sentence;          /* of each line of the batch: its number among the sources, EMPTY or UNUSABLE */
    char *answer;
    size_t answer_capacity;
    int32_t limit;              /* tokens of the longest source */
    int64_t unusable;
    int broken;                 /* 1: the input could not be read to its end */
};

static int load_model(struct settings *s, trf_model **model, const trf_vocab **source, const trf_vocab **target)
{
    trf_load_options load = load_options(s);
    trf_error err;
    if (!s->model) { say("give --model FILE"); return USAGE; }
    if (trf_model_load(model, s->model, &load, &err)) {
        if (err.status != TRF_E_STATE) say_error(NULL, &err);
        else say("%s is a checkpoint, not a model: trf train --resume goes on from it, and writes one", s->model);
        return FAILED;
    }
    *source = trf_model_source_vocab(*model);
    *target = trf_model_target_vocab(*model);
    if (trf_model_config(*model)->kind == TRF_DECODER_ONLY) *source = *target;
    if (*source && *target) return DONE;
    say("%s: holds no vocabularies, so it cannot work with text", s->model);
    return FAILED;
}

/* Tokens that fit beside an end mark, where the model wants one. */
static int32_t source_limit(const trf_config *config)
{
    return config->max_length - (config->source_eos || config->kind == TRF_DECODER_ONLY ? 1 : 0);
}

/* Reads up to one batch of lines. Returns their number. */
static int32_t read_batch(struct translating *t)
{
    int32_t lines = 0, n;
    char why[300];
    clear_side(&t->sources);
    while (!t->broken && lines < t->s->batch) {
        int got = next_line(&t->in);
        const char *fault;
        t->broken = got < 0;
        if (got < 1) break;
        fault = t->in.fault;
        n = 0;
        if (!fault && add_text(&t->sources, t->source_vocab, t->in.line, t->limit, &n, why)) fault = why;
        if (fault) {
            say("%s:%lld: answered with an empty line: %s", t->in.name, (long long)t->in.number, fault);
            t->unusable++;
            t->sentence[lines++] = UNUSABLE;
        } else if (n == 0) {
            drop_last(&t->sources);
            t->sentence[lines++] = EMPTY;
        } else t->sentence[lines++] = (int32_t)t->sources.count - 1;
    }
    return lines;
}

/* Text of a hypothesis, on one line whatever the tokens are. */
static const char *answer_text(struct translating *t, const trf_hypothesis *h)
{
    trf_error err;
    size_t bytes = 0;
    char *c;
    t->answer = grow(t->answer, &t->answer_capacity, 256, 1);
    while (trf_vocab_decode(t->target_vocab, h->ids, h->n, t->answer, t->answer_capacity, &bytes, &err)) {
        if (err.status != TRF_E_LIMIT || bytes < t->answer_capacity) { say_error("answer", &err); return NULL; }
        t->answer = grow(t->answer, &t->answer_capacity, bytes + 1, 1);
    }
    for (c = t->answer; *c; c++) if (*c == '\n' || *c == '\r') *c = ' ';
    return t->answer;
}

/* Writes what belongs to line `number`: one line, or n_best lines when that form is asked for. */
static int write_answer(struct translating *t, int64_t number, int32_t sentence, int n_best)
{
    int32_t rank, count = sentence < 0 ? 1 : trf_hypothesis_count(t->translator, sentence);
    if (!n_best && count > 1) count = 1;
    for (rank = 0; rank < count || rank == 0; rank++) {
        const trf_hypothesis *h = sentence < 0 ? NULL : trf_hypothesis_at(t->translator, sentence, rank);
        double score = h ? h->score : sentence == EMPTY ? 0.0 : -HUGE_VAL;
        const char *text = h ? answer_text(t, h) : "";
        if (!text) return FAILED;
        if (n_best) fprintf(t->out, "%lld\t%d\t", (long long)number, (int)rank + 1);
        if (n_best || t->s->scores) fprintf(t->out, "%.6f\t", score);
        fprintf(t->out, "%s\n", text);
    }
    return DONE;
}

static int translate_lines(struct translating *t)
{
    int n_best = was_given(t->s, "n-best"), flush = t->s->interactive || isatty(fileno(t->in.file));
    int32_t lines, i;
    int64_t first;
    trf_error err;
    if (flush) t->s->batch = 1;
    t->sentence = calloc((size_t)t->s->batch, sizeof *t->sentence);
    if (!t->sentence) { say("out of memory for --batch %d", (int)t->s->batch); return FAILED; }
    while ((lines = read_batch(t)) > 0) {
        trf_sequences sources = sequences_of(&t->sources);
        first = t->in.number - lines + 1;
        if (sources.count && trf_translate_batch(t->translator, &sources, &err)) {
            say("%s:%lld: %s (%s)", t->in.name, (long long)first, err.message,
                trf_status_name((trf_status)err.status));
            return FAILED;
        }
        for (i = 0; i < lines; i++) if (write_answer(t, first + i, t->sentence[i], n_best)) return FAILED;
        if ((flush || ferror(t->out)) && check_output(t->out, t->s->output)) return FAILED;
    }
    if (t->unusable)
        say("%lld of %lld lines could not be translated", (long long)t->unusable, (long long)t->in.number);
    return t->broken || t->unusable ? FAILED : DONE;
}

static int command_translate(struct settings *s, int argc, char **argv)
{
    struct translating t;
    trf_error err;
    int status;
    (void)argc;
    (void)argv;
    memset(&t, 0, sizeof t);
    t.s = s;
    status = load_model(s, &t.model, &t.source_vocab, &t.target_vocab);
    if (!status && trf_translator_create(&t.translator, t.model, &s->search, &err)) {
        say_error("search", &err);
        status = FAILED;
    }
    if (!status) status = open_reader(&t.in, s->input);
    if (!status && !(t.out = open_output(s))) status = FAILED;
    if (!status) {
        t.limit = source_limit(trf_model_config(t.model));
        status = translate_lines(&t);
    }
    if (t.out && close_output(t.out, s->output)) status = FAILED;
    close_reader(&t.in);
    free_side(&t.sources);
    free(t.sentence);
    free(t.answer);
    trf_translator_destroy(t.translator);
    trf_model_destroy(t.model);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>score          log-probability of each target, given its source
//
// A line each: natural logarithm, tab, target tokens with the end mark. So exp(-a/b) is the
// perplexity of a line. A pair that cannot be scored, and a line that the other file has no partner for, gives
// "nan", tab, 0, and exit status 1.
// -----------------------------------------------------------------------------------------------

struct scoring {
    struct settings *s;
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *vocab[2];
    struct pair_reader pairs;
    FILE *out;
    struct side side[2];
    double *results;
    int32_t *pair;              /* of each line of the batch: its number among the pairs, or UNUSABLE */
    int64_t lines, unusable, tokens;
    double sum;
    int broken;                 /* 1: the files could not be read to their ends, or have different lengths */
};

/* Reads up to one batch of pairs. Returns the number of lines. */
static int32_t read_pairs(struct scoring *t)
{
    const trf_config *config = trf_model_config(t->model);
    int32_t lines = 0, n;
    char why[300];
    clear_side(&t->side[0]);
    clear_side(&t->side[1]);
    while (!t->broken && lines < t->s->batch) {
        int got = next_pair(&t->pairs);
        const char *fault;
        t->broken = got < 0;
        if (got < 1) break;
        fault = t->pairs.fault;
        if (!fault && add_text(&t->side[0], t->vocab[0], t->pairs.source, source_limit(config), &n, why)) fault = why;
        else if (!fault && add_text(&t->side[1], t->vocab[1], t->pairs.target, config->max_length - 1, &n, why)) {
            drop_last(&t->side[0]);
            fault = why;
        }
        if (fault) {
            say("%s:%lld: not scored: %s", t->pairs.at->name, (long long)t->pairs.at->number, fault);
            t->unusable++;
        }
        t->pair[lines++] = fault ? UNUSABLE : (int32_t)t->side[0].count - 1;
    }
    return lines;
}

static int score_lines(struct scoring *t)
{
    int flush = t->s->interactive || isatty(fileno(t->pairs.side[0].file));
    int32_t lines, i;
    trf_error err;
    if (flush) t->s->batch = 1;
    t->pair = calloc((size_t)t->s->batch, sizeof *t->pair);
    t->results = calloc((size_t)t->s->batch, sizeof *t->results);
    if (!t->pair || !t->results) { say("out of memory for --batch %d", (int)t->s->batch); return FAILED; }
    while ((lines = read_pairs(t)) > 0) {
        trf_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.source = sequences_of(&t->side[0]);
        batch.target = sequences_of(&t->side[1]);
        if (batch.target.count && trf_score(t->translator, &batch, t->results, &err)) {
            say_error("scoring", &err);
            return FAILED;
        }
        for (i = 0; i < lines; i++) {
            int32_t tokens = t->pair[i] < 0 ? 0 : t->side[1].lengths[t->pair[i]] + 1;
            fprintf(t->out, "%.6f\t%d\n", t->pair[i] < 0 ? (double)NAN : t->results[t->pair[i]], (int)tokens);
            if (t->pair[i] < 0) continue;
            t->tokens += tokens;
            t->sum += t->results[t->pair[i]];
        }
        t->lines += lines;
        if ((flush || ferror(t->out)) && check_output(t->out, t->s->output)) return FAILED;
    }
    if (t->unusable) say("%lld of %lld pairs could not be scored", (long long)t->unusable, (long long)t->lines);
    if (!t->broken && t->tokens)
        fprintf(stderr, "%lld pairs, %lld target tokens, log-probability %.4f, perplexity %.6g\n",
                (long long)(t->lines - t->unusable), (long long)t->tokens, t->sum, exp(-t->sum / (double)t->tokens));
    return t->broken || t->unusable ? FAILED : DONE;
}

static int command_score(struct settings *s, int argc, char **argv)
{
    struct scoring t;
    trf_error err;
    int status;
    (void)argc;
    (void)argv;
    memset(&t, 0, sizeof t);
    t.s = s;
    status = check_pairs_given("", s->source, s->target, s->tsv);
    if (!status) status = load_model(s, &t.model, &t.vocab[0], &t.vocab[1]);
    if (!status && trf_translator_create(&t.translator, t.model, &s->search, &err)) {
        say_error("scorer", &err);
        status = FAILED;
    }
    if (!status) status = open_pairs(&t.pairs, s->source, s->target, s->tsv);
    t.pairs.keep_unpaired = 1;
    if (!status && !(t.out = open_output(s))) status = FAILED;
    if (!status) status = score_lines(&t);
    if (t.out && close_output(t.out, s->output)) status = FAILED;
    close_pairs(&t.pairs);
    free_side(&t.side[0]);
    free_side(&t.side[1]);
    free(t.results);
    free(t.pair);
    trf_translator_destroy(t.translator);
    trf_model_destroy(t.model);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>inspect        what is in a file
//
// Tensors and texts of any safetensors file are shown through trf_file_*, the numbers a block at a time, so
// a file larger than memory will do. Of a file made by transformer.h the settings are shown too, as the
// options that set them.
// -----------------------------------------------------------------------------------------------

struct statistics { double sum, squares, low, high; int64_t count, nonfinite; };

static void add_number(struct statistics *s, double x)
{
    s->count++;
    if (!isfinite(x)) { s->nonfinite++; return; }
    s->sum += x;
    s->squares += x * x;
    if (x < s->low) s->low = x;
    if (x > s->high) s->high = x;
}

/* Reads the numbers of one tensor; only floating-point ones have statistics. */
static trf_status read_statistics(trf_file *file, int32_t index, int64_t count, struct statistics *s, trf_error *err)
{
    trf_real block[4096];
    int64_t first, n, i;
    memset(s, 0, sizeof *s);
    s->low = HUGE_VAL;
    s->high = -HUGE_VAL;
    for (first = 0; first < count; first += n) {
        trf_status status;
        n = count - first < 4096 ? count - first : 4096;
        status = trf_file_read(file, index, first, block, n, err);
        if (status) return status == TRF_E_UNSUPPORTED ? TRF_OK : status;
        for (i = 0; i < n; i++) add_number(s, (double)block[i]);
    }
    return TRF_OK;
}

/* Names come from a file nobody has vouched for: nothing that drives a terminal may pass, neither bytes below 32 nor
   U+0080 to U+009F. */
static void print_clean(const char *text, size_t most)
{
    size_t i;
    for (i = 0; text[i] && i < most; i++) {
        const unsigned char *at = (const unsigned char *)text + i;
        int two = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        putchar(two || at[0] < 32 || at[0] == 127 ? '?' : text[i]);
        i += (size_t)two;
    }
    if (text[i]) printf("... (%zu bytes)", strlen(text));
}

static trf_status print_tensor(trf_file *file, int32_t index, int64_t *total, int64_t *nonfinite, trf_error *err)
{
    trf_file_entry entry = trf_file_at(file, index);
    struct statistics s;
    int64_t count = 1;
    int32_t k;
    double n, mean;
    trf_status status;
    for (k = 0; k < entry.rank; k++) count *= entry.shape[k];
    status = read_statistics(file, index, count, &s, err);
    if (status) return status;
    printf("  ");
    print_clean(entry.name, 200);
    printf("  %s  (", entry.dtype);
    for (k = 0; k < entry.rank; k++) printf("%s%lld", k ? ", " : "", (long long)entry.shape[k]);
    printf(")  %lld", (long long)count);
    n = (double)(s.count - s.nonfinite);
    mean = n > 0 ? s.sum / n : 0;
    if (n > 0) printf("  %.4g  %.4g  %.4g  %.4g", mean, sqrt(fmax(0, s.squares / n - mean * mean)), s.low, s.high);
    if (s.nonfinite) printf("  %lld NOT FINITE", (long long)s.nonfinite);
    putchar('\n');
    *total += count;
    *nonfinite += s.nonfinite;
    return TRF_OK;
}

static int print_tensors(trf_file *file, const char *path)
{
    trf_error err;
    int64_t total = 0, nonfinite = 0;
    int32_t i;
    printf("tensors: name, type, shape, numbers, mean, deviation, smallest, largest\n");
    for (i = 0; i < trf_file_count(file); i++)
        if (print_tensor(file, i, &total, &nonfinite, &err)) { say_error(path, &err); return FAILED; }
    printf("total: %d tensors, %lld numbers", (int)trf_file_count(file), (long long)total);
    if (nonfinite) printf(", %lld of them not finite", (long long)nonfinite);
    putchar('\n');
    return DONE;
}

/* Values of all options that are fields of one member of the settings. */
static void print_options(const struct settings *s, size_t member, size_t bytes)
{
    char value[64];
    int i;
    for (i = 0; i < N_ROWS; i++) {
        if (!(rows[i].commands & TRAIN) || !row_within(&rows[i], member, bytes)) continue;
        value_text(&rows[i], s, value, sizeof value);
        printf("  --%s %s\n", rows[i].name, value);
    }
}

static void print_vocabulary(const char *side, const trf_vocab *vocab)
{
    int32_t id;
    if (!vocab) { printf("%s vocabulary: none in the file\n", side); return; }
    printf("%s vocabulary: %d %s:", side, (int)trf_vocab_size(vocab),
           trf_vocab_kind(vocab) == TRF_WORDS ? "words" : trf_vocab_kind(vocab) == TRF_CHARACTERS ? "characters" : "subwords");
    for (id = 4; id < trf_vocab_size(vocab) && id < 12; id++) {
        putchar(' ');
        print_clean(trf_vocab_token(vocab, id), 40);
    }
    printf("%s\n", trf_vocab_size(vocab) > 12 ? " ..." : "");
}

static void print_model(struct settings *s, const trf_model *model)
{
    static const char *const kinds[] = {"encoder-decoder", "encoder-only", "decoder-only"};
    s->config = *trf_model_config(model);
    printf("model: kind %s, %d source and %d target tokens, pad %d, bos %d, eos %d, unk %d, seed %llu\n",
           kinds[s->config.kind], (int)s->config.source_vocab, (int)s->config.target_vocab, (int)s->config.pad,
           (int)s->config.bos, (int)s->config.eos, (int)s->config.unk,
           (unsigned long long)s->config.seed);
    print_options(s, AT(config), sizeof s->config);
    print_vocabulary("source", trf_model_source_vocab(model));
    print_vocabulary("target", trf_model_target_vocab(model));
    printf("weights: %lld in %d parameters\n", (long long)trf_parameter_total(model),
           (int)trf_parameter_count(model));
}

/* A file of ours: a checkpoint or a model. One that is neither, or is damaged, is an error. */
static int print_ours(struct settings *s, const char *path, int checkpoint)
{
    trf_load_options load = load_options(s);
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_error err;
    trf_status status;
    load.allow_nonfinite = 1;
    if (checkpoint) status = trf_checkpoint_load(&model, &trainer, NULL, path, NULL, &load, &err);
    else status = trf_model_load(&model, path, &load, &err);
    if (status) { say_error(NULL, &err); return FAILED; }
    print_model(s, model);
    if (trainer) {
        s->training = *trf_trainer_options(trainer);
        printf("training: %lld updates so far\n", (long long)trf_trainer_step(trainer));
        print_options(s, AT(training), sizeof s->training);
    }
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return DONE;
}

static int command_inspect(struct settings *s, int argc, char **argv)
{
    trf_load_options load = load_options(s);
    trf_file *file = NULL;
    trf_error err;
    const char *path = argv[0], *key, *value;
    int32_t i;
    int status, ours, checkpoint;
    if (argc != 1) { say("give one file"); return USAGE; }
    load.allow_nonfinite = 1;
    if (trf_file_open(&file, path, &load, &err)) { say_error(NULL, &err); return FAILED; }
    value = trf_file_metadata(file, "trf.content");
    ours = value != NULL;
    checkpoint = ours && !strcmp(value, "checkpoint");
    printf("file: %s, %s\n", path,
           checkpoint ? "a checkpoint of transformer.h" : ours ? "a model of transformer.h" : "safetensors");
    for (i = 0; i < trf_file_metadata_count(file); i++) {
        trf_file_metadata_at(file, i, &key, &value);
        if (ours && !strncmp(key, "trf.", 4)) continue;         /* shown below, by its meaning */
        printf("metadata: ");
        print_clean(key, 60);
        printf(": ");
        print_clean(value, 60);
        putchar('\n');
    }
    status = print_tensors(file, path);
    trf_file_close(file);
    if (!status && ours) status = print_ours(s, path, checkpoint);
    return close_output(stdout, NULL) ? FAILED : status;
}

// -----------------------------------------------------------------------------------------------
// >>main           the four commands
// -----------------------------------------------------------------------------------------------

#define EXIT_TEXT \
    "Exit status: 0 all went well; 1 an error, or a line of input that could not be used;\n" \
    "2 a wrong command line"

static const struct command commands[] = {
    {TRAIN, "train", "learn from pairs of lines, write a model file", "trf train [options]",
     "Learns to turn source lines into target lines and writes a model file, vocabularies inside.\n"
     "Progress goes to standard error: update, mean loss of a target token since the last line,\n"
     "learning rate, real tokens of both sides a second (there is no padding), time left.\n"
     "Pairs that are too long or empty on both sides are left out and reported with their line.\n"
     "SIGINT and SIGTERM end training after the update that runs, with a checkpoint.\n"
     "\n"
     "    trf train --source train.de --target train.en --model de-en.safetensors --updates 20000\n"
     "    trf train --tsv words.tsv --source-tokens characters --model say.safetensors --epochs 30\n"
     "    trf train ... --resume                  the same command, going on from its checkpoint",
     EXIT_TEXT "; 128 + N stopped by signal N, with a checkpoint.", command_train},
    {TRANSLATE, "translate", "lines in, translated lines out", "trf translate --model FILE [options]",
     "Translates each line. Line n of the output belongs to line n of the input, always:\n"
     "a line without tokens gives an empty line; a line that is too long for the model or not UTF-8\n"
     "gives an empty line, a message with its number, and exit status 1 at the end. With --n-best\n"
     "such a line gives one answer without text, with score 0 (empty) or -inf (not translated).\n"
     "\n"
     "    trf translate --model de-en.safetensors < new.de > new.en\n"
     "    trf translate --model de-en.safetensors --input new.de --beam 5 --n-best 5",
     EXIT_TEXT ".", command_translate},
    {SCORE, "score", "log-probability of given translations",
     "trf score --model FILE --source FILE --target FILE [options]",
     "Writes for each pair of lines: the natural logarithm of the target's probability given the\n"
     "source, a tab, and the number of target tokens with the end mark. A pair that cannot be scored\n"
     "(too long, not UTF-8, or a line that the other, shorter file has no partner for) gives 'nan', a\n"
     "tab and 0, a message with its number, and exit status 1.\n"
     "\n"
     "    trf score --model de-en.safetensors --source test.de --target test.en > scores",
     EXIT_TEXT ".", command_score},
    {INSPECT, "inspect", "what is in a model, a checkpoint or another safetensors file", "trf inspect FILE",
     "Shows metadata, and each tensor with its type, shape, number of elements, mean, standard\n"
     "deviation, smallest and largest number. Of models and checkpoints of transformer.h also the\n"
     "settings (as the options of trf train), the vocabularies and the number of weights.",
     EXIT_TEXT ".", command_inspect},
};

enum { N_COMMANDS = (int)(sizeof commands / sizeof *commands) };

static void print_overview(FILE *file)
{
    int i;
    fprintf(file, "trf %s: trains and runs encoder-decoder transformers on lines of text\n\n", TRF_VERSION);
    fprintf(file, "usage: trf COMMAND [options]\n\n");
    for (i = 0; i < N_COMMANDS; i++) fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(file, "\n  trf COMMAND --help   all options of a command, with their defaults\n"
                  "  trf --help           this text\n"
                  "  trf --version        version, and how this program was built\n");
}

static int run_command(const struct command *command, int argc, char **argv)
{
    static struct settings s;
    static char name[32];
    int status;
    snprintf(name, sizeof name, "trf %s", command->name);
    program = name;
    set_defaults(&s);
    status = parse_command_line(command, &s, argc, argv);
    if (status == DONE) return close_output(stdout, NULL);
    if (status > 0) return status;
    if (optind < argc && command->bit != INSPECT) {
        say("'%s' is not an option; all options: %s --help", argv[optind], name);
        return USAGE;
    }
    return command->run(&s, argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "", *nearest = commands[0].name;
    int i;
    signal(SIGPIPE, SIG_IGN);       /* a closed pipe is then an error of writing, with a message */
    for (i = 0; i < N_COMMANDS; i++)
        if (!strcmp(word, commands[i].name)) return run_command(&commands[i], argc - 1, argv + 1);
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        print_overview(stdout);
        return close_output(stdout, NULL);
    }
    if (!strcmp(word, "--version")) {
        printf("trf %s\n%s\n", TRF_VERSION, trf_build_info());
        return close_output(stdout, NULL);
    }
    if (!*word) { print_overview(stderr); return USAGE; }
    for (i = 1; i < N_COMMANDS; i++)
        if (distance(word, commands[i].name) < distance(word, nearest)) nearest = commands[i].name;
    say("unknown command '%s'; did you mean 'trf %s'? All commands: trf --help", word, nearest);
    return USAGE;
}

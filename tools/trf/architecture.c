// trf inspect without a file: what a model would be. Weights by part, memory, operations, shapes;
// no weight is made.
//
// Options are those of trf train. What training would take from the data has a fixed value here:
// see settle_model.

#include "objective.h"
#include "recipe.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>shapes         published models: their numbers, and what of them cannot be built here
// -----------------------------------------------------------------------------------------------

enum { BERT = 1, GPT2, T5, MARIAN };

static const struct shape {
    const char *name;
    int family; /* 0: the paper's own */
    int32_t layers, d_model, n_heads, d_ff, vocab, max_length;
    int64_t published;
    const char *source; /* of that number */
} shapes[] = {
    {"none", 0, 0, 0, 0, 0, 0, 0, 0, NULL},
    {"paper-base", 0, 6, 512, 8, 2048, 37000, 512, 65000000,
     "Vaswani et al. 2017, table 3, in millions"},
    {"paper-big", 0, 6, 1024, 16, 4096, 37000, 512, 213000000,
     "Vaswani et al. 2017, table 3, in millions"},
    {"gpt2", GPT2, 12, 768, 12, 3072, 50257, 1024, 124439808,
     "gpt2; Radford et al. 2019 write 117 million"},
    {"gpt2-medium", GPT2, 24, 1024, 16, 4096, 50257, 1024, 354823168,
     "gpt2-medium; Radford et al. 2019 write 345 million"},
    {"gpt2-large", GPT2, 36, 1280, 20, 5120, 50257, 1024, 774030080,
     "gpt2-large; Radford et al. 2019 write 762 million"},
    {"gpt2-xl", GPT2, 48, 1600, 25, 6400, 50257, 1024, 1557611200,
     "gpt2-xl; Radford et al. 2019 write 1542 million"},
    {"bert-base", BERT, 12, 768, 12, 3072, 30522, 512, 109482240,
     "bert-base-uncased; Devlin et al. 2019 write 110 million"},
    {"bert-large", BERT, 24, 1024, 16, 4096, 30522, 512, 335141888,
     "bert-large-uncased; Devlin et al. 2019 write 340 million"},
    {"t5-small", T5, 6, 512, 8, 2048, 32128, 512, 60506624,
     "t5-small; Raffel et al. 2020 write 60 million"},
    {"t5-base", T5, 12, 768, 12, 3072, 32128, 512, 222903552,
     "t5-base; Raffel et al. 2020 write 220 million"},
    {"t5-large", T5, 24, 1024, 16, 4096, 32128, 512, 737668096,
     "t5-large; Raffel et al. 2020 write 770 million"},
    {"opus-mt", MARIAN, 6, 512, 8, 2048, 58101, 512, 74410496,
     "opus-mt-en-de, as Hugging Face counts it"},
};

/* What a family has in common. */
static void set_family(struct settings *s, int family)
{
    trf_config *c = &s->config;
    trf_config_set_conventions(c, TRF_CONVENTIONS_PAPER);
    if (family == 0 || family == MARIAN) s->objective = OBJECTIVE_TRANSLATE;
    if (family == 0) return;
    c->scale_embeddings = family == MARIAN;
    c->activation = family == T5 ? TRF_RELU : family == MARIAN ? TRF_SILU : TRF_GELU;
    c->positions = family == T5       ? TRF_POSITIONS_NONE
                   : family == MARIAN ? TRF_POSITIONS_HALVES
                                      : TRF_POSITIONS_LEARNED;
    c->norm_place = family == GPT2 || family == T5 ? TRF_PRE_NORM : TRF_POST_NORM;
    c->final_norm = c->norm_place == TRF_PRE_NORM ? TRF_FINAL_NORM_BOTH : TRF_FINAL_NORM_NONE;
    c->norm_epsilon = family == BERT ? 1e-12 : family == T5 ? 1e-6 : 1e-5;
    c->generator_bias = family == MARIAN;
    c->decoder_start = family == T5 || family == MARIAN ? TRF_START_PAD : TRF_START_BOS;
    if (family == GPT2) s->objective = OBJECTIVE_CAUSAL;
    if (family == BERT) s->objective = OBJECTIVE_MASK;
    if (family == T5) s->objective = OBJECTIVE_SPAN;
}

static void set_shape(struct settings *s)
{
    const struct shape *shape = &shapes[s->shape];
    trf_config *c = &s->config;
    set_family(s, shape->family);
    c->d_model = shape->d_model;
    c->n_heads = shape->n_heads;
    c->d_ff = shape->d_ff;
    c->encoder_layers = shape->family == GPT2 ? 0 : shape->layers;
    c->decoder_layers = shape->family == BERT ? 0 : shape->layers;
    c->max_length = shape->max_length;
    c->tying = shape->family == GPT2   ? TRF_TIED_DECODER
               : shape->family == BERT ? TRF_UNTIED
                                       : TRF_TIED_ALL;
    s->source_vocab_size = s->target_vocab_size = shape->vocab;
}

/* Why the published weights are more than ours, or fewer, and how many. */
struct difference {
    int64_t weights;
    const char *why;
};

enum { MOST_DIFFERENCES = 8 };

static int differences_of(const struct shape *shape, struct difference *to)
{
    int64_t d = shape->d_model, f = shape->d_ff, layers = shape->layers;
    int n = 0;
#define DIFFER(number, sentence) (to[n].weights = (number), to[n++].why = (sentence))
    switch (shape->family) {
    case BERT:
        DIFFER(2 * d,
               "segments: BERT adds one of two embeddings to each token; there are none here");
        DIFFER(2 * d, "BERT has a layer norm over the sum of its embeddings; there is none here");
        DIFFER(d * d + d,
               "pooler: BERT has a layer with tanh over its first row; there is none here");
        DIFFER(-(int64_t)shape->vocab,
               "the bias of the head that predicts hidden tokens is not in BERT's count");
        DIFFER(0, "that head has one more layer and a norm in BERT, not in its count; the head "
                  "here is the projection alone");
        break;
    case GPT2:
        DIFFER(0, "GPT-2's GELU is the approximation by tanh; the one here is exact");
        DIFFER(0, "GPT-2's tokens are a BPE of bytes; tokens here are words, characters or "
                  "SentencePiece's subwords");
        DIFFER(0, "GPT-2 starts with weights of deviation 0.02; the rules of --init and "
                  "--embedding-init differ");
        break;
    case T5:
        DIFFER(64 * (int64_t)shape->n_heads,
               "relative positions: T5 adds one of 32 biases of each head to its scores, in "
               "both stacks; there are none here");
        DIFFER(-(5 * layers + 2) * d,
               "RMSNorm: T5's norms have no bias and take no mean away; those here do");
        DIFFER(-(12 * layers * d + 2 * layers * (f + d)),
               "T5's matrices have no biases; attention and feed-forward have "
               "some here");
        DIFFER(0, "T5 does not divide scores by sqrt(d_head); attention here does");
        DIFFER(0, "T5 divides by sqrt(d_model) before its projection to logits; here nothing does");
        break;
    case MARIAN:
        DIFFER(2 * 512 * d,
               "two tables of sines are counted as weights there; they are computed here");
        DIFFER(-(int64_t)shape->vocab, "the bias of the output projection is not in that count");
        break;
    default: DIFFER(0, "all of it can be built here");
    }
#undef DIFFER
    return n;
}

// -----------------------------------------------------------------------------------------------
// >>settle         what training would take from the data
//
// Without --size: base. Without a size of vocabularies: 32,000. --recipe auto: pre-norm, no bias of
// the output projection, embeddings tied as far as the vocabularies let them.
// -----------------------------------------------------------------------------------------------

enum { VOCABULARY = 32000, MOST_TOKENS = 1 << 24 };

/* Whether the recipe decides the field. */
static int is_open(const struct settings *s, size_t field)
{
    return s->recipe == RECIPE_AUTO && !s->shape && !is_given(s, AT(conventions)) &&
           !is_given(s, field);
}

static void settle_vocabularies(struct settings *s)
{
    trf_config *c = &s->config;
    int32_t source = s->source_vocab_size, target = s->target_vocab_size;
    int one = s->joint_vocabulary || c->tying == TRF_TIED_ALL || c->tying == TRF_TIED_EMBEDDINGS ||
              s->objective == OBJECTIVE_SPAN;
    if (!source) source = one && target ? target : VOCABULARY;
    if (!target) target = one ? source : VOCABULARY;
    c->source_vocab = c->kind == TRF_DECODER_ONLY ? 0 : source;
    c->target_vocab = c->kind == TRF_ENCODER_ONLY ? 0 : target;
    if (c->head == TRF_HEAD_NONE || c->head == TRF_HEAD_MASKED) c->n_labels = 0;
    else c->n_labels = s->labels;
}

static int settle_lengths(struct settings *s)
{
    const trf_config *c = &s->config;
    int32_t most[2], *length[2] = {&s->source_length, &s->target_length}, side;
    static const char *const names[2] = {"source", "target"};
    static const size_t fields[2] = {AT(source_length), AT(target_length)};
    most[0] = c->kind == TRF_DECODER_ONLY ? 0 : c->max_length - c->source_eos;
    most[1] = c->kind == TRF_ENCODER_ONLY ? 0 : c->max_length - c->target_eos;
    for (side = 0; side < 2; side++) {
        int given = is_given(s, fields[side]);
        if (most[side] == 0 && given) {
            say("--%s-length: this model has no %s", names[side], names[side]);
            return USAGE;
        }
        if (most[side] && given && (*length[side] < 1 || *length[side] > most[side])) {
            say("--%s-length takes 1 to %d tokens of this model, got %d", names[side],
                (int)most[side], (int)*length[side]);
            return USAGE;
        }
        if (*length[side] > most[side]) *length[side] = most[side];
    }
    return DONE;
}

static int check_range(const struct settings *s, size_t field, int32_t value, int32_t low)
{
    const int32_t high = 1 << 24;
    if (!is_given(s, field) || (value >= low && value <= high)) return DONE;
    say("--%s must be between %d and %d, got %d", option_name(field), (int)low, (int)high, (int)value);
    return USAGE;
}

static int check_fits(const struct settings *s)
{
    if (s->shape && is_given(s, AT(objective))) {
        say("--shape %s says what the model learns: --objective is for other ones",
            text_given(s, AT(shape)));
        return USAGE;
    }
    if (is_given(s, AT(labels)) && s->objective != OBJECTIVE_CLASSIFY &&
        s->objective != OBJECTIVE_TAG) {
        say("--labels is for --objective classify and tag");
        return USAGE;
    }
    if (is_given(s, AT(pooling)) && s->objective != OBJECTIVE_CLASSIFY) {
        say("--pooling is for --objective classify");
        return USAGE;
    }
    if (check_range(s, AT(vocab_size), s->vocab_size, 5) ||
        check_range(s, AT(source_vocab_size), s->source_vocab_size, 5) ||
        check_range(s, AT(target_vocab_size), s->target_vocab_size, 5) ||
        check_range(s, AT(labels), s->labels, 2))
        return USAGE;
    return DONE;
}

static int settle_model(struct settings *s)
{
    trf_config *c = &s->config;
    int one;
    if (check_fits(s)) return USAGE;
    if (s->shape) {
        set_shape(s);
        if (apply_given(s)) return USAGE; /* what the command line says wins over it */
    }
    one = s->joint_vocabulary || s->objective == OBJECTIVE_SPAN;
    if (s->size == SIZE_AUTO && !s->shape) {
        trf_config base = trf_config_base();
        c->d_model = base.d_model;
        c->n_heads = base.n_heads;
        c->d_ff = base.d_ff;
        c->encoder_layers = base.encoder_layers;
        c->decoder_layers = base.decoder_layers;
        if (set_given_architecture(s)) return USAGE;
    }
    if (is_open(s, AT(config.norm_place))) c->norm_place = TRF_PRE_NORM;
    if (is_open(s, AT(config.generator_bias))) c->generator_bias = 0;
    if (is_open(s, AT(config.tying))) c->tying = one ? TRF_TIED_ALL : TRF_TIED_DECODER;
    set_kind(s);
    settle_vocabularies(s);
    return settle_lengths(s);
}

// -----------------------------------------------------------------------------------------------
// >>counts         weights, bytes, operations
// -----------------------------------------------------------------------------------------------

/* A number of bytes as people say it. */
static const char *bytes_text(double bytes, char text[32])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    int unit = 0;
    while (bytes >= 999.5 && unit < 6) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, 32, unit ? "%.3g %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

/* A number of operations as people say it. */
static const char *flops_text(double flops, char text[32])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;
    while (flops >= 999.5 && unit < 5) {
        flops /= 1000;
        unit++;
    }
    snprintf(text, 32, unit ? "%.3g %s" : "%.0f%s", flops, units[unit]);
    return text;
}

int print_weight_counts(const trf_config *config, int32_t parameters, int json)
{
    trf_weight_counts n;
    trf_error err;
    size_t i;
    int first = 1;
    if (trf_count_weights(config, &n, &err)) return refused("model", &err);
    {
        const struct {
            const char *name;
            int64_t weights;
        } part[] = {{"source embedding", n.source_embedding},
                    {"target embedding", n.target_embedding},
                    {"learned positions", n.positions},
                    {"encoder self-attention", n.encoder_attention},
                    {"encoder feed-forward", n.encoder_feed_forward},
                    {"encoder norms", n.encoder_norms},
                    {"decoder self-attention", n.decoder_attention},
                    {"decoder cross-attention", n.cross_attention},
                    {"decoder feed-forward", n.decoder_feed_forward},
                    {"decoder norms", n.decoder_norms},
                    {config->head ? "head" : "output projection", n.generator}};
        if (json) printf(",\"weights\":%lld,\"parts\":{", (long long)n.total);
        else if (parameters)
            printf("weights: %lld in %d parameters\n", (long long)n.total, (int)parameters);
        else printf("weights: %lld\n", (long long)n.total);
        for (i = 0; i < sizeof part / sizeof *part; i++) {
            if (!part[i].weights) continue;
            if (json)
                printf("%s\"%s\":%lld", first ? "" : ",", part[i].name, (long long)part[i].weights);
            else
                printf("  %-24s %13lld  %5.1f %%\n", part[i].name, (long long)part[i].weights,
                       100.0 * (double)part[i].weights / (double)n.total);
            first = 0;
        }
    }
    if (json) putchar('}');
    return DONE;
}

static void print_bytes(const char *name, const char *key, const char *what, double bytes, int json,
                        int *first)
{
    char text[32];
    if (json) printf("%s\"%s\":%.0f", *first ? "" : ",", key, bytes);
    else printf("  %-24s %13s  %s\n", name, bytes_text(bytes, text), what);
    *first = 0;
}

/* That the library takes the options of training and searching, on the smallest model there is. */
int check_running(const struct settings *s)
{
    trf_config config = trf_config_tiny();
    trf_train_options training = s->training;
    trf_search search = s->search;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    trf_error err;
    int status = DONE;
    config.source_vocab = config.target_vocab = 8;
    config.d_model = config.d_ff = config.n_heads = 1;
    config.encoder_layers = config.decoder_layers = 1;
    config.hooks = s->config.hooks;
    training.source_tokens = training.target_tokens = training.sequences = training.longest = 2;
    search.max_sentences = 1;
    if (s->corpus.batch_tokens > MOST_TOKENS) {
        say("--batch-tokens must be between 1 and %d, got %d", MOST_TOKENS,
            (int)s->corpus.batch_tokens);
        return USAGE;
    }
    if (trf_model_create(&model, &config, &err)) status = refused("model", &err);
    else if (trf_trainer_create(&trainer, model, &training, &err))
        status = refused("trainer", &err);
    else if (trf_translator_create(&translator, model, &search, &err))
        status = refused("search", &err);
    trf_translator_destroy(translator);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return status;
}

/* Memory as the library plans it; the file without its vocabularies and names. */
static int print_memory(struct settings *s, int64_t weights, int json)
{
    trf_config *c = &s->config;
    trf_train_options *o = &s->training;
    int32_t longest =
        (s->source_length > s->target_length ? s->source_length : s->target_length) + 1;
    int32_t tokens = s->corpus.batch_tokens > longest ? s->corpus.batch_tokens : longest;
    int32_t beginning = c->kind == TRF_DECODER_ONLY ? s->target_length : s->source_length;
    double model = (double)trf_model_memory(c), training, translating;
    char what[160];
    int first = 1;
    o->source_tokens = o->target_tokens = tokens;
    o->sequences = s->corpus.batch_sentences < tokens ? s->corpus.batch_sentences : tokens;
    o->longest = longest;
    training = (double)trf_trainer_memory(c, o);
    translating = (double)trf_translator_memory(c, &s->search, s->batch, beginning);
    printf(json ? ",\"bytes\":{" : "memory and files:\n");
    print_bytes("model", "model", "the weights, in rows of whole registers", model, json, &first);
    snprintf(what, sizeof what,
             "the model, gradients, moments, batches of at most %d tokens a side", (int)tokens);
    if (training > 0) print_bytes("training", "training", what, model + training, json, &first);
    snprintf(what, sizeof what,
             "the model and its search: beam %d, %d sentence%s of %d token%s at a time",
             (int)s->search.beam, (int)s->batch, plural(s->batch), (int)beginning,
             plural(beginning));
    if (translating > 0)
        print_bytes("translating", "translating", what, model + translating, json, &first);
    print_bytes("model file", "file", "weights of 32 bits; vocabularies come on top",
                4.0 * (double)weights, json, &first);
    print_bytes("  of 16 bits", "file_of_16_bits", "trf average --weights bf16",
                2.0 * (double)weights, json, &first);
    print_bytes("checkpoint", "checkpoint", "weights and two moments", 12.0 * (double)weights, json,
                &first);
    if (json) putchar('}');
    return DONE;
}

static void print_flops_part(const char *name, double flops, int64_t tokens, const char *side,
                             int json, int *first)
{
    char all[32], each[32];
    if (flops <= 0) return;
    if (json) printf("%s\"%s\":%.17g", *first ? "" : ",", name, flops);
    else if (tokens > 1)
        printf("  %-24s %10s  %10s a %s row\n", name, flops_text(flops, all),
               flops_text(flops / (double)tokens, each), side);
    else printf("  %-24s %10s\n", name, flops_text(flops, all));
    *first = 0;
}

static int print_flops(const struct settings *s, int json)
{
    const trf_config *c = &s->config;
    int64_t source = c->kind == TRF_DECODER_ONLY ? 0 : s->source_length + c->source_eos;
    int64_t target = c->kind == TRF_ENCODER_ONLY ? 0 : s->target_length + c->target_eos;
    const char *side = target ? "target" : "source";
    trf_flop_counts n;
    trf_error err;
    char text[32];
    int first = 1;
    if (trf_count_flops(c, source, target, &n, &err)) return refused("operations", &err);
    if (json)
        printf(",\"flops\":{\"source_rows\":%lld,\"target_rows\":%lld,\"total\":%.17g,\"parts\":{",
               (long long)source, (long long)target, n.total);
    else {
        printf("FLOPs of one forward pass over ");
        if (source) printf("%lld source row%s", (long long)source, plural(source));
        if (target)
            printf("%s%lld target row%s", source ? " and " : "", (long long)target, plural(target));
        printf(": %s (of matrix products; a multiplication and an addition are two;\n"
               "a training step takes three times as many)\n",
               flops_text(n.total, text));
    }
    print_flops_part("encoder projections", n.encoder_projections, source, "source", json, &first);
    print_flops_part("encoder attention", n.encoder_attention, source, "source", json, &first);
    print_flops_part("encoder feed-forward", n.encoder_feed_forward, source, "source", json,
                     &first);
    print_flops_part("decoder projections", n.decoder_projections, target, "target", json, &first);
    print_flops_part("decoder attention", n.decoder_attention, target, "target", json, &first);
    print_flops_part("cross projections", n.cross_projections, target, "target", json, &first);
    print_flops_part("cross attention", n.cross_attention, target, "target", json, &first);
    print_flops_part("decoder feed-forward", n.decoder_feed_forward, target, "target", json,
                     &first);
    print_flops_part(c->head ? "head" : "output projection", n.generator,
                     target                                                  ? target
                     : c->head == TRF_HEAD_MEAN || c->head == TRF_HEAD_FIRST ? 1
                                                                             : source,
                     side, json, &first);
    if (json) printf("}}");
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>trace          which shape each step leaves, and the weights that it reads
// -----------------------------------------------------------------------------------------------

struct trace {
    const trf_config *config;
    int json, first;
    const char *stack; /* "encoder" and so on, in the objects of JSON */
    int32_t layers;    /* how often a step happens */
    int inside;        /* 1: it is one of a layer */
    int decoder;       /* 1: what follows belongs to the decoder */
};

/* One step. Extents that are 0 are not there; weights "": it reads none. */
static void step(struct trace *t, const char *what, int64_t a, int64_t b, int64_t c,
                 const char *weights)
{
    const int64_t extent[3] = {a, b, c};
    char shape[96];
    size_t used = 0;
    int i;
    for (i = 0; i < 3; i++)
        if (extent[i])
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld",
                                     used ? t->json ? "," : ", " : "", (long long)extent[i]);
    if (!t->json) {
        printf("  %s%-*s (%s)", t->inside ? "  " : "", t->inside ? 38 : 40, what, shape);
        if (*weights) printf("%*s%s", used < 18 ? (int)(18 - used) : 1, "", weights);
        putchar('\n');
        return;
    }
    printf("%s{\"stack\":\"%s\",\"layers\":%d,\"step\":\"%s\",\"shape\":[%s]", t->first ? "" : ",",
           t->stack, (int)t->layers, what, shape);
    if (*weights) printf(",\"weights\":\"%s\"", weights);
    putchar('}');
    t->first = 0;
}

/* Attention of n queries to m keys; cross: these come from the encoder. */
static void trace_attention(struct trace *t, int64_t n, int64_t m, int cross)
{
    const trf_config *c = t->config;
    const char *name = cross ? "multihead_attn" : "self_attn";
    long long d = c->d_model, heads = c->n_heads, each = d / heads;
    char weights[160], scores[64];
    snprintf(weights, sizeof weights, "%s.in_proj_weight (%lld, %lld) and bias", name, 3 * d, d);
    if (cross) {
        step(t, "cross-attention: queries", n, d, 0, weights);
        step(t, "keys and values of the encoder", 2, m, d, "the same matrix");
    } else step(t, "self-attention: queries, keys, values", 3, n, d, weights);
    step(t, "queries cut into heads", heads, n, each, "");
    snprintf(scores, sizeof scores, "q k^T / sqrt(%lld), softmax%s", each,
             t->decoder && !cross ? ", causal" : "");
    step(t, scores, heads, n, m, "");
    step(t, "times values", heads, n, each, "");
    snprintf(weights, sizeof weights, "%s.out_proj.weight (%lld, %lld) and bias", name, d, d);
    step(t, "heads joined and projected", n, d, 0, weights);
}

/* The norm of a sublayer, before it or behind the sum. */
static void trace_norm(struct trace *t, int64_t n, int number, int before)
{
    const trf_config *c = t->config;
    char weights[64];
    snprintf(weights, sizeof weights, "norm%d.weight (%d) and bias", number, (int)c->d_model);
    if (before) {
        if (c->norm_place == TRF_PRE_NORM) step(t, "norm", n, c->d_model, 0, weights);
    } else if (c->norm_place == TRF_PRE_NORM) step(t, "plus what came in", n, c->d_model, 0, "");
    else step(t, "norm of the sum with what came in", n, c->d_model, 0, weights);
}

static void trace_layer(struct trace *t, int64_t n, int64_t memory)
{
    static const char *const activations[] = {"ReLU", "GELU", "SiLU"};
    const trf_config *c = t->config;
    int number = 1;
    char weights[96], inner[64];
    trace_norm(t, n, number, 1);
    trace_attention(t, n, n, 0);
    trace_norm(t, n, number++, 0);
    if (memory) {
        trace_norm(t, n, number, 1);
        trace_attention(t, n, memory, 1);
        trace_norm(t, n, number++, 0);
    }
    trace_norm(t, n, number, 1);
    snprintf(weights, sizeof weights, "linear1.weight (%d, %d) and bias", (int)c->d_ff,
             (int)c->d_model);
    snprintf(inner, sizeof inner, "feed-forward, inside, %s", activations[c->activation]);
    step(t, inner, n, c->d_ff, 0, weights);
    snprintf(weights, sizeof weights, "linear2.weight (%d, %d) and bias", (int)c->d_model,
             (int)c->d_ff);
    step(t, "feed-forward, out", n, c->d_model, 0, weights);
    trace_norm(t, n, number, 0);
}

static void trace_embedding(struct trace *t, int64_t n)
{
    const trf_config *c = t->config;
    static const char *const positions[] = {"sines and cosines", "sines, then cosines",
                                            "sines, then cosines", "", ""};
    const char *matrix =
        t->decoder && c->tying != TRF_TIED_ALL && c->tying != TRF_TIED_EMBEDDINGS ? "tgt" : "src";
    char weights[192], scaled[32] = "";
    int32_t vocab = t->decoder ? c->target_vocab : c->source_vocab;
    if (c->scale_embeddings) snprintf(scaled, sizeof scaled, ", times sqrt(%d)", (int)c->d_model);
    snprintf(weights, sizeof weights, "%s_embed.weight (%d, %d)%s", matrix, (int)vocab,
             (int)c->d_model, scaled);
    step(t, "ids", n, 0, 0, "");
    step(t, "embedding", n, c->d_model, 0, weights);
    if (c->positions == TRF_POSITIONS_NONE) return;
    if (c->positions == TRF_POSITIONS_LEARNED)
        snprintf(weights, sizeof weights, "%s_positions.weight (%d, %d)",
                 t->decoder ? "tgt" : "src", (int)(c->max_length + c->position_offset),
                 (int)c->d_model);
    else snprintf(weights, sizeof weights, "%s, computed", positions[c->positions]);
    step(t, "plus positions", n, c->d_model, 0, weights);
}

static void trace_stack(struct trace *t, int decoder, int64_t n, int64_t memory)
{
    const trf_config *c = t->config;
    int32_t layers = decoder ? c->decoder_layers : c->encoder_layers;
    const char *name = decoder ? "decoder" : "encoder";
    char weights[64];
    t->decoder = decoder;
    t->stack = name;
    t->layers = 1;
    if (!t->json) printf("%s:\n", name);
    trace_embedding(t, n);
    t->layers = layers;
    t->inside = 1;
    if (!t->json && layers == 1) printf("  layer 0 (%s.layers.0.):\n", name);
    else if (!t->json)
        printf("  layers 0 to %d (%s.layers.0. and so on), each:\n", (int)layers - 1, name);
    trace_layer(t, n, memory);
    t->layers = 1;
    t->inside = 0;
    if (c->final_norm != TRF_FINAL_NORM_BOTH &&
        c->final_norm != (decoder ? TRF_FINAL_NORM_DECODER : TRF_FINAL_NORM_ENCODER))
        return;
    snprintf(weights, sizeof weights, "%s.norm.weight (%d) and bias", name, (int)c->d_model);
    step(t, "final norm", n, c->d_model, 0, weights);
}

static void trace_end(struct trace *t, int64_t n)
{
    const trf_config *c = t->config;
    static const char *const matrices[] = {"generator.weight", "tgt_embed.weight",
                                           "src_embed.weight", "generator.weight"};
    int labels = c->head && c->head != TRF_HEAD_MASKED;
    int32_t logits = c->kind != TRF_ENCODER_ONLY ? c->target_vocab
                     : labels                    ? c->n_labels
                                                 : c->source_vocab;
    const char *matrix = c->kind != TRF_ENCODER_ONLY ? matrices[c->tying]
                         : labels                    ? "head.weight"
                                                     : "src_embed.weight";
    char weights[96];
    t->stack = "end";
    if (c->kind == TRF_ENCODER_ONLY && !c->head) return;
    if (!t->json) puts("end:");
    if (c->head == TRF_HEAD_MEAN) step(t, "mean of the rows", 1, c->d_model, 0, "");
    if (c->head == TRF_HEAD_FIRST) step(t, "the first row", 1, c->d_model, 0, "");
    if (c->head == TRF_HEAD_MEAN || c->head == TRF_HEAD_FIRST) n = 1;
    snprintf(weights, sizeof weights, "%s (%d, %d)%s", matrix, (int)logits, (int)c->d_model,
             c->generator_bias || c->head ? " and bias" : "");
    step(t, "logits", n, logits, 0, weights);
    step(t, "softmax: probabilities", n, logits, 0, "");
}

void print_trace(const struct settings *s)
{
    const trf_config *c = &s->config;
    int64_t source = c->kind == TRF_DECODER_ONLY ? 0 : s->source_length + c->source_eos;
    int64_t target = c->kind == TRF_ENCODER_ONLY ? 0 : s->target_length + c->target_eos;
    struct trace t;
    memset(&t, 0, sizeof t);
    t.config = c;
    t.json = s->json;
    t.first = 1;
    printf(s->json ? ",\"trace\":[" : "shapes that each step leaves:\n");
    if (source) trace_stack(&t, 0, source, 0);
    if (target) trace_stack(&t, 1, target, source);
    trace_end(&t, target ? target : source);
    if (s->json) putchar(']');
}

// -----------------------------------------------------------------------------------------------
// >>inspect        the command without a file
// -----------------------------------------------------------------------------------------------

static void print_published(const struct settings *s, int64_t ours)
{
    const struct shape *shape = &shapes[s->shape];
    struct difference differ[MOST_DIFFERENCES];
    int n = differences_of(shape, differ), i;
    int64_t left = shape->published - ours;
    if (s->json) {
        printf(
            ",\"shape\":\"%s\",\"published\":{\"weights\":%lld,\"source\":\"%s\",\"differences\":[",
            shape->name, (long long)shape->published, shape->source);
        for (i = 0; i < n; i++)
            printf("%s{\"weights\":%lld,\"why\":\"%s\"}", i ? "," : "",
                   (long long)differ[i].weights, differ[i].why);
        printf("]}");
        return;
    }
    printf("published: %lld (%s)\n", (long long)shape->published, shape->source);
    for (i = 0; i < n; left -= differ[i++].weights) {
        if (differ[i].weights)
            printf("  %+13lld  %s\n", (long long)differ[i].weights, differ[i].why);
        else printf("  %13s  %s\n", "", differ[i].why);
    }
    if (left == 0 && ours == shape->published) puts("  the count here is the published one");
    else if (left == 0) puts("  with these differences the count here is the published one");
    else
        printf("  %+13lld  %s\n", (long long)left,
               shape->family ? "comes from other options"
                             : "is not explained: the paper rounds, and lists no parts");
}

/* What a file and a configuration alone have in common; the trace if it is asked for. */
int print_amounts(struct settings *s)
{
    trf_weight_counts n;
    trf_error err;
    if (settle_lengths(s)) return USAGE;
    if (trf_count_weights(&s->config, &n, &err)) return refused("model", &err);
    if (print_memory(s, n.total, s->json) || print_flops(s, s->json)) return FAILED;
    if (s->trace) print_trace(s);
    return DONE;
}

int inspect_options(struct settings *s)
{
    trf_weight_counts n;
    trf_error err;
    int status = settle_model(s);
    if (!status) status = check_running(s);
    if (status) return status;
    if (trf_count_weights(&s->config, &n, &err)) return refused("model", &err);
    if (s->json) printf("{\"content\":\"options\"");
    print_model(s);
    if (!status) status = print_weight_counts(&s->config, 0, s->json);
    if (!status && s->shape) print_published(s, n.total);
    if (!status) status = print_amounts(s);
    if (s->json) puts("}");
    return close_output(stdout, NULL) ? FAILED : status;
}

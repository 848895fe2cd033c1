// trf inspect --shape: published models, their numbers, and the parts that trf cannot build.

#include "inspect.h"

enum { BERT = 1, GPT2, T5, MARIAN, LLAMA };

static const struct shape {
    const char *name;
    int family; /* 0: the paper's own */
    int32_t layers, d_model, n_heads, d_ff, vocab, max_length;
    int64_t published;
    const char *source; /* of the published number */
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
    {"llama-2-7b", LLAMA, 32, 4096, 32, 11008, 32000, 4096, 6738415616, "Llama 2, 7B"},
    {"opus-mt", MARIAN, 6, 512, 8, 2048, 58101, 512, 74410496,
     "opus-mt-en-de, as Hugging Face counts it"},
};

/* The settings that a family shares. */
static void set_family(struct settings *s, int family)
{
    trf_config *c = &s->config;
    trf_set_conventions(c, NULL, TRF_CONVENTIONS_PAPER);
    if (family == 0 || family == MARIAN) s->objective = OBJECTIVE_TRANSLATE;
    if (family == 0) return;
    c->scale_embeddings = family == MARIAN;
    c->activation = family == T5       ? TRF_RELU
                    : family == MARIAN || family == LLAMA ? TRF_SILU
                    : family == GPT2   ? TRF_GELU_TANH
                                       : TRF_GELU;
    c->embedding_norm = c->head_layer = family == BERT;
    c->segments = family == BERT ? 2 : 0;
    c->positions = family == T5       ? TRF_POSITIONS_RELATIVE
                   : family == MARIAN ? TRF_POSITIONS_HALVES
                   : family == LLAMA  ? TRF_POSITIONS_ROTARY
                                      : TRF_POSITIONS_LEARNED;
    c->norm_place = family == MARIAN || family == BERT ? TRF_POST_NORM : TRF_PRE_NORM;
    c->final_norm = c->norm_place == TRF_PRE_NORM ? TRF_FINAL_NORM_BOTH : TRF_FINAL_NORM_NONE;
    c->norm_epsilon = family == BERT ? 1e-12 : family == T5 ? 1e-6 : 1e-5;
    c->generator_bias = family == MARIAN;
    if (family == T5 || family == LLAMA) {
        c->norm_rule = TRF_NORM_RMS;
        c->qkv_bias = c->out_bias = c->feed_forward_bias = 0;
    }
    if (family == T5) c->attention_scale = c->scale_logits = 1;
    c->feed_forward_gate = family == LLAMA;
    c->decoder_start = family == T5 || family == MARIAN ? TRF_START_PAD : TRF_START_BOS;
    if (family == GPT2 || family == LLAMA) s->objective = OBJECTIVE_CAUSAL;
    if (family == BERT) s->objective = OBJECTIVE_MASK;
    if (family == T5) s->objective = OBJECTIVE_SPAN;
}

void set_published(struct settings *s)
{
    const struct shape *shape = &shapes[s->inspect.shape];
    trf_config *c = &s->config;
    set_family(s, shape->family);
    c->d_model = shape->d_model;
    c->n_heads = shape->n_heads;
    c->d_ff = shape->d_ff;
    c->encoder_layers = shape->family == GPT2 || shape->family == LLAMA ? 0 : shape->layers;
    c->decoder_layers = shape->family == BERT ? 0 : shape->layers;
    c->max_length = shape->max_length;
    c->tying = shape->family == GPT2 ? TRF_TIED_DECODER
               : shape->family == BERT || shape->family == LLAMA ? TRF_UNTIED : TRF_TIED_ALL;
    s->train.source_vocab_size = s->train.target_vocab_size = shape->vocab;
}

/* A reason why the published number of weights differs from ours, and by how many. */
struct difference {
    int64_t weights;
    const char *why;
};

enum { MOST_DIFFERENCES = 8 };

static int differences_of(const struct shape *shape, struct difference *to)
{
    int64_t d = shape->d_model;
    int n = 0;
#define DIFFER(number, sentence) (to[n].weights = (number), to[n++].why = (sentence))
    switch (shape->family) {
    case BERT:
        DIFFER(-(int64_t)shape->vocab,
               "the bias of the head that predicts hidden tokens is not in BERT's count");
        DIFFER(-2 * d, "nor are the layer and the norm of that head; BERT's count has the pooler "
                       "instead, which is as large as the layer");
        break;
    case GPT2:
        DIFFER(0, "GPT-2's tokens are a BPE of bytes, which trf imports; trf train learns words, "
                  "characters or SentencePiece's subwords");
        DIFFER(0, "GPT-2 starts with weights of deviation 0.02; the rules of --init and "
                  "--embedding-init differ");
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

void print_published(const struct settings *s, int64_t ours)
{
    const struct shape *shape = &shapes[s->inspect.shape];
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

// trf inspect: settings, weights, memory and operations of a configuration.

#include "inspect.h"

// -----------------------------------------------------------------------------------------------
// >>settings       as the options that set them
// -----------------------------------------------------------------------------------------------

void print_settings(const struct settings *s, const char *title, size_t member, size_t bytes)
{
    if (!s->json) { print_options(stdout, s, member, bytes); return; }
    printf(",\"%s\":", title);
    print_json_options(stdout, s, member, bytes);
}

void print_model(const struct settings *s)
{
    static const char *const kinds[] = {"encoder-decoder", "encoder-only", "decoder-only"};
    static const char *const heads[] = {"none", "label of the mean", "label of the first token",
                                        "label of each token", "masked tokens"};
    printf(
        s->json
            ? ",\"kind\":\"%s\",\"source_vocab\":%d,\"target_vocab\":%d,\"pad\":%d,"
              "\"bos\":%d,\"eos\":%d,\"unk\":%d,\"seed\":%llu"
            : "model: kind %s, %d source and %d target tokens, pad %d, bos %d, eos %d, "
              "unk %d, seed %llu\n",
        kinds[s->config.kind], (int)s->config.source_vocab, (int)s->config.target_vocab,
        (int)s->config.pad, (int)s->config.bos, (int)s->config.eos, (int)s->config.unk,
        (unsigned long long)s->config.seed);
    printf(s->json ? ",\"head\":\"%s\"" : "head: %s", heads[s->config.head]);
    if (s->config.sequence_labels)
        printf(s->json ? ",\"sequence_labels\":%d" : ", and %d labels of sequences",
               (int)s->config.sequence_labels);
    if (s->config.kind == TRF_DECODER_ONLY && s->json)
        printf(",\"bare_prompts\":%s", s->config.bare_prompts ? "true" : "false");
    else if (s->config.kind == TRF_DECODER_ONLY)
        printf("; prompts: %s the start token", s->config.bare_prompts ? "without" : "behind");
    if (!s->json) putchar('\n');
    print_settings(s, "config", AT(config), sizeof s->config);
}

// -----------------------------------------------------------------------------------------------
// >>resources      of weights, bytes and operations
// -----------------------------------------------------------------------------------------------

enum { MOST_TOKENS = 1 << 24 };

int settle_lengths(struct settings *s)
{
    const trf_config *c = &s->config;
    int32_t limit[2], *length[2] = {&s->inspect.source_length, &s->inspect.target_length}, side;
    static const char *const names[2] = {"source", "target"};
    static const size_t fields[2] = {AT(inspect.source_length), AT(inspect.target_length)};
    limit[0] = c->kind == TRF_DECODER_ONLY ? 0 : c->max_length - source_added(c);
    limit[1] = c->kind == TRF_ENCODER_ONLY ? 0 : c->max_length - c->target_eos;
    for (side = 0; side < 2; side++) {
        int given = is_given(s, fields[side]);
        if (limit[side] == 0 && given) {
            say("--%s-length: this model has no %s", names[side], names[side]);
            return USAGE;
        }
        if (limit[side] && given && (*length[side] < 1 || *length[side] > limit[side])) {
            say("--%s-length must be between 1 and %d for this model, got %d", names[side],
                (int)limit[side], (int)*length[side]);
            return USAGE;
        }
        if (*length[side] > limit[side]) *length[side] = limit[side];
    }
    return DONE;
}

/* A number of things, or of thousands and so on of a unit. */
static const char *quantity_text(double x, const char *things, const char *unit, char text[32])
{
    static const char prefixes[] = "kMGTPE";
    int n = 0;
    for (; x >= 999.5 && n < 6; n++) x /= 1000;
    if (n) snprintf(text, 32, "%.3g %c%s", x, prefixes[n - 1], unit);
    else snprintf(text, 32, "%.0f%s", x, things);
    return text;
}

static const char *flops_text(double flops, char text[32])
{
    return quantity_text(flops, "", "", text);
}

void weight_parts(const trf_config *config, const trf_model_size *n,
                  struct weight_part to[N_WEIGHT_PARTS])
{
    const struct weight_part parts[N_WEIGHT_PARTS] = {
        {"source embedding", n->source_embedding},
        {"target embedding", n->target_embedding},
        {"learned positions", n->positions},
        {"encoder self-attention", n->encoder_attention},
        {"encoder feed-forward", n->encoder_feed_forward},
        {"encoder norms", n->encoder_norms},
        {"decoder self-attention", n->decoder_attention},
        {"decoder cross-attention", n->cross_attention},
        {"decoder feed-forward", n->decoder_feed_forward},
        {"decoder norms", n->decoder_norms},
        {config->head ? "head" : "output projection", n->generator}};
    memcpy(to, parts, sizeof parts);
}

int print_weight_counts(const trf_config *config, int32_t parameters, int json)
{
    struct weight_part part[N_WEIGHT_PARTS];
    trf_model_size n;
    trf_error err;
    int first = 1, i;
    if (trf_config_check(config, &n, &err)) return refused("model", &err);
    weight_parts(config, &n, part);
    if (json) printf(",\"weights\":%lld,\"parts\":{", (long long)n.total);
    else if (parameters)
        printf("weights: %lld in %d parameters\n", (long long)n.total, (int)parameters);
    else printf("weights: %lld\n", (long long)n.total);
    for (i = 0; i < N_WEIGHT_PARTS; i++) {
        if (!part[i].weights) continue;
        if (json)
            printf("%s\"%s\":%lld", first ? "" : ",", part[i].name, (long long)part[i].weights);
        else
            printf("  %-24s %13lld  %5.1f %%\n", part[i].name, (long long)part[i].weights,
                   100.0 * (double)part[i].weights / (double)n.total);
        first = 0;
    }
    if (json) putchar('}');
    return DONE;
}

/* bytes 0: there is no such thing. */
static void print_bytes(const char *name, const char *key, const char *what, double bytes, int json,
                        int *first)
{
    char text[32];
    if (bytes <= 0) return;
    if (json) printf("%s\"%s\":%.0f", *first ? "" : ",", key, bytes);
    else printf("  %-24s %13s  %s\n", name, quantity_text(bytes, " bytes", "B", text), what);
    *first = 0;
}

/* Checks the options of training and searching. */
int check_running(const struct settings *s)
{
    trf_train_options training = s->training;
    trf_error err;
    training.source_tokens = training.target_tokens = training.sequences = training.longest = 2;
    if (s->corpus.batch_tokens > MOST_TOKENS) {
        say("--batch-tokens must be between 1 and %d, got %d", MOST_TOKENS,
            (int)s->corpus.batch_tokens);
        return USAGE;
    }
    if (trf_train_check(&training, NULL, &err)) return refused("trainer", &err);
    return trf_search_check(&s->search, NULL, &err) ? refused("search", &err) : DONE;
}

/* A model whose matrices are packed, alone and with its search; 0: there is no such one. */
struct packed { double model, translating; };

static struct packed packed_memory(const struct settings *s, trf_weights weights, int32_t input)
{
    trf_search search = s->search;
    struct packed bytes;
    size_t shared;
    search.weights = weights;
    bytes.model = (double)trf_packed_memory(&s->config, weights, &shared, NULL);
    bytes.translating = (double)trf_translator_memory(&s->config, &search, s->inspect.translate_batch, input, NULL);
    if (bytes.model > 0 && bytes.translating > 0)
        bytes.translating += bytes.model - (double)shared;
    else bytes.translating = 0;
    return bytes;
}

/* A model that can be trained, with gradients and moments; 0: it cannot be. */
static double training_memory(struct settings *s, double model, int32_t *tokens)
{
    trf_train_options *o = &s->training;
    int32_t longest =
        (s->inspect.source_length > s->inspect.target_length ? s->inspect.source_length
         : s->inspect.target_length) + 1;
    double training;
    *tokens = s->corpus.batch_tokens > longest ? s->corpus.batch_tokens : longest;
    o->source_tokens = o->target_tokens = *tokens;
    o->sequences = s->corpus.batch_sentences < *tokens ? s->corpus.batch_sentences : *tokens;
    o->longest = longest;
    training = (double)trf_trainer_memory(&s->config, o, NULL);
    return training > 0 ? model + training : 0;
}

/* Memory of a model whose weights have 32 bits; the file size without vocabularies and names. */
static void print_memory(struct settings *s, int64_t weights, int32_t input, const char *search,
                         int json)
{
    trf_config *c = &s->config;
    trf_model_size size;
    double model = trf_config_check(c, &size, NULL) ? 0 : (double)size.memory;
    double translating =
        (double)trf_translator_memory(c, &s->search, s->inspect.translate_batch, input, NULL);
    struct packed in16 = packed_memory(s, TRF_WEIGHTS_BF16, input);
    struct packed in8 = packed_memory(s, TRF_WEIGHTS_INT8, input);
    char what[160];
    int32_t tokens;
    double training = training_memory(s, model, &tokens);
    int first = 1;
    print_bytes("model", "model", "the weights, rows padded to whole registers", model, json,
                &first);
    print_bytes("  in 16 bits", "model_in_16_bits", "--weights bf16: its matrices, the rest in 32",
                in16.model, json, &first);
    print_bytes("  in 8 bits", "model_in_8_bits", "from a file of trf quantize --weights int8",
                in8.model, json, &first);
    snprintf(what, sizeof what,
             "the model, gradients, moments, batches of at most %d tokens per side", (int)tokens);
    print_bytes("training", "training", what, training, json, &first);
    print_bytes("translating", "translating", search, translating > 0 ? model + translating : 0,
                json, &first);
    print_bytes("  in 16 bits", "translating_in_16_bits", "the same with --weights bf16",
                in16.translating, json, &first);
    print_bytes("  in 8 bits", "translating_in_8_bits",
                "the same from a file of trf quantize --weights int8", in8.translating, json,
                &first);
    print_bytes("model file", "file", "weights of 32 bits, without vocabularies",
                4.0 * (double)weights, json, &first);
    print_bytes("  of 16 bits", "file_of_16_bits", "trf quantize --weights f16",
                2.0 * (double)weights, json, &first);
    print_bytes("checkpoint", "checkpoint", "weights and two moments", 12.0 * (double)weights, json,
                &first);
}

/* Memory as the library plans it. A model from a file of 8 bits has no floats of its matrices. */
static void print_memory_of(struct settings *s, int64_t weights, int of_8_bits)
{
    int32_t input = s->config.kind == TRF_DECODER_ONLY ? s->inspect.target_length
        : s->inspect.source_length;
    int32_t batch = s->inspect.translate_batch;
    char search[160];
    snprintf(search, sizeof search,
             "the model and its search: beam %d, %d sentence%s of %d token%s at a time",
             (int)s->search.beam, (int)batch, plural(batch), (int)input, plural(input));
    printf(s->json ? ",\"bytes\":{" : "memory and files:\n");
    if (of_8_bits) {
        struct packed in8 = packed_memory(s, TRF_WEIGHTS_INT8, input);
        int first = 1;
        print_bytes("model", "model", "its matrices in 8 bits, the rest in 32", in8.model, s->json,
                    &first);
        print_bytes("translating", "translating", search, in8.translating, s->json, &first);
    } else print_memory(s, weights, input, search, s->json);
    if (s->json) putchar('}');
}

static void print_flops_part(const char *name, double flops, int64_t tokens, const char *side,
                             int json, int *first)
{
    char all[32], each[32];
    if (flops <= 0) return;
    if (json) printf("%s\"%s\":%.17g", *first ? "" : ",", name, flops);
    else if (tokens > 1)
        printf("  %-24s %10s  %10s per %s row\n", name, flops_text(flops, all),
               flops_text(flops / (double)tokens, each), side);
    else printf("  %-24s %10s\n", name, flops_text(flops, all));
    *first = 0;
}

static int print_flops(const struct settings *s, int json)
{
    const trf_config *c = &s->config;
    int64_t source = source_rows(s), target = target_rows(s);
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
        printf(": %s (in matrix products; a multiplication and an addition count as two;\n"
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

/* For a file and for options; with --trace also the trace. */
int print_resources(struct settings *s, int of_8_bits)
{
    trf_model_size n;
    trf_error err;
    if (settle_lengths(s)) return USAGE;
    if (trf_config_check(&s->config, &n, &err)) return refused("model", &err);
    print_memory_of(s, n.total, of_8_bits);
    if (print_flops(s, s->json)) return FAILED;
    if (s->inspect.trace) print_trace(s);
    return DONE;
}

// trf inspect without a file: weights by part, memory, operations and shapes of a model that is not
// made.
//
// The options are those of trf train. Options that trf train takes from the data have fixed values
// here: see settle_model.

#include "inspect.h"

// -----------------------------------------------------------------------------------------------
// >>settle         values that trf train would take from the data
//
// Without --size: base. Without a size of vocabularies: 32,000. --recipe auto: pre-norm, no bias of
// the output projection, embeddings tied as far as the vocabularies let them.
// -----------------------------------------------------------------------------------------------

enum { VOCABULARY = 32000 };

/* Whether the recipe decides the field. */
static int is_open(const struct settings *s, size_t field)
{
    return s->train.recipe == RECIPE_AUTO && !s->inspect.shape &&
        !is_given(s, AT(train.conventions)) &&
           !is_given(s, field);
}

static void settle_vocabularies(struct settings *s)
{
    trf_config *c = &s->config;
    int32_t source = s->train.source_vocab_size, target = s->train.target_vocab_size;
    int one = s->train.joint_vocabulary || c->tying == TRF_TIED_ALL ||
        c->tying == TRF_TIED_EMBEDDINGS ||
              s->objective == OBJECTIVE_SPAN;
    if (!source) source = one && target ? target : VOCABULARY;
    if (!target) target = one ? source : VOCABULARY;
    c->source_vocab = c->kind == TRF_DECODER_ONLY ? 0 : source;
    c->target_vocab = c->kind == TRF_ENCODER_ONLY ? 0 : target;
    if (c->head == TRF_HEAD_NONE || c->head == TRF_HEAD_MASKED) c->n_labels = 0;
    else c->n_labels = s->inspect.labels;
    c->sequence_labels = s->objective == OBJECTIVE_PRETRAIN ? s->inspect.labels : 0;
}

static int check_range(const struct settings *s, size_t field, int32_t value, int32_t low)
{
    const int32_t high = 1 << 24;
    if (!is_given(s, field) || (value >= low && value <= high)) return DONE;
    say("--%s must be between %d and %d, got %d", option_name(field), (int)low, (int)high,
        (int)value);
    return USAGE;
}

static int check_fits(const struct settings *s)
{
    if (s->inspect.shape && is_given(s, AT(objective))) {
        say("--shape %s sets what the model learns: --objective does not work with it",
            text_given(s, AT(inspect.shape)));
        return USAGE;
    }
    if (is_given(s, AT(inspect.labels)) && !learns_labels(s)) {
        say("--labels is for --objective classify, tag and pretrain");
        return USAGE;
    }
    if (is_given(s, AT(config.label_kind)) && s->objective != OBJECTIVE_CLASSIFY) {
        say("--label-kind is for --objective classify");
        return USAGE;
    }
    if (is_given(s, AT(pooling)) && s->objective != OBJECTIVE_CLASSIFY) {
        say("--pooling is for --objective classify");
        return USAGE;
    }
    if (check_range(s, AT(train.vocab_size), s->train.vocab_size, 5) ||
        check_range(s, AT(train.source_vocab_size), s->train.source_vocab_size, 5) ||
        check_range(s, AT(train.target_vocab_size), s->train.target_vocab_size, 5) ||
        check_range(s, AT(inspect.labels), s->inspect.labels,
                    s->config.label_kind ? 1 : 2))
        return USAGE;
    return DONE;
}

static int settle_model(struct settings *s)
{
    trf_config *c = &s->config;
    int one;
    if (check_fits(s)) return USAGE;
    if (s->inspect.shape) {
        set_published(s);
        if (apply_given(s)) return USAGE; /* the command line overrides it */
    }
    one = s->train.joint_vocabulary || s->objective == OBJECTIVE_SPAN;
    if (s->train.size == SIZE_AUTO && !s->inspect.shape) {
        trf_config base = trf_config_preset(TRF_BASE);
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

int inspect_options(struct settings *s)
{
    trf_model_size n;
    trf_error err;
    int status = settle_model(s);
    if (!status) status = check_running(s);
    if (status) return status;
    if (trf_config_check(&s->config, &n, &err)) return refused("model", &err);
    if (s->json) printf("{\"content\":\"options\"");
    print_model(s);
    if (!status) status = print_weight_counts(&s->config, 0, s->json);
    if (!status && s->inspect.shape) print_published(s, n.total);
    if (!status) status = print_resources(s, 0);
    if (s->json) puts("}");
    return check_output(stdout, NULL) ? FAILED : status;
}

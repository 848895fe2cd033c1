// trf: the settings before any option, and what an option does beyond writing its field.
//
// Options that follow from the data (recipe.c) have no default here.

#include "options.h"

#include <math.h>

/* One seed for everything that is random. */
void then_seed(struct settings *s)
{
    s->config.seed = s->training.seed = s->corpus.seed = s->seed;
}

void then_weights(struct settings *s)
{
    static const trf_weights formats[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    s->search.weights = s->sampling.weights = formats[s->kept];
}

void set_defaults(struct settings *s)
{
    memset(s, 0, sizeof *s);
    s->config = trf_config_preset(TRF_TINY);
    s->training = trf_train_defaults();
    s->corpus = trf_corpus_defaults();
    s->search = trf_search_defaults();
    s->config.hooks.log = s->training.hooks.log = s->corpus.hooks.log = s->search.hooks.log =
        log_warning;
    s->noise = trf_noise_defaults();
    s->sampling = trf_sampling_defaults();
    s->train.min_count = 1;
    s->train.dropout = s->training.dropout;
    s->seed = s->config.seed;
    then_seed(s);
    s->device = trf_device_default();
    s->device.products = TRF_PRODUCTS_BUILT_IN; /* models are the same whichever OpenBLAS is there */
    s->train.updates = INT64_MAX;
    s->train.minutes = HUGE_VAL;
    s->train.checkpoint_every = 1000;
    s->train.log_every = 100;
    s->train.accumulate = s->train.seeds = s->train.valid_beam = s->train.average =
        s->train.subword_samples = 1;
    s->train.subword_alpha = 0.1;
    s->train.teacher_share = 0.5;
    s->train.chunk = s->config.max_length - 1;
    s->generate.count = 1;
    s->answer.labels_shown = INT64_MAX;
    s->buffer = s->generate.batch_sentences = s->inspect.translate_batch = 32;
    s->max_line_bytes = MAX_LINE_BYTES;
    s->embed.unit_vectors = 1;
    s->embed.top = 5;
    s->report.worst = 200;
    s->inspect.labels = 2;
    s->inspect.source_length = s->inspect.target_length = 32;
    s->eval.metrics = "bleu,chrf,exact,wer,cer";
}

/* What an option does beyond writing its field. Rows are applied in the order of the table,
   whatever the order on the command line: presets first, then single fields. */

void then_size(struct settings *s)
{
    trf_config size;
    if (s->train.size == SIZE_AUTO) return;
    size = trf_config_preset(s->train.size == SIZE_BASE  ? TRF_BASE
                             : s->train.size == SIZE_BIG ? TRF_BIG : TRF_TINY);
    if (s->train.size == SIZE_SMALL) {
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
void then_conventions(struct settings *s)
{
    trf_train_options *o = &s->training, kept = *o;
    trf_set_conventions(&s->config, o, (trf_conventions)s->train.conventions);
    o->schedule = kept.schedule;
    o->learning_rate = kept.learning_rate;
    o->warmup = kept.warmup;
    o->label_smoothing = kept.label_smoothing;
    o->dropout = kept.dropout;
    o->attention_dropout = kept.attention_dropout;
    o->activation_dropout = kept.activation_dropout;
    o->residual_dropout = kept.residual_dropout;
}

void then_recipe(struct settings *s)
{
    if (s->train.recipe != RECIPE_PAPER) return;
    s->train.conventions = TRF_CONVENTIONS_PAPER;
    trf_set_conventions(&s->config, &s->training, TRF_CONVENTIONS_PAPER);
}

void then_tokens(struct settings *s)
{
    s->train.source_tokens = s->train.target_tokens = s->train.tokens;
}
void then_vocab_size(struct settings *s)
{
    s->train.source_vocab_size = s->train.target_vocab_size = s->train.vocab_size;
}

void then_sentencepiece(struct settings *s)
{
    s->train.source_sentencepiece = s->train.target_sentencepiece = s->train.sentencepiece;
}

void then_dropout(struct settings *s) { trf_train_set_dropout(&s->training, s->train.dropout); }
void then_rule(struct settings *s)
{
    trf_search_set_rule(&s->search, (trf_search_rule)s->answer.search_rule);
}

void then_ensemble(struct settings *s) { s->sampling.ensemble = s->search.ensemble; }

void then_device(struct settings *s) { s->config.device = s->device; }

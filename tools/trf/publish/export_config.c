// trf export: which architecture of Hugging Face a model fits. A recipe writes config.json. From
// that trf import would make a configuration, which must be the model's own, or compute the same.

#include "export.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>equal          configurations that mean the same are the same
// -----------------------------------------------------------------------------------------------

static int adds_positions(const trf_config *c) { return c->positions <= TRF_POSITIONS_LEARNED; }

/* Sets fields that have no effect, or that say the same as another value, to one value. */
static void make_canonical(trf_config *c)
{
    int32_t d_head = c->d_head ? c->d_head : c->d_model / c->n_heads;
    if (d_head * c->n_heads == c->d_model) c->d_head = 0;
    if (c->kv_heads == c->n_heads) c->kv_heads = 0;
    if (fabs(c->attention_scale * sqrt((double)d_head) - 1) < 1e-12) c->attention_scale = 0;
    if (c->rotary_width == d_head) c->rotary_width = 0;
    if (!adds_positions(c)) c->position_offset = 0;
    if (c->positions != TRF_POSITIONS_RELATIVE) c->relative_buckets = c->relative_distance = 0;
    if (c->positions != TRF_POSITIONS_ROTARY) {
        c->rotary_base = c->rotary_scale = 0;
        c->rotary_width = 0;
        c->rotary_pairs = TRF_ROTARY_HALVES;
    }
    if (c->positions != TRF_POSITIONS_ROTARY || c->rotary_scale == 1) c->rotary_trained = 0;
    if (!c->rotary_trained) c->rotary_low = c->rotary_high = 0;
    if (c->kind == TRF_ENCODER_ONLY) {
        if (c->final_norm == TRF_FINAL_NORM_ENCODER) c->final_norm = TRF_FINAL_NORM_BOTH;
        if (c->final_norm == TRF_FINAL_NORM_DECODER) c->final_norm = TRF_FINAL_NORM_NONE;
        c->decoder_layers = c->target_vocab = c->generator_bias = 0;
        c->decoder_start = TRF_START_BOS;
        c->tying = TRF_UNTIED;
    }
    if (c->kind == TRF_DECODER_ONLY) {
        if (c->final_norm == TRF_FINAL_NORM_DECODER) c->final_norm = TRF_FINAL_NORM_BOTH;
        if (c->final_norm == TRF_FINAL_NORM_ENCODER) c->final_norm = TRF_FINAL_NORM_NONE;
        c->encoder_layers = c->source_vocab = c->source_bos = c->source_eos = c->segments = 0;
    }
}

// -----------------------------------------------------------------------------------------------
// >>convert        differences that weights can make up for (export_weights.c)
// -----------------------------------------------------------------------------------------------

/* Whether the matrix of the output, or of a masked head, is an embedding. */
static int reads_embedding(const trf_config *c)
{
    if (c->kind == TRF_ENCODER_ONLY) return c->head == TRF_HEAD_MASKED;
    return c->tying == TRF_TIED_ALL || c->tying == TRF_TIED_DECODER;
}

static int can_untie(const trf_config *c, const trf_config *w)
{
    if (w->tying == TRF_UNTIED) return 1;
    return w->tying == TRF_TIED_EMBEDDINGS && c->tying == TRF_TIED_ALL;
}

/* Whether a model with *c can become one with *w although they differ in this field. */
static int can_convert(const trf_config *c, const trf_config *w, size_t field)
{
    int sines = c->positions < TRF_POSITIONS_LEARNED;
    switch (field) {
    case FIELD(positions):          /* a table may hold sines, in either order of features */
        if (w->positions == TRF_POSITIONS_LEARNED)
            return sines || c->positions == TRF_POSITIONS_NONE;
        return c->positions == TRF_POSITIONS_INTERLEAVED && w->positions == TRF_POSITIONS_HALVES &&
               c->d_model % 2 == 0;
    case FIELD(position_offset): return w->positions == TRF_POSITIONS_LEARNED;
    case FIELD(scale_embeddings): return !w->scale_embeddings && !reads_embedding(w);
    case FIELD(segments): return c->segments == 0;
    case FIELD(tying): return can_untie(c, w);
    case FIELD(qkv_bias): return !c->qkv_bias;
    case FIELD(out_bias): return !c->out_bias;
    case FIELD(feed_forward_bias): return !c->feed_forward_bias;
    case FIELD(generator_bias): return !c->generator_bias;
    default: return 0;
    }
}

// -----------------------------------------------------------------------------------------------
// >>compare        every field that an option of trf train sets
// -----------------------------------------------------------------------------------------------

#define IN_CONFIG offsetof(struct settings, config)
/* What options of trf train do not set. */
static const struct row sizes[] = {
    {0, NUMBER, "source_vocab", IN_CONFIG + FIELD(source_vocab), NULL, NULL, NULL},
    {0, NUMBER, "target_vocab", IN_CONFIG + FIELD(target_vocab), NULL, NULL, NULL}};

/* The offset of a row's field in trf_config. */
static size_t field_of(const struct row *row) { return row->offset - IN_CONFIG; }

static double value_of(const trf_config *c, const struct row *row)
{
    const char *at = (const char *)c + field_of(row);
    return row->kind == REAL ? *(const double *)at : (double)*(const int32_t *)at;
}

/* A value as an option shows it. */
static void show_value(const struct row *row, const trf_config *c, char value[64])
{
    static struct settings shown;
    shown.config = *c;
    value_text(row, &shown, value, 64);
}

static void need(struct fit *fit, const char *option, const char *value)
{
    size_t used = strlen(fit->needs);
    snprintf(fit->needs + used, sizeof fit->needs - used, " --%s %s", option, value);
}

/* 1: the field does not fit. */
static int compare_field(const struct row *row, trf_config *c, trf_config *w, struct fit *fit,
                         int loud)
{
    char value[2][64];
    if (value_of(c, row) == value_of(w, row) || can_convert(c, w, field_of(row))) return 0;
    show_value(row, c, value[0]);
    show_value(row, w, value[1]);
    if (row->commands) need(fit, row->name, value[1]);
    if (loud)
        say("%s%s is %s, but %s needs %s", row->commands ? "--" : "", row->name, value[0],
            fit->recipe->type, value[1]);
    if (field_of(row) != FIELD(positions)) return 1;
    /* fields of single kinds of positions would differ too, for the same reason */
    c->positions = w->positions = TRF_POSITIONS_NONE;
    make_canonical(c);
    make_canonical(w);
    return 1;
}

/* Counts the fields that do not fit. A new option of a field is compared too. */
static int compare(const trf_config *model, struct fit *fit, int loud)
{
    trf_config c = *model, w = fit->config;
    int i, faults = 0;
    make_canonical(&c);
    make_canonical(&w);
    for (i = 0; i < 2; i++) faults += compare_field(&sizes[i], &c, &w, fit, loud);
    for (i = 0; i < n_rows; i++)
        if ((rows[i].commands & TRAIN) && row_within(&rows[i], AT(config), sizeof c))
            faults += compare_field(&rows[i], &c, &w, fit, loud);
    return faults;
}

/* Finds the class of the model's head. Every architecture of encoders has heads, the others have
   none. 1: the recipe has no such head. */
static int find_head_class(struct fit *fit, const trf_config *c, int loud)
{
    for (fit->head = fit->recipe->heads; fit->head->class_name; fit->head++)
        if (fit->head->head == c->head && fit->head->layer == c->head_layer &&
            fit->head->sequence_labels == c->sequence_labels) break;
    if (fit->head->gelu && c->activation != TRF_GELU) {
        need(fit, "activation", "gelu");
        if (loud)
            say("--activation is %s, but the masked head of %s has gelu",
                activation_name(c->activation), fit->recipe->type);
        return 1;
    }
    if (fit->head->class_name || c->head == TRF_HEAD_NONE) return 0;
    if (!c->sequence_labels && c->head != TRF_HEAD_TOKENS && c->head != TRF_HEAD_MASKED) {
        if (c->head == TRF_HEAD_MEAN) need(fit, "pooling", "first");
        if (!c->head_layer) need(fit, "head-layer", "yes");
    } else need(fit, "head-layer", c->head_layer && !c->sequence_labels ? "no" : "yes");
    if (!loud) return 1;
    if (c->sequence_labels)
        say("beside its masked head the model has %d labels of sequences and --head-layer %s; only "
            "bert and megatron-bert have both heads, with 2 labels and --head-layer yes",
            (int)c->sequence_labels, c->head_layer ? "yes" : "no");
    else if (c->head == TRF_HEAD_TOKENS || c->head == TRF_HEAD_MASKED)
        say("--head-layer is %s, but %s needs %s", c->head_layer ? "yes" : "no", fit->recipe->type,
            c->head_layer ? "no" : "yes");
    else
        say("--pooling is %s and --head-layer %s, but %s needs --pooling first --head-layer yes",
            c->head == TRF_HEAD_MEAN ? "mean" : "first", c->head_layer ? "yes" : "no",
            fit->recipe->type);
    return 1;
}

// -----------------------------------------------------------------------------------------------
// >>fit            a model and a recipe
// -----------------------------------------------------------------------------------------------

static void set_id(cJSON *json, const char *name, int32_t id)
{
    if (id >= 0) set_number(json, name, id);
    else set_text(json, name, NULL);
}

static int32_t start_id(const trf_config *c)
{
    return c->decoder_start == TRF_START_PAD ? c->pad
           : c->decoder_start == TRF_START_EOS ? c->eos
           : c->decoder_start == TRF_START_BOS ? c->bos : -1;
}

/* What config.json of every architecture has. */
static cJSON *describe(const struct fit *fit, const trf_config *c)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *classes = cJSON_AddArrayToObject(json, "architectures");
    const char *class_name = fit->head->class_name;
    cJSON_AddItemToArray(classes, cJSON_CreateString(class_name ? class_name
                                                                : fit->recipe->class_name));
    set_text(json, "model_type", fit->recipe->type);
    set_text(json, "dtype", "float32");
    set_id(json, "pad_token_id", c->pad);
    set_id(json, "bos_token_id", c->bos);
    set_id(json, "eos_token_id", c->eos);
    if (c->kind == TRF_ENCODER_DECODER) {
        set_bool(json, "is_encoder_decoder", 1);
        set_id(json, "decoder_start_token_id", start_id(c));
    }
    set_bool(json, "tie_word_embeddings", 1);
    write_config(fit->recipe, c, json);
    return json;
}

/* In some architectures the number of the first position is pad + 1. */
static int lacks_pad(const struct recipe *recipe, const trf_config *c, int loud)
{
    if (c->pad >= 0 || (strcmp(recipe->type, "roberta") && strcmp(recipe->type, "xlm-roberta") &&
                        strcmp(recipe->type, "m2m_100")))
        return 0;
    if (loud)
        say("the model has no pad token, but %s needs one: it numbers positions from pad + 1",
            recipe->type);
    return 1;
}

int fit_recipe(const struct recipe *recipe, const trf_config *c, struct fit *fit, int loud)
{
    trf_config *w = &fit->config;
    memset(fit, 0, sizeof *fit);
    fit->recipe = recipe;
    fit->faults = find_head_class(fit, c, loud) + lacks_pad(recipe, c, loud);
    fit->json = describe(fit, c);
    *w = trf_config_preset(TRF_TINY);
    if (read_config(recipe, fit->json, "config.json", w)) return FAILED;
    w->pad = c->pad;
    w->bos = c->bos;
    w->eos = c->eos;
    w->unk = c->unk;
    w->mask = c->mask;
    w->head = c->head;
    w->head_layer = c->head_layer;
    w->n_labels = c->n_labels;
    w->label_kind = c->label_kind;
    w->sequence_labels = c->sequence_labels;
    w->target_eos = c->target_eos;
    w->bare_prompts = c->bare_prompts;
    w->init = c->init;
    w->embedding_init = c->embedding_init;
    w->device = c->device;
    if (c->kind == TRF_ENCODER_DECODER)
        w->decoder_start = c->decoder_start == TRF_START_ZERO ? TRF_START_PAD : c->decoder_start;
    fit->faults += compare(c, fit, loud);
    return DONE;
}

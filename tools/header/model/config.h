#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "device/backend.h"
#include "model/checks.h"

// -----------------------------------------------------------------------------------------------
// >>config         presets and checks
//
// Presets fill in every field. trf_config_check names the first field whose value is wrong. Every
// call that takes a configuration (create, load) checks all of it, so later chapters rely on it.
//
// Each options struct has one table, by which it is checked, written to files and read from them.
// The table has a row for every field that is a number: type, name, smallest and largest value, and
// the first file format that has it (0: none). A test compares the names with the struct.
// -----------------------------------------------------------------------------------------------

/* Only the fields in which systems differ: sizes, kind and dropout stay as they are. */
TRF__FN void trf__config_conventions(trf_config *config, int paper)
{
    config->activation = TRF_RELU;
    config->feed_forward_gate = config->embedding_norm = config->scale_logits = 0;
    config->segments = 0;
    config->kv_heads = config->d_head = 0;
    config->attention_scale = 0;
    config->positions = TRF_POSITIONS_INTERLEAVED;
    config->position_offset = 0;
    config->norm_place = TRF_POST_NORM;
    config->norm_rule = TRF_NORM_STANDARD;
    config->norm_epsilon = paper ? 1e-6 : 1e-5;
    config->final_norm = paper ? TRF_FINAL_NORM_NONE : TRF_FINAL_NORM_BOTH;
    config->scale_embeddings = 1;
    config->tying = paper ? TRF_TIED_ALL : TRF_UNTIED;
    config->generator_bias = !paper;
    config->init = paper ? TRF_INIT_XAVIER : TRF_INIT_XAVIER_PACKED;
    config->embedding_init = paper ? TRF_EMBEDDING_NORMAL_D : TRF_EMBEDDING_NORMAL_1;
    config->source_bos = 0;
    config->source_eos = 1;
    config->decoder_start = TRF_START_BOS;
}

/* PyTorch's conventions but for two: pre-norm trains without a long warm-up, and small first
   embeddings leave the positions visible. */
TRF_API trf_config trf_config_preset(trf_preset preset)
{
    static const int32_t sizes[TRF_PRESET_COUNT][4] = {     /* layers, d_model, d_ff, n_heads */
        {4, 128, 256, 4}, {6, 512, 2048, 8}, {6, 1024, 4096, 16}};
    TRF__ZEROED(trf_config, config);
    if ((unsigned)preset >= TRF_PRESET_COUNT) return config;
    trf__config_conventions(&config, 0);
    config.norm_place = TRF_PRE_NORM;
    config.embedding_init = TRF_EMBEDDING_NORMAL_D;     /* nn.Transformer has no embeddings */
    config.encoder_layers = config.decoder_layers = sizes[preset][0];
    config.d_model = sizes[preset][1];
    config.d_ff = sizes[preset][2];
    config.n_heads = sizes[preset][3];
    config.max_length = 512;
    config.pad = 0; config.bos = 1; config.eos = 2; config.unk = 3;
    config.target_eos = 1;
    config.qkv_bias = config.out_bias = config.feed_forward_bias = 1;
    config.relative_buckets = 32;
    config.relative_distance = 128;
    config.rotary_base = 10000;
    config.rotary_scale = 1;
    config.rotary_low = 1;
    config.rotary_high = 4;
    config.mask = -1;
    config.seed = 1;
    config.device = trf_device_default();
    return config;
}

// >>config-checks  which values a configuration may have, and which fit together

TRF__FN trf_status trf__check_has_target(const trf_config *c, trf_error *err)
{
    if (trf__has_target(c)) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "kind", "an encoder-only model has no decoder");
}

/* Special ids lie in the vocabulary and differ: else a token and an end of sentence would look
   alike. -1 is no id; only eos must be one. bos may be eos: one id for both. */
TRF__FN trf_status trf__special_check(const trf_config *c, int32_t vocab, const char *field,
                                      trf_error *err)
{
    const int32_t ids[4] = {c->pad, c->bos, c->eos, c->unk};
    static const char *const names[4] = {"pad", "bos", "eos", "unk"};
    for (int i = 0; i < 4; i++) {
        int optional = i != 2;      /* 2: eos */
        TRF__FAIL_IF(ids[i] < -optional || ids[i] >= vocab, TRF_E_INVALID_ARG, ids[i], names[i],
                     "%s must be an id of 0 or more, below %s = %d%s, got %d", names[i], field,
                     vocab, optional ? ", or -1 for none" : "", ids[i]);
        for (int j = 0; j < i; j++)
            TRF__FAIL_IF(ids[i] >= 0 && ids[i] == ids[j] && !(j == 1 && i == 2), TRF_E_INVALID_ARG,
                         ids[i], names[i], "special ids must differ, but %s and %s are both %d",
                         names[j], names[i], ids[i]);
    }
    return TRF_OK;
}

/* The fields of a configuration that use a special id, which the model then must have. */
TRF__FN trf_status trf__check_needed_ids(const trf_config *c, trf_error *err)
{
    int start_bos = trf__has_target(c) && c->decoder_start == TRF_START_BOS;
    int start_pad = trf__has_target(c) && c->decoder_start == TRF_START_PAD;
    int source_bos = trf__has_source(c) && c->source_bos;
    const char *field = NULL, *id = "bos";
    if (c->bos < 0 && source_bos) field = "source_bos";
    else if (c->bos < 0 && start_bos) field = "decoder_start";
    else if (c->pad < 0 && (start_pad || (c->head == TRF_HEAD_MASKED && c->mask < 0))) {
        field = start_pad ? "decoder_start" : "head";
        id = "pad";
    }
    if (!field) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, field,
                     "this value of %s needs %s, but the model has none (%s is -1)", field, id, id);
}

/* source, target: 1 if the model has that side. */
#define TRF__CONFIG_FIELDS(X) \
    X(trf_kind,           kind,             0, TRF_KIND_COUNT - 1, 2) \
    X(int32_t,            d_model,          1, 65536, 2) \
    X(int32_t,            n_heads,          1, 65536, 2) \
    X(int32_t,            kv_heads,         0, c->n_heads, 6) \
    X(int32_t,            d_head,           0, (1 << 20) / c->n_heads, 6) \
    X(double,             attention_scale,  0, 1e6, 6) \
    X(int32_t,            d_ff,             1, 1 << 20, 2) \
    X(int32_t,            encoder_layers,   source, source * 256, 2) \
    X(int32_t,            decoder_layers,   target, target * 256, 2) \
    X(int32_t,            source_vocab,     source ? 5 : INT32_MIN, source ? 1 << 24 : INT32_MAX, \
      2) \
    X(int32_t,            target_vocab,     target ? 5 : INT32_MIN, target ? 1 << 24 : INT32_MAX, \
      2) \
    X(int32_t,            max_length,       2, 1 << 20, 2) \
    X(int32_t,            trained_source,   0, 1 << 20, 10) \
    X(int32_t,            trained_target,   0, 1 << 20, 10) \
    X(int32_t,            pad,              INT32_MIN, INT32_MAX, 2) \
    X(int32_t,            bos,              INT32_MIN, INT32_MAX, 2) \
    X(int32_t,            eos,              INT32_MIN, INT32_MAX, 2) \
    X(int32_t,            unk,              INT32_MIN, INT32_MAX, 2) \
    X(trf_activation,     activation,       0, TRF_ACTIVATION_COUNT - 1, 2) \
    X(int32_t,            feed_forward_gate, 0, 1, 5) \
    X(trf_positions,      positions,        0, TRF_POSITIONS_COUNT - 1, 2) \
    X(int32_t,            position_offset,  0, 1 << 20, 2) \
    X(int32_t,            relative_buckets, 4, 65536, 6) \
    X(int32_t,            relative_distance, 1, 1 << 20, 6) \
    X(double,             rotary_base,      1, 1e12, 6) \
    X(int32_t,            rotary_width,     0, trf__d_head(c), 6) \
    X(double,             rotary_scale,     1e-3, 1e6, 6) \
    X(int32_t,            rotary_trained,   0, 1 << 20, 7) \
    X(double,             rotary_low,       0, 1e6, 7) \
    X(double,             rotary_high,      0, 1e6, 7) \
    X(trf_rotary_pairs,   rotary_pairs,     0, TRF_ROTARY_PAIRS_COUNT - 1, 6) \
    X(trf_norm_place,     norm_place,       0, TRF_NORM_PLACE_COUNT - 1, 2) \
    X(trf_norm_rule,      norm_rule,        0, TRF_NORM_RULE_COUNT - 1, 2) \
    X(double,             norm_epsilon,     1e-30, 1, 2) \
    X(trf_final_norm,     final_norm,       0, TRF_FINAL_NORM_COUNT - 1, 2) \
    X(int32_t,            scale_embeddings, 0, 1, 2) \
    X(int32_t,            embedding_norm,   0, 1, 5) \
    X(int32_t,            segments,         0, source * 1024, 6) \
    X(trf_tying,          tying,            0, source && target ? TRF_TYING_COUNT - 1 : target, 2) \
    X(int32_t,            generator_bias,   0, 1, 2) \
    X(int32_t,            scale_logits,     0, target, 6) \
    X(int32_t,            qkv_bias,         0, 1, 4) \
    X(int32_t,            out_bias,         0, 1, 4) \
    X(int32_t,            feed_forward_bias, 0, 1, 4) \
    X(trf_init,           init,             0, TRF_INIT_COUNT - 1, 2) \
    X(trf_embedding_init, embedding_init,   0, TRF_EMBEDDING_INIT_COUNT - 1, 2) \
    X(int32_t,            source_bos,       0, 1, 5) \
    X(int32_t,            source_eos,       0, 1, 2) \
    X(int32_t,            target_eos,       0, 1, 3) \
    X(trf_decoder_start,  decoder_start,    0, TRF_DECODER_START_COUNT - 1, 2) \
    X(int32_t,            bare_prompts,     0, !source, 9) \
    X(trf_head,           head,             0, target ? 0 : TRF_HEAD_COUNT - 1, 3) \
    X(int32_t,            n_labels,         INT32_MIN, INT32_MAX, 3) \
    X(trf_label_kind,     label_kind,       0, TRF_LABEL_KIND_COUNT - 1, 12) \
    X(int32_t,            head_layer,       0, 1, 6) \
    X(int32_t,            sequence_labels,  INT32_MIN, INT32_MAX, 7) \
    X(int32_t,            mask,             -1, source ? c->source_vocab - 1 : -1, 6) \
    X(uint64_t,           seed,             0, 2e19, 2)

/* The fields that only some heads have. */
TRF__FN trf_status trf__head_check(const trf_config *c, trf_error *err)
{
    TRF__FAIL_IF(c->label_kind && !trf__pools(c), TRF_E_INVALID_ARG, -1, "label_kind",
                 "label_kind must be 0 with head %d, got %d", (int)c->head, (int)c->label_kind);
    if (trf__has_labels(c)) TRF__RANGE(c, n_labels, c->label_kind ? 1 : 2, 1 << 24);
    else if (c->n_labels)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "n_labels",
                         "n_labels must be 0 with head %d, got %d", (int)c->head, c->n_labels);
    TRF__FAIL_IF(c->head_layer && c->head != TRF_HEAD_FIRST && c->head != TRF_HEAD_MASKED,
                 TRF_E_INVALID_ARG, -1, "head_layer", "head_layer must be 0 with head %d, got %d",
                 (int)c->head, c->head_layer);
    TRF__FAIL_IF(c->sequence_labels && c->head != TRF_HEAD_MASKED, TRF_E_INVALID_ARG, -1,
                 "sequence_labels", "sequence_labels must be 0 with head %d, got %d", (int)c->head,
                 c->sequence_labels);
    if (c->sequence_labels) TRF__RANGE(c, sequence_labels, 2, 1 << 24);
    if (c->mask < 0) return TRF_OK;
    TRF__FAIL_IF(c->head != TRF_HEAD_MASKED, TRF_E_INVALID_ARG, -1, "mask",
                 "mask must be -1 with head %d, got %d", (int)c->head, c->mask);
    if (c->mask != c->pad && c->mask != c->bos && c->mask != c->eos) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, "mask",
                     "mask must not be pad, bos or eos, got %d (-1: pad is the mask)", c->mask);
}

/* Where the largest value is 0 this kind of model has no such field: say so. */
TRF__FN trf_status trf__check_field(const trf_config *c, const char *field, double value,
                                    double low, double high, trf_error *err)
{
    if (high != 0 || value == 0) return trf__check_range(field, value, low, high, err);
    return trf__fail(err, TRF_E_INVALID_ARG, -1, field, "%s must be 0 in %s model, got %.9g", field,
                     c->kind == TRF_DECODER_ONLY ? "a decoder-only"
                         : c->kind == TRF_ENCODER_ONLY ? "an encoder-only" : "an encoder-decoder",
                         value);
}

/* What the fields of attention and positions must agree on. */
TRF__FN trf_status trf__attention_check(const trf_config *c, trf_error *err)
{
    TRF__FAIL_IF(!c->d_head && c->d_model % c->n_heads, TRF_E_INVALID_ARG, -1, "n_heads",
                 "n_heads must divide d_model = %d, got %d", c->d_model, c->n_heads);
    TRF__FAIL_IF(c->n_heads % trf__kv_heads(c), TRF_E_INVALID_ARG, -1, "kv_heads",
                 "kv_heads must divide n_heads = %d, got %d", c->n_heads, c->kv_heads);
    TRF__FAIL_IF(c->relative_buckets % 2, TRF_E_INVALID_ARG, -1, "relative_buckets",
                 "relative_buckets must be even, got %d", c->relative_buckets);
    if (c->positions == TRF_POSITIONS_RELATIVE && c->relative_distance <= c->relative_buckets / 2)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "relative_distance",
                         "relative_distance must be more than half of relative_buckets = %d, got "
                         "%d", c->relative_buckets, c->relative_distance);
    TRF__FAIL_IF(trf__rotary_width(c) % 2, TRF_E_INVALID_ARG, -1, "rotary_width",
                 "rotary positions turn pairs of features, but rotary_width%s is %d",
                 c->rotary_width ? "" : " = d_head", trf__rotary_width(c));
    TRF__FAIL_IF(c->rotary_trained && c->rotary_high <= c->rotary_low, TRF_E_INVALID_ARG, -1,
                 "rotary_high", "rotary_high must be more than rotary_low = %.9g, got %.9g",
                 c->rotary_low, c->rotary_high);
    return TRF_OK;
}

/* Checks every field by its row of the table, then what fields must agree on. Later chapters rely
   on it and check nothing again. */
TRF__FN trf_status trf__config_check(const trf_config *c, trf_error *err)
{
    int source, target;
    TRF__TRY(trf__begin(c, "config", err));
    source = trf__has_source(c);
    target = trf__has_target(c);
#define TRF__X(type, field, low, high, stored) \
    TRF__TRY(trf__check_field(c, #field, (double)c->field, low, high, err));
    TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    TRF__TRY(trf__attention_check(c, err));
    if (source) TRF__TRY(trf__special_check(c, c->source_vocab, "source_vocab", err));
    if (target) TRF__TRY(trf__special_check(c, c->target_vocab, "target_vocab", err));
    TRF__TRY(trf__check_needed_ids(c, err));
    TRF__FAIL_IF((c->final_norm == TRF_FINAL_NORM_ENCODER && !source) ||
                 (c->final_norm == TRF_FINAL_NORM_DECODER && !target), TRF_E_INVALID_ARG, -1,
                 "final_norm", "final_norm %d is for a stack that this model does not have",
                 (int)c->final_norm);
    TRF__FAIL_IF(trf__shares_embedding(c) && c->source_vocab != c->target_vocab, TRF_E_INVALID_ARG,
                 -1, "target_vocab",
                 "one embedding for both sides needs vocabularies of the same size, got source %d "
                 "and target %d", c->source_vocab, c->target_vocab);
    TRF__TRY(trf__head_check(c, err));
    TRF__TRY(trf__hooks_check(&c->hooks, err));
    return trf__device_check(&c->device, err);
}

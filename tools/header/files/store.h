#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "system/text.h"
#include "text/vocab.h"
#include "text/vocab_use.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/copies.h"
#include "files/container.h"
#include "files/reading.h"
#include "files/writing.h"

// -----------------------------------------------------------------------------------------------
// >>store          models and checkpoints as safetensors
//
//   tensors            the parameters, with the names and shapes of trf_model_parameter. A tied
//                      matrix is stored once: under src_embed.weight (all tied), or under
//                      tgt_embed.weight. A checkpoint adds Adam's moments: optimizer.m.NAME and
//                      optimizer.v.NAME; and if there are any, the moving average and the best
//                      weights of trf_trainer_learn: average.NAME and best.NAME. A matrix of type
//                      I8 has the scales of its rows beside it, NAME_scale of type F32. The last,
//                      of type U8, are trf.source_vocab and trf.target_vocab: the tokens from id 4
//                      on, each followed by a NUL, or a SentencePiece model, with ids of its own if
//                      it has any (>>pieces-map), or a file of subwords (>>wordpiece, >>byte-bpe).
//   __metadata__       trf.format = 9, 10 with average.NAME or best.NAME, or 12 if a field of
//                      format 12 is not 0; trf.version, that of the library that wrote the file;
//                      trf.content = model | checkpoint; trf.config.FIELD, each field as decimal
//                      text (enumerators as numbers, doubles with 17 digits); trf.source_vocab
//                      and trf.target_vocab = words | characters | sentencepiece | wordpiece |
//                      byte_bpe; trf.crc32 of the data, and trf.header_crc32 of these texts, names
//                      and shapes (>>files). A checkpoint adds trf.train.FIELD, trf.step and
//                      trf.updates; for a stage, trf.stage.first and .end, the layers that it has;
//                      with a corpus, trf.corpus.epoch, .batch and .fingerprint; from
//                      trf_trainer_learn, trf.learn.FIELD of trf_learn_state; with frozen
//                      parameters, trf.frozen: 1 or 0 for each, in the order of
//                      trf_model_parameter. For a parameter that is frozen or was, trf.missed.NAME:
//                      the number of updates that it missed; if it is frozen now, less the number
//                      of all updates when it froze. "format": "pt" is for users of PyTorch. All
//                      other keys belong to the program (trf_model_set_metadata), or come from the
//                      file that the model was loaded from.
//
// Vocabularies are tensors, not texts of the header. As tensors they need no escapes and may
// contain any bytes, a header's limit of 16 MiB does not apply, and the checksum covers them.
// load_state_dict(strict=False) ignores them.
//
// Loading finds a tied matrix under any of its names; if there are several, their bits must be
// equal. It accepts the prefix `transformer.` that a wrapping nn.Module adds, after `module.` and
// `_orig_mod.` (DistributedDataParallel, compile), if all names have it. It refuses every tensor
// that it cannot use, and allocates weights only if the whole header matches the configuration.
// -----------------------------------------------------------------------------------------------

/* The format number rises with every change that an older reader would misunderstand. The last
   column of the tables is the first format that has a field; in older files it gets its default.
   Some files of format 6 have fields of format 7, so a field that is there is read. A field of
   format 12 is written only if it is not 0, and the file then has this format. */
enum { TRF__FORMAT = 9, TRF__FORMAT_LEARN = 10, TRF__FORMAT_PACKED = 11, TRF__FORMAT_MORE = 12,
       TRF__FORMAT_READ = 2, TRF__NOTE_SIZE = 40 };
static const char *const trf__vocab_names[2] = {"trf.source_vocab", "trf.target_vocab"};

TRF__FN void trf__metadata_int(trf__text *notes, const char *key, int64_t value)
{
    char text[TRF__NOTE_SIZE];
    snprintf(text, sizeof text, "%lld", (long long)value);
    trf__add_metadata(notes, key, text);
}

TRF__FN void trf__metadata_real(trf__text *notes, const char *key, double value)
{
    char text[TRF__NOTE_SIZE];
    trf__print_real(text, sizeof text, value, 17);
    trf__add_metadata(notes, key, text);
}

/* Reads the number with a key of the metadata: a real one, or a whole one of `bytes` bytes. A
   missing or malformed number is an error. */
TRF__FN trf_status trf__read_number(const trf_file *file, const char *key, double *real,
                                    int64_t *whole, size_t bytes, trf_error *err)
{
    const char *text = trf_file_metadata(file, key);
    TRF__FAIL_IF(!text, TRF_E_FORMAT, -1, key, "the metadata lack %s", key);
    TRF__FAIL_IF(real ? !trf__parse_real(text, real) : !trf__parse_int(text, whole), TRF_E_FORMAT,
                 -1, key, "%s must be a %snumber, got \"%.40s\"", key, real ? "" : "whole ", text);
    return TRF__OK_IF(real || bytes != 4 || *whole == (int64_t)(int32_t)*whole, TRF_E_FORMAT,
                      *whole, key, "%s must fit into 32 bits, got %lld", key, (long long)*whole);
}

TRF__FN trf_status trf__read_int(const trf_file *file, const char *key, int64_t *value,
                                 trf_error *err)
{
    return trf__read_number(file, key, NULL, value, sizeof *value, err);
}

/* Writes a field of a table as a note, and reads it back into its own type. Converted to any type
   but double, one half is 0: that tells the types apart. */
#define TRF__IS_REAL(type) ((type)0.5 != 0)
#define TRF__NOTE_FIELD(prefix, object, type, field, stored) \
    if ((stored) >= TRF__FORMAT_MORE && (object)->field == 0) {} \
    else if ((stored) && TRF__IS_REAL(type)) trf__metadata_real(notes, prefix #field, \
                                                           (double)(object)->field); \
    else if (stored) trf__metadata_int(notes, prefix #field, (int64_t)(object)->field);
#define TRF__READ_FIELD(prefix, object, type, field, stored) \
    if ((stored) && (((stored) <= format && (stored) < TRF__FORMAT_MORE) \
                     || trf_file_metadata(file, prefix #field))) { \
        double real = 0; \
        int64_t whole = 0; \
        TRF__TRY(trf__read_number(file, prefix #field, TRF__IS_REAL(type) ? &real : NULL, &whole, \
                                  sizeof(type), err)); \
        (object)->field = TRF__IS_REAL(type) ? (type)real : (type)whole; \
    }

/* Turns an error of a configuration into one of the file that has it. err is not NULL. */
TRF__FN trf_status trf__file_fault(trf_status status, trf_error *err)
{
    static const char *const special[4] = {"pad", "bos", "eos", "unk"};
    if (status != TRF_E_INVALID_ARG) return status;
    for (int i = 0; i < 4; i++)
        if (!strcmp(err->what, special[i])) return (trf_status)(err->status = TRF_E_SHAPE);
    return (trf_status)(err->status = TRF_E_FORMAT);
}

/* Reads the configuration of a file: its metadata, or the options if another program wrote it. */
TRF__FN trf_status trf__read_config(const trf_file *file, const trf_load_options *options,
                                    trf_config *c, trf_error *err)
{
    const char *version = trf_file_metadata(file, "trf.version");
    int ours = trf_file_metadata(file, "trf.format") != NULL;
    int64_t format;
    /* fields that an older format lacks keep their defaults */
    *c = trf_config_preset(TRF_TINY);
    if (ours) {
        TRF__TRY(trf__read_int(file, "trf.format", &format, err));
        TRF__FAIL_IF(format < TRF__FORMAT_READ || format > TRF__FORMAT_MORE, TRF_E_UNSUPPORTED,
                     format, "trf.format", "the file has format %lld, of transformer.h %.20s; this "
                     "is " TRF_VERSION ", which reads formats %d to %d", (long long)format,
                     version ? version : "0.1", (int)TRF__FORMAT_READ, (int)TRF__FORMAT_MORE);
#define TRF__X(type, field, low, high, stored) \
    TRF__READ_FIELD("trf.config.", c, type, field, stored)
        TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    } else if (options->config) *c = *options->config;
    else return trf__fail(err, TRF_E_INVALID_ARG, -1, "config",
                          "the file has no trf.format: give its configuration in the load options");
    c->device = options->device;
    c->hooks = options->hooks;
    trf_status status = trf_config_check(c, NULL, err);
    return ours ? trf__file_fault(status, err) : status;
}

TRF__FN int trf__has_content(const trf_file *file, const char *what)
{
    const char *content = trf_file_metadata(file, "trf.content");
    return content && !strcmp(content, what);
}

/* The layers of a checkpoint of a stage; 0 and 0: all. */
TRF__FN trf_status trf__read_stage(const trf_file *file, const trf_config *c, int64_t *first,
                                   int64_t *end, trf_error *err)
{
    *first = *end = 0;
    if (!trf__has_content(file, "checkpoint") || !trf_file_metadata(file, "trf.stage.end"))
        return TRF_OK;
    TRF__TRY(trf__read_int(file, "trf.stage.first", first, err));
    TRF__TRY(trf__read_int(file, "trf.stage.end", end, err));
    TRF__TRY(trf__file_fault(trf__check_layers(c, *first, *end, err), err));
    return TRF__OK_IF(*end - *first < c->encoder_layers + c->decoder_layers, TRF_E_FORMAT, -1,
                      "trf.stage.end", "expected a part of the layers, got all of them");
}

// >>store-match    tensors of a file against the parameters of a configuration
//
// Every parameter must have its tensor, and every tensor its parameter. Numbers are read only after
// this check, so that a wrong configuration never loads half a model.

/* Numbers that a file keeps for each parameter beside its weights: the prefix of their names,
   whether all of them must be 0 or more, and whether a file may lack them. */
typedef struct trf__companion { const char *prefix; int nonnegative, optional; } trf__companion;
enum { TRF__COMPANIONS = 4 };
static const trf__companion trf__companions[TRF__COMPANIONS] = {
    {"optimizer.m.", 0, 0}, {"optimizer.v.", 1, 0}, {"average.", 0, 1}, {"best.", 0, 1}
};

/* Notes the common prefix of all names that PyTorch's DataParallel, DistributedDataParallel and
   compile add. They may be nested, in any order. */
TRF__FN void trf__find_wrapper(trf_file *file)
{
    static const char *const known[2] = {"module.", "_orig_mod."};
    size_t at = 0;
    int32_t k = 0;
    while (k < 2 && file->count > 0) {
        size_t length = strlen(known[k]);
        int32_t i = 0;
        while (i < file->count && !strncmp(file->entries[i].name + at, known[k], length)) i++;
        /* a prefix counts only if all names have it; after one, both are tried again */
        if (i < file->count || at + length >= sizeof file->wrapper) { k++; continue; }
        at += length;
        k = 0;
    }
    if (at) memcpy(file->wrapper, file->entries[0].name, at);
    file->wrapper[at] = 0;
}

/* Index of the tensor prefix + name, with or without `transformer.` in front, or -1. */
TRF__FN int32_t trf__find_tensor(const trf_file *file, const char *prefix, const char *name)
{
    char whole[192];
    snprintf(whole, sizeof whole, "%s%s%s", file->wrapper, prefix, name);
    int32_t index = trf__file_find(file, whole);
    if (index >= 0) return index;
    snprintf(whole, sizeof whole, "%stransformer.%s%s", file->wrapper, prefix, name);
    return trf__file_find(file, whole);
}

/* The file may have the tensor with another prefix before its name: then the message says so. */
TRF__FN trf_status trf__fail_lacking(const trf_file *file, const char *prefix, const trf__param *p,
                                     trf_error *err)
{
    for (int32_t i = 0; i < file->count; i++) {
        const char *other = file->entries[i].name;
        const size_t whole = strlen(other), length = strlen(p->name);
        TRF__FAIL_IF(whole > length && other[whole - length - 1] == '.' &&
                     !strcmp(other + whole - length, p->name), TRF_E_SHAPE, -1, p->name,
                     "the file lacks tensor \"%s%s\", but has \"%.60s\"; known prefixes: "
                     "transformer., module., _orig_mod.", prefix, p->name, other);
    }
    return trf__fail(err, TRF_E_SHAPE, -1, p->name,
                     "the file lacks tensor \"%s%s\" of shape (%lld, %lld)", prefix,
                     p->name, (long long)p->shape[0], (long long)p->shape[1]);
}

/* The tensors of a parameter, one a call: *number begins with 0. -1: there is no other. Programs
   store a tied matrix under any of its names, or under several. */
TRF__FN int32_t trf__next_tensor(const trf_file *file, const trf_model *model, const char *prefix,
                                 const trf__param *p, int32_t *number)
{
    static const struct { trf_tying tying; char name[20], other[20]; } names[] = {
        {TRF_TIED_ALL, "src_embed.weight", "generator.weight"},
        {TRF_TIED_ALL, "src_embed.weight", "tgt_embed.weight"},
        {TRF_TIED_DECODER, "tgt_embed.weight", "generator.weight"},
        {TRF_TIED_EMBEDDINGS, "src_embed.weight", "tgt_embed.weight"}
    };
    int32_t index = -1, i;
    while (index < 0 && (i = (*number)++) <= (int32_t)(sizeof names / sizeof *names))
        if (i == 0) index = trf__find_tensor(file, prefix, p->name);
        else if (names[i - 1].tying == model->config.tying && !strcmp(p->name, names[i - 1].name))
            index = trf__find_tensor(file, prefix, names[i - 1].other);
    return index;
}

/* The scales of a matrix in 8 bits are a tensor with its name and this. */
#define TRF__SCALE "_scale"
TRF__FN int trf__is_int8(const trf_file_entry *e) { return !strcmp(e->dtype, "I8"); }

/* Index of the scales of the rows of a matrix in 8 bits. */
TRF__FN trf_status trf__match_scales(const trf_file *file, const trf_file_entry *e, int32_t *index,
                                     trf_error *err)
{
    char name[192];
    snprintf(name, sizeof name, "%s" TRF__SCALE, e->name);
    *index = trf__file_find(file, name);
    TRF__FAIL_IF(*index < 0, TRF_E_SHAPE, (int64_t)e->begin, e->name,
                 "tensor \"%.90s\" of type I8 needs \"%.90s\", the scales of its rows", e->name,
                 name);
    const trf_file_entry *scales = &file->entries[*index];
    return TRF__OK_IF(!strcmp(scales->dtype, "F32") && scales->rank == 1 &&
                      scales->shape[0] == e->shape[0], TRF_E_SHAPE, (int64_t)scales->begin,
                      scales->name, "tensor \"%.100s\" must be of type F32 and shape (%lld)",
                      scales->name, (long long)e->shape[0]);
}

/* Checks dtype and shape of a tensor. Vectors have rank 1. */
TRF__FN trf_status trf__match_shape(const trf_file_entry *e, const trf__param *p, trf_error *err)
{
    TRF__FAIL_IF(!trf__dtype_of(e->dtype)->code && !(trf__is_int8(e) && trf__is_matrix(p->start)),
                 TRF_E_SHAPE, (int64_t)e->begin, e->name,
                 "tensor \"%.100s\" must be of type F32, F64, F16 or BF16, got %s", e->name,
                 e->dtype);
    return TRF__OK_IF(e->rank == p->rank && e->shape[0] == p->shape[0] &&
                      (p->rank == 1 || e->shape[1] == p->shape[1]), TRF_E_SHAPE,
                      (int64_t)e->begin, e->name,
                      "tensor \"%.100s\" must have rank %d and shape (%lld, %lld), got rank %d and "
                      "shape (%lld, %lld)", e->name, p->rank, (long long)p->shape[0],
                      (long long)p->shape[1], e->rank, (long long)(e->rank > 0 ? e->shape[0] : 1),
                      (long long)(e->rank > 1 ? e->shape[1] : 1));
}

/* Checks that every parameter has its tensor (with this prefix), in its shape. known[i] becomes 1
   for each tensor that a parameter uses. */
TRF__FN trf_status trf__match(const trf_file *file, const trf_model *model, const char *prefix,
                              char *known, const trf_file_entry **int8, trf_error *err)
{
    for (int32_t i = 0; i < model->layout.n_params; i++) {
        const trf__param *p = &model->layout.params[i];
        int32_t index, n = 0;
        char found = 0;
        while ((index = trf__next_tensor(file, model, prefix, p, &n)) >= 0) {
            TRF__TRY(trf__match_shape(&file->entries[index], p, err));
            known[index] = found = 1;
            if (!trf__is_int8(&file->entries[index])) continue;
            *int8 = &file->entries[index];
            TRF__TRY(trf__match_scales(file, *int8, &index, err));
            known[index] = 1;
        }
        if (!found) return trf__fail_lacking(file, prefix, p, err);
    }
    return TRF_OK;
}

/* Whether a file has a companion, of which the first parameter tells. */
TRF__FN int trf__has_companion(const trf_file *file, const trf_model *model,
                               const trf__companion *c)
{
    return !c->optional || trf__find_tensor(file, c->prefix, model->layout.params[0].name) >= 0;
}

/* Checks both directions: no parameter without a tensor, no tensor without a use. */
TRF__FN trf_status trf__match_tensors(const trf_file *file, const trf_model *model, int checkpoint,
                                      const trf_file_entry **int8, trf_error *err)
{
    const trf_hooks *hooks = &model->config.hooks;
    char *known = TRF__NEW_ZEROED(char, hooks, (size_t)file->count);
    TRF__FAIL_IF(!known, TRF_E_NOMEM, -1, "tensors", "no memory to compare %d tensors",
                 file->count);
    trf_status status = trf__match(file, model, "", known, int8, err);
    for (int32_t i = 0; !status && checkpoint && i < TRF__COMPANIONS; i++)
        if (trf__has_companion(file, model, &trf__companions[i]))
            status = trf__match(file, model, trf__companions[i].prefix, known, int8, err);
    /* vocabularies belong to no parameter, and are checked when they are read */
    for (int32_t i = 0; i < 2; i++) {
        int32_t index = trf__file_find(file, trf__vocab_names[i]);
        if (index >= 0) known[index] = 1;
    }
    for (int32_t i = 0; !status && i < file->count; i++)
        if (!known[i])
            status = trf__fail(err, TRF_E_SHAPE, (int64_t)file->entries[i].begin,
                               file->entries[i].name,
                               "tensor \"%.100s\" matches no parameter of this configuration",
                               file->entries[i].name);
    trf__free(hooks, known, (size_t)file->count);
    return status;
}

// >>store-notes    what every file of a model has besides its weights

/* Notes that models and checkpoints share. */
TRF__FN void trf__metadata_content(trf__text *notes, const trf_model *model, const char *content,
                                   int format)
{
    const trf_config *c = &model->config;
    trf__add_metadata(notes, "format", "pt");
    trf__metadata_int(notes, "trf.format", c->label_kind ? TRF__FORMAT_MORE : format);
    trf__add_metadata(notes, "trf.version", TRF_VERSION);
    trf__add_metadata(notes, "trf.content", content);
    if (model->source)
        trf__add_metadata(notes, trf__vocab_names[0], trf__kind_names[model->source->kind]);
    if (model->target)
        trf__add_metadata(notes, trf__vocab_names[1], trf__kind_names[model->target->kind]);
#define TRF__X(type, field, low, high, stored) \
    TRF__NOTE_FIELD("trf.config.", c, type, field, stored)
    TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    if (trf__is_stage(model)) {
        trf__metadata_int(notes, "trf.stage.first", model->layout.first);
        trf__metadata_int(notes, "trf.stage.end", model->layout.end);
    }
    for (int32_t i = 0; i < model->n_metadata; i++)
        trf__add_metadata(notes, model->metadata[i].key, model->metadata[i].value);
}

/* Lists the vocabularies, last in their files because their odd sizes would misalign numbers.
   Returns how many there are. */
TRF__FN int32_t trf__put_vocabs(trf__out *out, const trf_model *model)
{
    const trf_vocab *const vocabs[2] = {model->source, model->target};
    int32_t n = 0;
    for (int32_t i = 0; i < 2; i++) {
        int64_t bytes = vocabs[i] ? trf__vocab_n_bytes(vocabs[i]) : 0;
        if (vocabs[i])
            out[n++] = trf__out_of("", trf__vocab_names[i], "U8", 1, &bytes,
                                   trf__vocab_bytes(vocabs[i]), NULL);
    }
    return n;
}

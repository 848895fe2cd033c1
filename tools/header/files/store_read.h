#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/params.h"
#include "model/model.h"
#include "model/texts.h"
#include "model/copies.h"
#include "pass/packed.h"
#include "files/container.h"
#include "files/reading.h"
#include "files/writing.h"
#include "files/store.h"
#include "files/stripes.h"
#include "files/store_packed.h"

// >>store-read     weights and vocabularies of a file into a model
//
// trf__model_read is the order of loading. What can fail without reading data comes first.

/* Decides how the model keeps its matrices: by the options, but in 8 bits if a tensor is int8. */
TRF__FN trf_status trf__read_format(trf_model *model, const trf_file_entry *int8,
                                    const trf_load_options *options, trf_error *err)
{
    trf__run run = trf__run_on(&model->config.device, &model->config.hooks);
    trf_weights weights = options->weights;
    TRF__TRY(trf__check_product_weights(weights, err));
    TRF__FAIL_IF(int8 && weights == TRF_WEIGHTS_BF16, TRF_E_STATE, (int64_t)int8->begin, int8->name,
                 "tensor \"%.100s\" has 8 bits, and TRF_WEIGHTS_BF16 cannot be made of that",
                 int8->name);
    if (int8) weights = TRF_WEIGHTS_INT8;
    TRF__TRY(trf__run_weights(&run, &model->config, weights, err));
    if (weights != TRF_WEIGHTS_FULL ||
        (options->packed && run.backend->packs(&run.device, 0) == TRF__PACKS_MATRICES))
        trf__lay_out_packed(model, run.format);
    return TRF_OK;
}

/* Compares two tensors that the file has for one parameter. */
TRF__FN trf_status trf__check_same_tensor(trf_file *file, int32_t one, int32_t other, int64_t size,
                                          trf_error *err)
{
    enum { EACH = TRF__CHUNK / sizeof(trf_real) };
    const trf_file_entry *a = &file->entries[one], *b = &file->entries[other];
    const int int8 = trf__is_int8(a);
    trf_real x[EACH], y[EACH];
    int64_t n;
    int same = int8 == trf__is_int8(b);
    for (int64_t at = 0; same && at < size; at += n) {
        n = trf__min64(size - at, EACH);
        if (int8) {
            TRF__TRY(trf__file_bytes(file, one, (uint64_t)at, x, (size_t)n, err));
            TRF__TRY(trf__file_bytes(file, other, (uint64_t)at, y, (size_t)n, err));
        } else {
            TRF__TRY(trf__file_numbers(file, one, at, x, n, err));
            TRF__TRY(trf__file_numbers(file, other, at, y, n, err));
        }
        same = !memcmp(x, y, (size_t)n * (int8 ? 1 : sizeof *x));
    }
    if (same && int8) {                 /* and their scales */
        TRF__TRY(trf__match_scales(file, a, &one, err));
        TRF__TRY(trf__match_scales(file, b, &other, err));
        return trf__check_same_tensor(file, one, other, a->shape[0], err);
    }
    return TRF__OK_IF(same, TRF_E_SHAPE, -1, b->name,
                      "\"%.90s\" is tied to \"%.90s\", but its values differ", b->name, a->name);
}

/* An arena, and the companion of the weights that it is, or NULL. */
typedef struct trf__arena_of { const trf__companion *companion; trf_real *arena; } trf__arena_of;

/* Cuts the tensors of an arena into stripes; of the weights also the matrices that are packed. */
TRF__FN void trf__cut_params(trf__reading *r, const void *of)
{
    const trf__arena_of *to = (const trf__arena_of *)of;
    const trf__layout *layout = &r->model->layout;
    for (int32_t packed = 0; packed < (to->companion ? 1 : 2); packed++)
        for (int32_t i = 0; i < layout->n_params; i++) {
            const trf__param *p = &layout->params[i];
            if ((p->offset < 0) != packed) continue;
            const trf__affine *a = packed ? trf__affine_of(layout, i) : NULL;
            const char *prefix = to->companion ? to->companion->prefix : "";
            int32_t n = 0, index = trf__next_tensor(r->file, r->model, prefix, p, &n);
            if (index < 0) continue;
            const trf_file_entry *e = &r->file->entries[index];
            if (a) trf__cut_tensor(r, e, a, (char *)r->model->packed + a->packed[layout->format],
                                   a->out);
            else trf__cut_tensor(r, e, NULL, to->arena + p->offset, trf__param_size(p));
        }
}

/* Reads one arena: the weights, with those that are packed, or one of their companions. */
TRF__FN trf_status trf__read_arena(trf_file *file, const trf_model *model,
                                   const trf__companion *companion, trf_real *arena, trf_error *err)
{
    const trf__arena_of of = { companion, arena };
    trf__reading r = trf__reading_of(file, model);
    r.nonnegative = companion && companion->nonnegative;
    TRF__TRY(trf__read_tensors(&r, trf__cut_params, &of, err));
    /* a matrix that has several names in the file must be equal under all of them */
    for (int32_t i = 0; i < model->layout.n_params; i++) {
        const trf__param *p = &model->layout.params[i];
        const char *prefix = companion ? companion->prefix : "";
        int32_t n = 0, first = trf__next_tensor(file, model, prefix, p, &n), other;
        while ((other = trf__next_tensor(file, model, prefix, p, &n)) >= 0)
            TRF__TRY(trf__check_same_tensor(file, first, other, trf__param_size(p), err));
    }
    return TRF_OK;
}

/* Reads the weights, and compares the checksum. A damaged file is reported as damaged, even if its
   numbers fail another check first. */
TRF__FN trf_status trf__read_weights(trf_file *file, trf_model *model, trf_error *err)
{
    trf_error damage;
    trf_status status = trf__read_arena(file, model, NULL, model->weights, err);
    trf_status checked = trf__file_check_crc(file, status ? &damage : err);
    if (!status || checked != TRF_E_CHECKSUM) return status ? status : checked;
    *err = damage;
    return checked;
}

// >>store-texts    vocabularies and other metadata; a model from a file

/* Reads a vocabulary: files of subwords at once, tokens in pieces that can hold the longest token
   and its NUL. So memory grows with the tokens found, whatever size the file claims. */
TRF__FN trf_status trf__read_tokens(trf_file *file, const trf_file_entry *e, trf_token_kind kind,
                                    trf_vocab **vocab, const trf_hooks *hooks, trf_error *err)
{
    const int whole = trf__is_subwords(kind);
    const int64_t n = (int64_t)e->bytes, most = whole ? n : trf__min64(n, TRF__MAX_TOKEN_BYTES + 1);
    int64_t used;
    trf_vocab *made = NULL;
    char *bytes;
    TRF__ALLOC(char, bytes, hooks, most, e->name, "to read a vocabulary");
    if (whole) {
        trf_status status = trf__file_fetch(&file->from, e->begin, bytes, (size_t)n, err);
        if (!status) status = trf__vocab_from_bytes(vocab, kind, bytes, n, hooks, err);
        TRF__FREE(hooks, bytes, most);
        return status;
    }
    trf_status status = trf_vocab_create(&made, kind, hooks, err);
    for (int64_t at = used = 0; !status && at < n; at += used) {
        int64_t piece = trf__min64(most, n - at);
        status = trf__file_fetch(&file->from, e->begin + (uint64_t)at, bytes, (size_t)piece, err);
        if (!status) status = trf__vocab_insert_stored(made, bytes, piece, at, &used, err);
    }
    TRF__FREE(hooks, bytes, most);
    return trf__vocab_or_destroy(vocab, made, status);
}

/* Reads a vocabulary: a text of the metadata is its kind, a tensor of the same name its tokens. */
TRF__FN trf_status trf__read_vocab(trf_file *file, const char *name, trf_vocab **vocab,
                                   const trf_hooks *hooks, trf_error *err)
{
    const char *kind = trf_file_metadata(file, name);
    int32_t index = trf__file_find(file, name);
    trf_file_entry e = trf_file_at(file, index);
    int number = 0;
    if (!kind && index < 0) return TRF_OK;
    TRF__FAIL_IF(!kind || index < 0 || strcmp(e.dtype, "U8"), TRF_E_FORMAT, -1, name,
                 "a vocabulary needs a metadata entry and a tensor of type U8, both called %s",
                 name);
    while (number < TRF_TOKEN_KIND_COUNT && strcmp(kind, trf__kind_names[number])) number++;
    TRF__FAIL_IF(number == TRF_TOKEN_KIND_COUNT, TRF_E_UNSUPPORTED, -1, name,
                 "this version knows words, characters, sentencepiece, wordpiece and byte_bpe, got "
                 "\"%.40s\"", kind);
    return trf__read_tokens(file, &e, (trf_token_kind)number, vocab, hooks, err);
}

/* Reads both vocabularies, and checks their sizes and special ids against the configuration. */
TRF__FN trf_status trf__read_vocabs(trf_file *file, trf_model *model, trf_error *err)
{
    const trf_config *c = &model->config;
    TRF__TRY(trf__read_vocab(file, trf__vocab_names[0], &model->source, &c->hooks, err));
    TRF__TRY(trf__read_vocab(file, trf__vocab_names[1], &model->target, &c->hooks, err));
    TRF__TRY(trf__vocab_ids(c, model->source, err));
    TRF__TRY(trf__vocab_ids(c, model->target, err));
    if (trf__has_source(c))
        TRF__TRY(trf__check_vocab_size(model->source, c->source_vocab, "source_vocab", err));
    return trf__has_target(c)
        ? trf__check_vocab_size(model->target, c->target_vocab, "target_vocab", err) : TRF_OK;
}

/* Keeps texts that the library did not write: the program's own, and those of other programs. */
TRF__FN trf_status trf__read_metadata(const trf_file *file, trf_model *model, trf_error *err)
{
    const trf_hooks *hooks = &model->config.hooks;
    trf__meta *list;
    size_t texts = 0;
    trf_status status;
    int32_t n = 0;
    TRF__ALLOC(trf__meta, list, hooks, file->n_meta, "metadata", "for %d metadata entries",
               (int)file->n_meta);
    for (int32_t i = 0; i < file->n_meta; i++) {
        const trf__meta *text = (const trf__meta *)file->by_key[i];
        if (trf__our_key(text->key)) continue;
        texts += strlen(text->key) + strlen(text->value);
        list[n++] = *text;
    }
    if (n > TRF__META_LOADED || texts > TRF__META_LOADED_BYTES)
        status = trf__fail(err, TRF_E_LIMIT, n, "metadata",
                           "%d metadata entries of other programs, %llu bytes in all; the limits "
                           "are %d and %d", (int)n, (unsigned long long)texts,
                           (int)TRF__META_LOADED, (int)TRF__META_LOADED_BYTES);
    else status = trf__metadata_keep(model, list, n, err);
    TRF__FREE(hooks, list, file->n_meta);
    return status;
}

/* Loads the weights of a file of tensors into a model without weights, after all checks. */
TRF__FN trf_status trf__load_tensors(trf_file *file, trf_model *model,
                                     const trf_load_options *options, trf_error *err)
{
    const trf_file_entry *int8 = NULL;
    if (options->weights != TRF_WEIGHTS_FULL || options->packed)
        TRF__TRY(trf__check_whole(model, err));
    TRF__TRY(trf__match_tensors(file, model, trf__has_content(file, "checkpoint"), &int8, err));
    TRF__TRY(trf__read_format(model, int8, options, err));
    TRF__TRY(model->layout.packed ? trf__packed_weights(model, &model->run, err)
                                  : trf__model_weights(model, err));
    return trf__read_weights(file, model, err);
}

/* Makes a model from an open file: configuration, weights, vocabularies, other metadata. */
TRF__FN trf_status trf__model_read(trf_model **out, trf_file *file, const trf_load_options *options,
                                   trf_error *err)
{
    trf_config config;
    trf_model *model;
    int64_t first, end;
    TRF__TRY(trf__read_config(file, options, &config, err));
    TRF__TRY(trf__read_stage(file, &config, &first, &end, err));
    TRF__TRY(trf__stage_without_weights(&model, &config, (int32_t)first, (int32_t)end, err));
    trf__find_wrapper(file);
    trf_status status = trf__has_content(file, "packed")
                      ? trf__load_packed(file, model, options, err)
                      : trf__load_tensors(file, model, options, err);
    if (status == TRF_OK) status = trf__read_vocabs(file, model, err);
    if (status == TRF_OK) status = trf__read_metadata(file, model, err);
    if (status != TRF_OK) { trf_model_destroy(model); return status; }
    trf__warn_if_slow(model);
    *out = model;
    return TRF_OK;
}

TRF_API trf_status trf_model_load(trf_model **model, const char *path,
                                  const trf_load_options *options, trf_error *err)
{
    trf_error own;
    trf_load_options defaults = trf_load_defaults();
    trf_file *file;
    if (!err) err = &own;       /* trf__file_fault reads it */
    TRF__BEGIN_NEW(model);
    if (!options) options = &defaults;
    TRF__TRY(trf__device_check(&options->device, err));
    TRF__TRY(trf_file_open(&file, path, options, err));
    trf_status status = trf__model_read(model, file, options, err);
    trf_file_close(file);
    return trf__name_file(status, path ? path : "memory", err);
}

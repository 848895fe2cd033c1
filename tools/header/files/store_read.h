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
#include "files/store_packed.h"

// >>store-small    matrices that are packed while they are read
//
// Some rows of a matrix are read, widened to floats and packed, then the next rows. So the floats
// of a whole matrix never exist.

enum { TRF__ROWS_READ = 1 << 16 };      /* at least so many numbers are read at a time */
#define TRF__INT8_LEAST 1e-33           /* the smallest scale: its inverse is finite */

/* Reads `rows` rows of a matrix from row `first` on, and of one in 8 bits their scales. */
TRF__FN trf_status trf__read_rows(trf_file *file, int32_t index, int64_t first, int64_t rows,
                                  int64_t in, trf_real *to, trf_real *scales, trf_error *err)
{
    const trf_file_entry *e = &file->entries[index];
    int8_t chunk[TRF__CHUNK];
    const int8_t *bad;
    int64_t at, n, i, k, end = (first + rows) * in;
    int32_t of;
    if (!trf__is_int8(e)) return trf__file_numbers(file, index, first * in, to, rows * in, err);
    TRF__TRY(trf__match_scales(file, e, &of, err));
    TRF__TRY(trf__file_numbers(file, of, first, scales, rows, err));
    for (i = 0; i < rows; i++)
        if (!(scales[i] >= (trf_real)TRF__INT8_LEAST && scales[i] <= (trf_real)(FLT_MAX / 128)))
            return trf__fail(err, TRF_E_FORMAT, first + i, file->entries[of].name,
                             "tensor \"%.100s\": scale %lld must be between %g and %g, got %g",
                             file->entries[of].name, (long long)(first + i), TRF__INT8_LEAST,
                             FLT_MAX / 128.0, (double)scales[i]);
    for (at = first * in; at < end; at += n) {
        n = trf__min64((int64_t)sizeof chunk, end - at);
        TRF__TRY(trf__file_bytes(file, index, (uint64_t)at, chunk, (size_t)n, err));
        bad = (const int8_t *)memchr(chunk, 0x80, (size_t)n);
        if (bad) {
            i = bad - chunk;
            return trf__fail(err, TRF_E_FORMAT, at + i, e->name,
                             "tensor \"%.100s\": number %lld must be between -127 and 127, got "
                             "-128", e->name, (long long)(at + i));
        }
        for (i = 0; i < n; i += k) {            /* the rest of a row, as far as it is here */
            const trf_real scale = scales[(at + i) / in - first];
            int64_t j, l;
            k = trf__min64(n - i, in - (at + i) % in);
            /* compilers use vectors for a number of turns that they know */
            for (j = 0; j + TRF__WIDE <= k; j += TRF__WIDE)
                for (l = 0; l < TRF__WIDE; l++) to[j + l] = (trf_real)chunk[i + j + l] * scale;
            for (; j < k; j++) to[j] = (trf_real)chunk[i + j] * scale;
            to += k;
        }
    }
    return TRF_OK;
}

/* Buffers for some rows of a matrix, on the host and on the device: `numbers` floats, then as much
   room for scales. Both are one if the device shares the host's memory. */
typedef struct trf__row_buffers {
    trf_real *host, *device;
    int64_t numbers;
} trf__row_buffers;

/* Reads one tensor into panels, sixteen rows or more at a time: its floats never exist together. */
TRF__FN trf_status trf__read_packed(trf_file *file, int32_t index, const trf_model *model,
                                    const trf__run *run, const trf__affine *a,
                                    const trf__row_buffers *work, trf_error *err)
{
    const int format = model->layout.format, scaled = trf__is_int8(&file->entries[index]);
    int64_t first, rows, each = trf__max64(16, work->numbers / a->in / 16 * 16);
    for (first = 0; first < a->out; first += rows) {
        trf__pack pack = { (char *)model->packed + a->packed[format] +
                           run->backend->packed_bytes(format, first, a->in), work->device, 0, a->in,
                           format, scaled ? work->device + work->numbers : NULL };
        pack.out = rows = trf__min64(each, a->out - first);
        TRF__TRY(trf__read_rows(file, index, first, rows, a->in, work->host,
                                work->host + work->numbers, err));
        if (work->device != work->host) {
            run->backend->upload(run, work->device, work->host,
                                 (size_t)(work->numbers + rows) * sizeof *work->host);
            TRF__TRY(run->backend->sync(run, err));
        }
        run->backend->pack(run, &pack);
    }
    return TRF_OK;
}

/* Another name of a tied matrix must have the same numbers. */
TRF__FN trf_status trf__same_matrix(trf_file *file, int32_t one, int32_t other,
                                    const trf__affine *a, const trf__row_buffers *work,
                                    trf_error *err)
{
    trf_real *x = work->host, *y = work->host + work->numbers;
    int64_t first, rows, each = work->numbers / (a->in + 1);    /* a row, and its scale */
    for (first = 0; first < a->out; first += rows) {
        rows = trf__min64(each, a->out - first);
        TRF__TRY(trf__read_rows(file, one, first, rows, a->in, x, x + rows * a->in, err));
        TRF__TRY(trf__read_rows(file, other, first, rows, a->in, y, y + rows * a->in, err));
        if (memcmp(x, y, trf__bytes(rows * a->in, sizeof *x)))
            return trf__fail(err, TRF_E_SHAPE, -1, file->entries[other].name,
                             "\"%.90s\" is tied to \"%.90s\", but its values differ",
                             file->entries[other].name, file->entries[one].name);
    }
    return TRF_OK;
}

/* Reads all matrices of a packed model. */
TRF__FN trf_status trf__read_matrices(trf_file *file, const trf_model *model, const trf__run *run,
                                      const trf__row_buffers *work, trf_error *err)
{
    const trf__layout *layout = &model->layout;
    int32_t i, n;
    for (i = 0; i < layout->n_params; i++) {
        const trf__param *p = &layout->params[i];
        const trf__affine *a = trf__affine_of(layout, i);
        const char *name = p->name;
        int32_t read = -1;
        if (p->offset >= 0) continue;
        for (n = 0; name; name = trf__alias(&model->config, p, n++)) {
            int32_t index = trf__find_tensor(file, "", name);
            if (index < 0) continue;
            if (read >= 0) TRF__TRY(trf__same_matrix(file, read, index, a, work, err));
            else TRF__TRY(trf__read_packed(file, index, model, run, a, work, err));
            read = index;
        }
    }
    return run->backend->sync(run, err);
}

/* Reads the matrices of a packed model: opens its device, and allocates buffers for some rows. */
TRF__FN trf_status trf__read_small(trf_file *file, trf_model *model, trf_error *err)
{
    trf__run run = trf__run_on(&model->config.device, &model->config.hooks);
    trf__row_buffers work;
    trf_status status;
    size_t bytes;
    int32_t i;
    if (!model->packed) return TRF_OK;
    TRF__ZERO(work);
    work.numbers = TRF__ROWS_READ;
    for (i = 0; i < model->layout.n_params; i++)
        if (model->layout.params[i].offset < 0)
            work.numbers = trf__max64(work.numbers, 16 * model->layout.params[i].shape[1]);
    bytes = trf__bytes(2 * work.numbers, sizeof *work.host);
    TRF__TRY(run.backend->open(&run, err));
    work.device = (trf_real *)run.backend->alloc(&run, bytes);
    work.host = work.device ? (trf_real *)trf__shared_address(&run, work.device) : NULL;
    if (!work.host) work.host = (trf_real *)trf__alloc(&run.hooks, bytes);
    status = work.device && work.host ? trf__read_matrices(file, model, &run, &work, err)
        : trf__fail(err, TRF_E_NOMEM, -1, "weights", "no memory to read weights");
    if (work.host != work.device) trf__free(&run.hooks, work.host, bytes);
    run.backend->release(&run, work.device, bytes);
    run.backend->close(&run);
    return status;
}

/* Decides how the model keeps its matrices: as the options say, but in 8 bits if a tensor of the
   file, int8, has them. */
TRF__FN trf_status trf__read_format(trf_model *model, const trf_file_entry *int8,
                                    const trf_load_options *options, trf_error *err)
{
    trf__run run = trf__run_on(&model->config.device, &model->config.hooks);
    trf_weights weights = options->weights;
    TRF__TRY(trf__check_product_weights(weights, err));
    if (int8 && weights == TRF_WEIGHTS_BF16)
        return trf__fail(err, TRF_E_STATE, (int64_t)int8->begin, int8->name,
                         "tensor \"%.100s\" has 8 bits, and TRF_WEIGHTS_BF16 cannot be made of "
                         "that", int8->name);
    if (int8) weights = TRF_WEIGHTS_INT8;
    TRF__TRY(trf__run_weights(&run, &model->config, weights, err));
    if (weights != TRF_WEIGHTS_FULL ||
        (options->packed && run.backend->packs(&run.device, 0) == TRF__PACKS_MATRICES))
        trf__lay_out_packed(model, run.format);
    return TRF_OK;
}

// >>store-read     weights and vocabularies of a file into a model
//
// trf__model_read is the order of loading. Everything that can fail without reading data comes
// first.

/* Reads one tensor into a parameter. If the parameter has been read already (have), compares it
   with the tensor instead. */
TRF__COLD
TRF__FN trf_status trf__read_param(trf_file *file, int32_t index, const trf_model *model,
                                   trf_real *arena, const trf__param *p, int nonnegative, int have,
                                   trf_error *err)
{
    trf_real numbers[TRF__CHUNK / sizeof(trf_real)], there[TRF__CHUNK / sizeof(trf_real)];
    const char *name = trf_file_at(file, index).name;
    int64_t at, n, i, size = trf__param_size(p);
    trf_real *place = have ? NULL : (trf_real *)trf__shared_address(&model->run, arena + p->offset);
    for (at = 0; at < size; at += n) {
        trf_real *x = place ? place + at : numbers;     /* where the host may write at once */
        n = trf__min64(size - at, place ? 1 << 18 : (int64_t)(sizeof numbers / sizeof *numbers));
        TRF__TRY(trf_file_read(file, index, at, x, n, err));
        for (i = 0; nonnegative && i < n; i++)
            if (!(x[i] >= 0))
                return trf__fail(err, TRF_E_STATE, at + i, name,
                                 "a second moment must not be negative, got %g", (double)x[i]);
        if (place) continue;
        if (!have) { trf__arena_put(model, arena, p->offset + at, numbers, n); continue; }
        TRF__TRY(trf__arena_get(model, arena, p->offset + at, there, n, err));
        if (!memcmp(numbers, there, (size_t)n * sizeof *there)) continue;
        return trf__fail(err, TRF_E_SHAPE, -1, name,
                         "\"%.90s\" is tied to \"%s\", but its values differ", name, p->name);
    }
    return TRF_OK;
}

/* Reads one arena: the weights, or with `of` one of their companions. A matrix that has several
   names in the file must be equal under all of them. */
TRF__FN trf_status trf__read_arena(trf_file *file, const trf_model *model,
                                   const trf__companion *of, trf_real *arena, trf_error *err)
{
    const char *prefix = of ? of->prefix : "";
    int32_t i, n;
    for (i = 0; i < model->layout.n_params; i++) {
        const trf__param *p = &model->layout.params[i];
        const char *name = p->name;
        int have = 0;
        if (p->offset < 0) continue;
        for (n = 0; name; name = trf__alias(&model->config, p, n++)) {
            int32_t index = trf__find_tensor(file, prefix, name);
            if (index < 0) continue;
            TRF__TRY(trf__read_param(file, index, model, arena, p, of && of->nonnegative, have,
                                     err));
            have = 1;
        }
    }
    return model->run.backend->sync(&model->run, err);
}

/* Reads the weights, and compares the checksum. A damaged file is reported as damaged, even if its
   numbers fail another check first. */
TRF__FN trf_status trf__read_weights(trf_file *file, trf_model *model, trf_error *err)
{
    trf_error damage;
    trf_status status, checked;
    if (trf_file_metadata(file, "trf.crc32")) trf__file_sum(file);
    status = trf__read_arena(file, model, NULL, model->weights, err);
    if (!status) status = trf__read_small(file, model, err);
    checked = trf__file_check_crc(file, status ? &damage : err);
    if (!status || checked != TRF_E_CHECKSUM) return status ? status : checked;
    *err = damage;
    return checked;
}

/* Reads a vocabulary: files of subwords at once, tokens in pieces that can hold the longest token
   and its NUL. Memory for tokens thus grows with the tokens found, whatever size the file
   claims. */
TRF__FN trf_status trf__read_tokens(trf_file *file, const trf_file_entry *e, trf_token_kind kind,
                                    trf_vocab **vocab, const trf_hooks *hooks, trf_error *err)
{
    int64_t n = (int64_t)e->bytes, most = n, at, used;
    trf_vocab *made = NULL;
    trf_status status = TRF_OK;
    int whole = trf__is_subwords(kind);
    size_t work;
    char *bytes;
    if (!whole) most = trf__min64(n, TRF__MAX_TOKEN_BYTES + 1);
    work = trf__bytes(most, 1);
    bytes = (char *)trf__alloc(hooks, work);
    if (!bytes) return trf__fail(err, TRF_E_NOMEM, -1, e->name, "no memory to read a vocabulary");
    if (whole) {
        status = trf__file_fetch(&file->from, e->begin, bytes, (size_t)n, err);
        if (!status) status = trf__vocab_from_bytes(vocab, kind, bytes, n, hooks, err);
        trf__free(hooks, bytes, work);
        return status;
    }
    status = trf_vocab_create(&made, kind, hooks, err);
    for (at = used = 0; !status && at < n; at += used) {
        int64_t piece = trf__min64(most, n - at);
        status = trf__file_fetch(&file->from, e->begin + (uint64_t)at, bytes, (size_t)piece, err);
        if (!status) status = trf__vocab_insert_stored(made, bytes, piece, at, &used, err);
    }
    trf__free(hooks, bytes, work);
    return trf__vocab_finished(vocab, made, status);
}

/* Reads a vocabulary: a text of the metadata is its kind, a tensor of the same name its tokens. */
TRF__COLD
TRF__FN trf_status trf__read_vocab(trf_file *file, const char *name, trf_vocab **vocab,
                                   const trf_hooks *hooks, trf_error *err)
{
    const char *kind = trf_file_metadata(file, name);
    int32_t index = trf__file_find(file, name);
    trf_file_entry e = trf_file_at(file, index);
    int number;
    if (!kind && index < 0) return TRF_OK;
    if (!kind || index < 0 || strcmp(e.dtype, "U8"))
        return trf__fail(err, TRF_E_FORMAT, -1, name,
                         "a vocabulary needs a metadata entry and a tensor of type U8, both called "
                         "%s", name);
    for (number = 0; number < TRF_TOKEN_KIND_COUNT && strcmp(kind, trf__kind_names[number]);
         number++) { }
    if (number == TRF_TOKEN_KIND_COUNT)
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, name,
                         "this version knows words, characters, sentencepiece, wordpiece and "
                         "byte_bpe, got \"%.40s\"", kind);
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
        TRF__TRY(trf__vocab_fits(model->source, c->source_vocab, "source_vocab", err));
    return trf__has_target(c) ? trf__vocab_fits(model->target, c->target_vocab, "target_vocab", err)
        : TRF_OK;
}

/* Keeps texts that the library did not write: the program's own, and those of other programs. */
TRF__FN trf_status trf__read_metadata(const trf_file *file, trf_model *model, trf_error *err)
{
    size_t bytes = trf__bytes(file->n_meta, sizeof(trf__meta));
    trf__meta *list = (trf__meta *)trf__alloc(&model->config.hooks, bytes);
    size_t texts = 0;
    trf_status status;
    int32_t i, n = 0;
    if (!list)
        return trf__fail(err, TRF_E_NOMEM, -1, "metadata", "no memory for %d metadata entries",
                         (int)file->n_meta);
    for (i = 0; i < file->n_meta; i++) {
        const trf__meta *text = (const trf__meta *)file->by_key[i];
        if (trf__our_key(text->key)) continue;
        texts += strlen(text->key) + strlen(text->value);
        list[n++] = *text;
    }
    if (n > TRF__META_LOADED || texts > TRF__META_LOADED_BYTES)
        status = trf__fail(err, TRF_E_LIMIT, n, "metadata",
                           "%d metadata entries of other programs, %llu bytes in all; the limits "
                           "are %d and %d",
                           (int)n, (unsigned long long)texts, (int)TRF__META_LOADED,
                           (int)TRF__META_LOADED_BYTES);
    else status = trf__metadata_keep(model, list, n, err);
    trf__free(&model->config.hooks, list, bytes);
    return status;
}

/* Loads the weights of a file of tensors into a model without weights, after checking all of
   them. */
TRF__FN trf_status trf__load_tensors(trf_file *file, trf_model *model,
                                     const trf_load_options *options, trf_error *err)
{
    const trf_file_entry *int8 = NULL;
    if (options->weights != TRF_WEIGHTS_FULL || options->packed)
        TRF__TRY(trf__needs_whole(model, err));
    TRF__TRY(trf__match_tensors(file, model, trf__is_checkpoint(file), &int8, err));
    TRF__TRY(trf__read_format(model, int8, options, err));
    TRF__TRY(model->layout.packed ? trf__packed_weights(model, &model->run, err)
                                  : trf__model_weights(model, err));
    return trf__read_weights(file, model, err);
}

/* Makes a model from an open file: configuration, weights, vocabularies, other metadata. */
TRF__COLD
TRF__FN trf_status trf__model_read(trf_model **out, trf_file *file, const trf_load_options *options,
                                   trf_error *err)
{
    trf_config config;
    trf_model *model;
    trf_status status;
    int64_t first, end;
    TRF__TRY(trf__read_config(file, options, &config, err));
    TRF__TRY(trf__read_stage(file, &config, &first, &end, err));
    TRF__TRY(trf__stage_without_weights(&model, &config, (int32_t)first, (int32_t)end, err));
    trf__find_wrapper(file);
    if (trf__is_packed(file)) status = trf__load_packed(file, model, options, err);
    else status = trf__load_tensors(file, model, options, err);
    if (status == TRF_OK) status = trf__read_vocabs(file, model, err);
    if (status == TRF_OK) status = trf__read_metadata(file, model, err);
    if (status != TRF_OK) { trf_model_destroy(model); return status; }
    trf__warn_if_slow(model);
    *out = model;
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_model_load(trf_model **model, const char *path,
                                  const trf_load_options *options, trf_error *err)
{
    trf_error own;
    trf_load_options defaults = trf_load_defaults();
    trf_file *file;
    trf_status status;
    if (!err) err = &own;       /* trf__file_fault reads it */
    TRF__TRY(trf__begin(model, "model", err));
    *model = NULL;
    if (!options) options = &defaults;
    TRF__TRY(trf__device_check(&options->device, err));
    TRF__TRY(trf_file_open(&file, path, options, err));
    status = trf__model_read(model, file, options, err);
    trf_file_close(file);
    return trf__name_file(status, path ? path : "memory", err);
}

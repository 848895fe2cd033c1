#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/model.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "system/text.h"
#include "system/files.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/texts.h"
#include "text/vocab_use.h"
#include "pass/packed.h"
#include "files/container.h"
#include "files/reading.h"
#include "files/writing.h"
#include "files/store.h"
#include "files/stripes.h"

// >>store-packed   a packed model as it lies in memory, mapped when it is loaded
//
//   tensors        trf.matrices and trf.numbers, of type U8: the packed matrices and everything
//                  else, as they lie in memory; then the vocabularies
//   __metadata__   trf.format = 11; trf.content = packed; trf.packed = full, bf16 or int8;
//                  trf.packed.order = little or big, the byte order; trf.packed.layout, below; and
//                  the rest as in a model's file
//
// Loading maps the file read-only: no number is copied, and all processes share its pages. Nothing
// but the header is verified then. Such a file is a cache. Its layout number is a checksum of where
// each parameter lies, and of the bytes of a small matrix as this library packs it: whatever
// changes either also changes the number, and the file is refused.

static const char *const trf__packed_names[2] = {"trf.matrices", "trf.numbers"};
static const char *const trf__packed_formats[TRF__FORMATS] = {"full", "bf16", "int8"};
static const trf_weights trf__packed_weights_of[TRF__FORMATS] = {
    TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8
};

/* The layout number of a packed model. The small matrix ends inside a panel in both directions. Its
   numbers are whole, and 127 in each row the largest, so that every format holds them exactly. */
TRF__FN trf_status trf__packed_layout(const trf_model *model, char text[16], trf_error *err)
{
    enum { ROWS = 18, COLUMNS = 70 };
    const trf__layout *layout = &model->layout;
    const int format = layout->format;
    trf__run run = trf__run_on(&model->config.device, &model->config.hooks);
    trf_real numbers[ROWS * COLUMNS];
    trf__crc crc;
    run.device.threads = 1;
    run.backend = trf__host_backend(run.device.vector_bytes);
    size_t bytes = run.backend->packed_bytes(format, ROWS, COLUMNS);
    for (int32_t i = 0; i < ROWS * COLUMNS; i++)
        numbers[i] = (trf_real)(i % COLUMNS ? i * 37 % 255 - 127 : 127);
    trf__pack pack = trf__pack_of(trf__alloc_zeroed(&run.hooks, bytes), numbers, ROWS, COLUMNS,
                                  format);
    TRF__FAIL_IF(!pack.packed, TRF_E_NOMEM, -1, "weights", "no memory to pack");
    trf_status status = run.backend->open(&run, err);
    if (!status) {
        run.backend->pack(&run, &pack);
        run.backend->close(&run);
        trf__crc_begin(&crc);
        trf__crc_add(&crc, pack.packed, bytes);
        for (int32_t i = 0; i < layout->n_params; i++) {
            int64_t at = layout->params[i].offset;
            if (at < 0) at = (int64_t)trf__affine_of(layout, i)->packed[format];
            trf__crc_add(&crc, &at, sizeof at);
        }
        snprintf(text, 16, "%08lx", (unsigned long)crc.value);
    }
    trf__free(&run.hooks, pack.packed, bytes);
    return status;
}

TRF__FN const char *trf__byte_order(void) { return trf__is_little() ? "little" : "big"; }

/* The two arenas of a packed model, as bytes. */
TRF__FN int64_t trf__packed_extent(const trf_model *model, int numbers)
{
    return (int64_t)(numbers ? trf__bytes(model->layout.n_weights, sizeof(trf_real))
                             : model->layout.packed_bytes[model->layout.format]);
}

typedef struct trf__packed_notes { const trf_model *model; char layout[16]; } trf__packed_notes;

TRF__FN void trf__metadata_packed(trf__text *notes, const void *of)
{
    const trf__packed_notes *packed = (const trf__packed_notes *)of;
    trf__metadata_content(notes, packed->model, "packed", TRF__FORMAT_PACKED);
    trf__add_metadata(notes, "trf.packed", trf__packed_formats[packed->model->layout.format]);
    trf__add_metadata(notes, "trf.packed.order", trf__byte_order());
    trf__add_metadata(notes, "trf.packed.layout", packed->layout);
}

/* Writes a packed model as it lies in memory. */
TRF__FN trf_status trf__write_packed(const trf_model *model, const trf__destination *to,
                                     trf_weights weights, trf_error *err)
{
    const void *const arenas[2] = {model->packed, model->weights};
    trf__out out[4];
    int32_t n = 0;
    TRF__FAIL_IF(weights != TRF_WEIGHTS_FULL &&
                 weights != trf__packed_weights_of[model->layout.format], TRF_E_STATE, -1,
                 "weights", "the model is packed (%s): it can only be saved as it is",
                 trf__packed_formats[model->layout.format]);
    trf__packed_notes notes = { model, "" };
    TRF__TRY(trf__packed_layout(model, notes.layout, err));
    for (int32_t i = 0; i < 2; i++) {
        int64_t bytes = trf__packed_extent(model, i);
        out[n++] = trf__out_of("", trf__packed_names[i], "U8", 1, &bytes, arenas[i], &model->run);
    }
    n += trf__put_vocabs(out + n, model);
    return trf__file_write(&model->config.hooks, to, out, n, trf__metadata_packed, &notes, err);
}

/* Lays the model out as the file has it. */
TRF__FN trf_status trf__match_packed(const trf_file *file, trf_model *model, trf_error *err)
{
    const char *packed = trf_file_metadata(file, "trf.packed");
    const char *order = trf_file_metadata(file, "trf.packed.order");
    const char *layout = trf_file_metadata(file, "trf.packed.layout");
    trf__run run = trf__run_on(&model->config.device, &model->config.hooks);
    char wanted[16];
    int format = 0;
    while (format < TRF__FORMATS && (!packed || strcmp(packed, trf__packed_formats[format])))
        format++;
    TRF__FAIL_IF(format == TRF__FORMATS || !order || !layout, TRF_E_FORMAT, -1, "trf.packed",
                 "expected trf.packed full, bf16 or int8, an order and a layout, got %.20s",
                 packed ? packed : "none");
    TRF__TRY(trf__run_weights(&run, &model->config, trf__packed_weights_of[format], err));
    TRF__FAIL_IF(run.backend->packs(&run.device, 0) != TRF__PACKS_MATRICES, TRF_E_UNSUPPORTED, -1,
                 "device",
                 "the device %s cannot use a packed file: load the file that it was made of",
                 run.backend->name);
    trf__lay_out_packed(model, format);
    TRF__TRY(trf__packed_layout(model, wanted, err));
    return TRF__OK_IF(!strcmp(order, trf__byte_order()) && !strcmp(layout, wanted),
                      TRF_E_UNSUPPORTED, -1, "trf.packed.layout",
                      "a packed file of layout %.20s, %.10s-endian; this program reads %s, "
                      "%s-endian: make it again with trf quantize --packed, or trf_model_pack and "
                      "trf_model_save", layout, order, wanted, trf__byte_order());
}

/* The entry of an arena, which must have the model's size. */
TRF__FN trf_status trf__packed_entry(const trf_file *file, const trf_model *model, int numbers,
                                     const trf_file_entry **entry, trf_error *err)
{
    int32_t index = trf__file_find(file, trf__packed_names[numbers]);
    int64_t bytes = trf__packed_extent(model, numbers);
    const trf_file_entry *e = index < 0 ? NULL : &file->entries[index];
    *entry = e;
    return TRF__OK_IF(e && !strcmp(e->dtype, "U8") && e->rank == 1 && e->bytes == (uint64_t)bytes,
                      TRF_E_SHAPE, e ? (int64_t)e->begin : -1, trf__packed_names[numbers],
                      "expected a tensor \"%s\" of %lld bytes, type U8, got %s",
                      trf__packed_names[numbers], (long long)bytes, e ? "another one" : "none");
}

/* Maps the file, and puts the model's arenas there. 0: that cannot be, and they are read. */
TRF__FN int trf__map_packed(const trf_file *file, trf_model *model,
                            const trf_file_entry *const arenas[2])
{
    if (file->from.fd < 0 || !model->run.backend->on_host || file->from.size > SIZE_MAX ||
        arenas[0]->begin % 64 || arenas[1]->begin % 64) return 0;
    char *map = (char *)TRF_OS(map)(file->from.fd, (size_t)file->from.size);
    if (!map) return 0;
    model->map = map;
    model->map_bytes = (size_t)file->from.size;
    model->packed = map + arenas[0]->begin;
    model->packed_bytes = (size_t)arenas[0]->bytes;
    model->weights = (trf_real *)(void *)(map + arenas[1]->begin);
    return 1;
}

/* Cuts both arenas into stripes. Their bytes are read as they are. */
TRF__FN void trf__cut_arenas(trf__reading *r, const void *of)
{
    const trf_file_entry *const *arenas = (const trf_file_entry *const *)of;
    trf__cut_tensor(r, arenas[0], NULL, r->model->packed, (int64_t)arenas[0]->bytes);
    trf__cut_tensor(r, arenas[1], NULL, r->model->weights, (int64_t)arenas[1]->bytes);
}

/* Loads the arenas of a packed file into a model without weights. */
TRF__FN trf_status trf__load_packed(trf_file *file, trf_model *model,
                                    const trf_load_options *options, trf_error *err)
{
    const trf_file_entry *arenas[2] = {NULL, NULL};
    trf__run run = trf__run_on(&model->config.device, &model->config.hooks);
    int32_t known = 2;
    TRF__TRY(trf__check_product_weights(options->weights, err));
    TRF__TRY(trf__match_packed(file, model, err));
    if (options->weights != TRF_WEIGHTS_FULL) {
        TRF__TRY(trf__run_weights(&run, &model->config, options->weights, err));
        TRF__TRY(trf__check_packed(model, &run, err));
    }
    for (int32_t i = 0; i < 2; i++) {
        TRF__TRY(trf__packed_entry(file, model, i, &arenas[i], err));
        known += trf__file_find(file, trf__vocab_names[i]) >= 0;
    }
    TRF__FAIL_IF(file->count != known, TRF_E_SHAPE, file->count, "tensors",
                 "expected %d tensors in a packed file, got %d", (int)known, (int)file->count);
    if (!options->map || !trf__map_packed(file, model, arenas)) {
        trf__reading reading = trf__reading_of(file, model);
        TRF__TRY(trf__packed_weights(model, &model->run, err));
        TRF__TRY(trf__read_tensors(&reading, trf__cut_arenas, arenas, err));
    }
    return !model->map || options->verify ? trf__file_check_crc(file, err) : TRF_OK;
}

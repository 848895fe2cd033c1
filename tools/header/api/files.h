#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "api/batch.h"

// -----------------------------------------------------------------------------------------------
// >>api-token-files  training data larger than memory
//
// A token file has pairs of ids. It is written once. A corpus then reads the pairs of each batch:
//
//     trf_token_file_create(&file, "pairs.tokens", &options, &err);
//     trf_token_file_add(file, source, n_source, target, n_target, line, &err);   for each pair
//     trf_token_file_finish(file, &err);
//     trf_token_file_destroy(file);
//     corpus_options.path = "pairs.tokens";
//     trf_corpus_create(&corpus, &corpus_options, &err);
//
// `trf prepare` writes token files from texts. >>token-files has the format, one for all machines.
// -----------------------------------------------------------------------------------------------

/* NULL, or a struct of zeros: the defaults. */
typedef struct trf_token_file_options {
    const trf_vocab *source_vocab, *target_vocab;   /* of the ids. The file has their fingerprints:
                                   with other vocabularies it cannot be opened. Borrowed for the
                                   call. default NULL: no fingerprint */
    int32_t id_bytes;           /* size of an id in the file. 2: ids below 65,535; 4: all ids.
                                   0: 4; default 0 */
    int32_t max_length;         /* pairs with more ids on a side are rejected. Below 65,536 a length
                                   has two bytes in files and in memory, else four. >= 1; 0: 511;
                                   default 0 */
    int32_t resume;             /* 1: continues a file that was not finished; default 0 */
    trf_hooks hooks;            /* default none; `cancel` is called while a file is continued */
} trf_token_file_options;

typedef struct trf_token_file trf_token_file;
/* Begins a file. Until trf_token_file_finish its name is `path` with ".part" behind it. An older
   file at `path` stays until then; one at path.part is replaced, or, with `resume`, continued:

     - Pairs are written in blocks of up to 1,024. The first block that is damaged, cut or not full
       is dropped, with all that follow. Every pair that stays is read and checked.
     - trf_token_file_facts tells how many pairs there are, and the mark of the last one. Add the
       pairs after it. The finished file then has the same bytes as one without interruption.
     - Without a file at path.part a new one begins.

   TRF_E_STATE: path.part was begun with other options or vocabularies, or another process writes
   it. TRF_E_IO: it cannot be read or written. */
TRF_API trf_status trf_token_file_create(trf_token_file **file, const char *path,
                                         const trf_token_file_options *options, trf_error *err);
/* Adds one pair; the target may hold labels. mark: a number of your own, with which you can
   continue after an interruption, for example how many lines have been read. Fails as
   trf_corpus_add does. TRF_E_LIMIT: an id is too large for id_bytes; `where` is its index.
   TRF_E_IO: the disk is full. Then every call fails with TRF_E_STATE; the file can be continued. */
TRF_API trf_status trf_token_file_add(trf_token_file *file, const int32_t *source, int32_t n_source,
                                      const int32_t *target, int32_t n_target, int64_t mark,
                                      trf_error *err);
/* Writes what is left, flushes the file to the disk and gives it its name. TRF_E_STATE: a resumed
   file was longer, so its pairs were others. TRF_E_IO: path.part was removed or replaced meanwhile;
   what has its name now stays. */
TRF_API trf_status trf_token_file_finish(trf_token_file *file, trf_error *err);
/* Without trf_token_file_finish, path.part stays. */
TRF_API void trf_token_file_destroy(trf_token_file *file);
/* What the pairs so far are, and the mark of the last one. NULL: file is NULL. */
TRF_API const trf_token_facts *trf_token_file_facts(const trf_token_file *file);

// -----------------------------------------------------------------------------------------------
// >>api-files      safetensors, and how a model is written in it
//
// A model file is a safetensors file: the parameters under their names, vocabularies as tensors of
// bytes, the configuration and your own texts as metadata. >>store describes it field by field.
//   - Weights may be F32, F64, F16 or BF16; those of matrices may be I8, with the scales of their
//     rows as a tensor NAME_scale of type F32. A model with I8 weights is packed (trf_model_pack).
//   - If all names begin with `module.` or `_orig_mod.`, that prefix is removed first. After that,
//     names may have the prefix `transformer.`.
//   - The CRC-32 of the data is checked if the file has one.
//   - trf_model_load reads the model of a checkpoint and ignores the rest.
// The message of an error about a file begins with its path, or with the last hundred bytes of it.
// -----------------------------------------------------------------------------------------------

typedef struct trf_load_options {
    const trf_config *config;   /* needed (else TRF_E_INVALID_ARG) for files without our metadata,
                                   such as PyTorch state_dicts; others ignore it. Its device and
                                   hooks are ignored. default NULL */
    uint64_t max_bytes;         /* larger files fail with TRF_E_LIMIT; >= 1; default 64 GiB */
    int32_t allow_nonfinite;    /* 1: weights may be infinite or NaN; 0: TRF_E_NONFINITE;
                                   default 0 */
    trf_weights weights;        /* BF16 or INT8: the model is packed while it is read
                                   (trf_model_pack), and its floats never exist. FULL: the model
                                   has floats, unless the file has 8-bit weights.
                                   default TRF_WEIGHTS_FULL */
    int32_t packed;             /* 1: with FULL too the model is packed while it is read, where the
                                   device packs: its matrices exist once, but it cannot be trained.
                                   default 0 */
    int32_t map;                /* 1: a packed file is mapped (trf_model_save); 0: it is read, and
                                   its checksum compared. default 1 */
    int32_t verify;             /* 1: the checksum of a mapped file is compared, which reads all of
                                   it. default 0 */
    const void *memory;         /* in place of a path, which is NULL then: the bytes of a file.
                                   trf_file_open borrows them until trf_file_close; the other calls
                                   copy what they need. Messages begin with "memory".
                                   default NULL */
    size_t memory_bytes;        /* how many; default 0 */
    trf_device device;          /* of the model. Its threads read a file of more than 4 MiB
                                   together. default trf_device_default() */
    trf_hooks hooks;            /* default none */
} trf_load_options;

TRF_API trf_load_options trf_load_defaults(void);
/* Loads a model. TRF_E_FORMAT: not a safetensors file, or a damaged one. TRF_E_SHAPE: a tensor is
   missing, unknown, or of another shape or type. TRF_E_CHECKSUM: the data are damaged, or
   a name, type or shape of a tensor or a text "trf..." of the metadata; if you have edited one,
   remove "trf.header_crc32" from the metadata. TRF_E_UNSUPPORTED: the format of another version. */
TRF_API trf_status trf_model_load(trf_model **model, const char *path,
                                  const trf_load_options *options, trf_error *err);
/* How a model or a checkpoint is saved. NULL, or a struct of zeros: the defaults. */
typedef struct trf_save_options {
    trf_weights weights;        /* of a model's matrices in the file; a checkpoint's are FULL (else
                                   TRF_E_INVALID_ARG); default TRF_WEIGHTS_FULL */
    void *memory;               /* in place of a path, which is NULL then: gets the bytes of the
                                   file. NULL if size is 0: `bytes` is all that is wanted */
    size_t size;                /* of memory. If the file is longer, nothing is written, and the
                                   call fails with TRF_E_LIMIT */
    size_t *bytes;              /* gets the length of a file in memory, even if `size` is too small;
                                   default NULL */
} trf_save_options;
/* Saves a model. Afterwards the path has the old file or the new one, never a part: the call writes
   a temporary file beside it, then calls fsync, renames the file, and calls fsync on the folder.
     - A symbolic link at `path` is replaced, not followed.
     - Any number of programs may save to one path at the same time.
     - A program that is killed while it saves leaves a file path.tmp-... behind. The next save to
       the same path removes it, once its lock (flock) is free. Nothing removes it on Windows, on
       file systems without locks, or if more than four programs were saving to that path at the
       same time.
     - A program with a limit on file sizes (RLIMIT_FSIZE) should ignore SIGXFSZ, which would end
       it. Saving then fails with TRF_E_IO, and sys_errno is EFBIG. */
TRF_API trf_status trf_model_save(const trf_model *model, const char *path,
                                  const trf_save_options *options, trf_error *err);
/* Of a packed model (trf_model_pack) the call writes a packed file: its memory as it is, with
   vocabularies and texts. `weights` is FULL or the model's own format, else TRF_E_STATE.
     - trf_model_load maps such a file read-only, where the system and the device can: no number is
       copied, and all processes share its pages. Then only the header is verified. Where it cannot
       be mapped, the file is read.
     - A mapped file may be replaced, by a new file of that name: the model keeps the old one. Do
       not write into it and do not shorten it: the program would compute with other numbers, or
       end by SIGBUS.
     - It is a cache, not an archive. Another version of the library, or a machine of another byte
       order, may refuse it with TRF_E_UNSUPPORTED: keep the file that it was made of.
     - Views of a mapped model's parameters have no data. */

/* The container alone, of any safetensors file. Opening checks the header, its checksum if it has
   one, and the extents of all tensors before it returns; the file stays open. Names and texts are
   valid until trf_file_close. One thread at a time may use it. */
typedef struct trf_file trf_file;
typedef struct trf_file_entry {
    const char *name, *dtype;   /* dtype: "F32", "BF16", ... */
    int32_t rank;
    int64_t shape[8];
    uint64_t begin, bytes;      /* of the data; begin counts from the start of the file */
} trf_file_entry;
TRF_API trf_status trf_file_open(trf_file **file, const char *path, const trf_load_options *options,
                                 trf_error *err);
TRF_API void trf_file_close(trf_file *file);
/* Tensor `index`, from 0 on. Behind the last one the entry has zeros, and no name. */
TRF_API trf_file_entry trf_file_at(const trf_file *file, int32_t index);
/* Reads elements first .. first + count - 1 of tensor `index`, in the order of the file. The
   tensor may be F32, F64, F16 or BF16; another type fails with TRF_E_UNSUPPORTED. TRF_E_SHAPE: the
   elements go beyond the tensor's end. TRF_E_NONFINITE, unless allow_nonfinite is 1: an element is
   infinite or NaN, or an F64 too large for a float. A failure may leave `values` partly written. */
TRF_API trf_status trf_file_read(trf_file *file, int32_t index, int64_t first, trf_real *values,
                                 int64_t count, trf_error *err);
/* Reads bytes of a tensor of any type, as the file has them. */
TRF_API trf_status trf_file_read_bytes(trf_file *file, int32_t index, uint64_t first, void *bytes,
                                       size_t count, trf_error *err);
/* Index of the tensor with this name, or -1. */
TRF_API int32_t trf_file_find(const trf_file *file, const char *name);
/* Pair `index` of the metadata, from 0 on. 1: there is one; 0: both are NULL. */
TRF_API int trf_file_metadata_at(const trf_file *file, int32_t index, const char **key,
                                 const char **value);
/* The text of a key, or NULL. */
TRF_API const char *trf_file_metadata(const trf_file *file, const char *key);
/* Writes a file of `n` named tensors of rank 0 to 4, from any device: F32, or F64 in a TRF_DOUBLE
   build. Infinite numbers and NaN are written as they are. The path gets the whole file or nothing,
   as with trf_model_save.
   metadata: NULL, or key, value, key, value, ..., NULL. Keys differ and do not begin with "trf.".
   Names, keys and values are UTF-8. Names differ, have 1 to 255 bytes and no control characters,
   and none is "__metadata__". There are at most 65,536 tensors.

       TRF_E_LIMIT         a name of more than 255 bytes, more than 65,000 texts, or more than
                           16 MiB of names and texts
       TRF_E_FORMAT        an empty name, a control character, text that is not UTF-8, or a name or
                           key that occurs twice; then `where` is the index of the second
       TRF_E_SHAPE         a size below 0, or too many elements
       TRF_E_INVALID_ARG   anything else; `where` is the index of the tensor or text */
TRF_API trf_status trf_file_save(const char *path, const trf_tensor *tensors, int32_t n,
                                 const char *const *metadata, const trf_hooks *hooks,
                                 trf_error *err);

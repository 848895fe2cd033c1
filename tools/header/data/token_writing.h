#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "system/files.h"
#include "text/vocab.h"
#include "text/vocab_use.h"
#include "data/token_files.h"

// >>token-resuming  what is left of an interrupted file
//
// Blocks are whole from the beginning up to some position. What follows was not written completely,
// or reached the disk in another order before a power failure: it is written again.

struct trf_token_file {
    trf_hooks hooks;
    trf__token_form form;
    int32_t unknown[2];         /* unk of the vocabularies, or -1 */
    trf__saving saving;         /* `temporary` is the name until trf_token_file_finish */
    char *path;
    int64_t at;                 /* bytes written */
    unsigned char top[TRF__BLOCK_TOP];
    int64_t n;                  /* pairs of the block that is being filled */
    unsigned char *records;     /* its records */
    int64_t n_records, record_capacity;     /* in bytes */
    int failed, finished;
};

/* Counts a pair that the file has. */
TRF__FN void trf__token_count(trf_token_file *f, const int32_t *source, int32_t n_source,
                              const int32_t *target, int32_t n_target)
{
    trf_token_facts *facts = &f->form.facts;
    f->form.hash = trf__hash_pair(f->form.hash, source, n_source, target, n_target);
    for (int32_t i = 0; i < n_source; i++) facts->source_unknown += source[i] == f->unknown[0];
    for (int32_t i = 0; i < n_target; i++)
        facts->target_unknown += target[i] == f->unknown[1] && target[i] >= 0;
    trf__token_add(facts, n_source, n_target);
}

TRF__FN int trf__block_has_room(int64_t pairs, int64_t bytes)
{
    return pairs < TRF__BLOCK_PAIRS && bytes < TRF__BLOCK_BYTES;
}

/* Reads the records of the block whose top is in r, and counts its pairs. */
TRF__COLD
TRF__FN trf_status trf__token_recount(trf_token_file *f, trf__token_reader *r, int64_t n,
                                      int64_t next, trf_error *err)
{
    const unsigned char *lengths = r->top + TRF__TOKEN_BLOCK, *record;
    int64_t bytes = (int64_t)trf__from_little(r->top + 12, 8), i;
    TRF__GROW(unsigned char, r->records, r->record_capacity, bytes, &r->hooks);
    TRF__TRY(trf__token_bytes(r, next - bytes, r->records, bytes, err));
    for (record = r->records, i = 0; i < n; i++) {
        int32_t n_source = trf__token_length(&r->form, lengths, i, 0);
        int32_t n_target = trf__token_length(&r->form, lengths, i, 1);
        TRF__GROW(int32_t, r->ids, r->id_capacity, (int64_t)n_source + n_target, &r->hooks);
        int32_t *target = r->ids + n_source;
        TRF__TRY(trf__token_record(&r->form, record, next - bytes + (record - r->records), n_source,
                                   n_target, r->ids, target, err));
        trf__token_count(f, r->ids, n_source, target, n_target);
        record += trf__record_bytes(&r->form, n_source, n_target);
    }
    return TRF_OK;
}

/* Counts the whole blocks of an interrupted file: f->at is the position behind them, or 0 if not
   even the head is whole. A block with room for more pairs is the last one of a file whose end was
   written: it is dropped, because now more pairs may follow. */
TRF__COLD
TRF__FN trf_status trf__token_resume(trf_token_file *f, trf_error *err)
{
    trf__token_reader *r;
    int64_t n, next;
    trf_status status = trf__token_open(&r, f->saving.temporary, &f->hooks, err);
    if (!status && memcmp(r->form.head, f->form.head, TRF__TOKEN_HEAD))
        status = trf__fail(err, TRF_E_STATE, -1, "resume",
                           "the file was begun with other options or vocabularies");
    if (!status) f->at = TRF__TOKEN_HEAD;
    while (!status) {
        trf_token_facts facts = f->form.facts;
        uint64_t hash = f->form.hash;
        status = trf__token_top(r, f->at, &n, &next, err);
        if (!status && trf__block_has_room(n, (int64_t)trf__from_little(r->top + 12, 8))) break;
        if (!status) status = trf__token_recount(f, r, n, next, err);
        if (!status) {
            f->form.facts.mark = r->form.facts.mark;
            f->at = next;
            continue;
        }
        f->form.facts = facts;
        f->form.hash = hash;
    }
    trf__token_close(r);
    if (status != TRF_E_FORMAT) return status;
    trf__clear(err);
    return TRF_OK;
}

// >>token-writing  a file that is begun, or continued

TRF__FN void trf__token_head(trf_token_file *f, const trf_token_file_options *o)
{
    unsigned char *head = f->form.head;
    f->form.id_bytes = o->id_bytes;
    f->form.length_bytes = o->max_length < 65536 ? 2 : 4;
    f->form.max_length = o->max_length;
    f->unknown[0] = o->source_vocab ? trf_vocab_special(o->source_vocab, TRF_SPECIAL_UNK) : -1;
    f->unknown[1] = o->target_vocab ? trf_vocab_special(o->target_vocab, TRF_SPECIAL_UNK) : -1;
    trf__crc_begin(&f->form.crc);
    memcpy(head, "TRFTOKEN", 8);
    trf__to_little(head + 8, 1, 4);
    trf__to_little(head + 12, (uint64_t)f->form.id_bytes, 4);
    trf__to_little(head + 16, (uint64_t)f->form.length_bytes, 4);
    trf__to_little(head + 20, (uint64_t)f->form.max_length, 4);
    trf__to_little(head + 24, trf__vocab_fingerprint(o->source_vocab), 8);
    trf__to_little(head + 32, trf__vocab_fingerprint(o->target_vocab), 8);
    trf__token_seal(&f->form, head, TRF__TOKEN_HEAD - 4);
}

TRF__FN trf_status trf__token_write(trf_token_file *f, const unsigned char *bytes, int64_t n,
                                    trf_error *err)
{
    int error = trf__write_all(f->saving.fd, bytes, (size_t)n);
    if (!error) { f->at += n; return TRF_OK; }
    f->failed = 1;
    return trf__fail_io(err, error, f->saving.temporary, "write it");
}

/* Locks path.part. On a system or a disk without locks the file is not locked. */
TRF__FN trf_status trf__token_hold(trf__saving *saving, int fd, trf_error *err)
{
    errno = 0;
    saving->held = TRF_OS_HOLDS ? TRF_OS(hold)(saving->temporary, fd) : -1;
    if (saving->held >= 0 || errno != EAGAIN) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "path", "another process writes this file");
}

/* Opens path.part and locks it. f->at becomes the position at which writing begins. */
TRF__COLD
TRF__FN trf_status trf__token_begin(trf_token_file *f, int resume, trf_error *err)
{
    trf__saving *saving = &f->saving;
    const char *part = saving->temporary;
    trf_os_facts there;
    TRF__TRY(trf__token_hold(saving, -1, err));
    if (TRF_OS(stat)(part, -1, &there) >= 0) {
        if (resume) TRF__TRY(trf__token_resume(f, err));
        if (f->at == 0 && TRF_OS(unlink)(part) < 0)
            return trf__fail_io(err, trf__errno(), part, "replace it");
    }
    int error = trf__open(part, f->at ? 2 : 1, 0666, &saving->fd);
    if (error) return trf__fail_io(err, error, part, "create it");
    if (f->at) {
        errno = 0;
        if (TRF_OS(seek)(saving->fd, (uint64_t)f->at) >= 0) return TRF_OK;
        return trf__fail_io(err, trf__errno(), part, "continue it");
    }
    if (saving->held >= 0) trf__close(saving->held);    /* the lock of the file before it */
    TRF__TRY(trf__token_hold(saving, saving->fd, err));
    return trf__token_write(f, f->form.head, TRF__TOKEN_HEAD, err);
}

TRF__COLD
TRF_API trf_status trf_token_file_create(trf_token_file **file, const char *path,
                                         const trf_token_file_options *options, trf_error *err)
{
    trf_token_file *f;
    trf_os_facts there;
    trf_status status;
    int exists;
    TRF__BEGIN_NEW(file);
    if (!path) return trf__fail_null(err, "path");
    TRF__ZEROED(trf_token_file_options, o);
    if (options) o = *options;
    if (!o.id_bytes) o.id_bytes = 4;
    if (!o.max_length) o.max_length = 511;
    TRF__FAIL_IF(o.id_bytes != 2 && o.id_bytes != 4, TRF_E_INVALID_ARG, -1, "id_bytes",
                 "id_bytes must be 2 or 4, got %d", (int)o.id_bytes);
    TRF__RANGE(&o, max_length, 1, INT32_MAX);
    TRF__RANGE(&o, resume, 0, 1);
    if (o.source_vocab && !o.source_vocab->finished) return trf__fail_learning(err);
    if (o.target_vocab && !o.target_vocab->finished) return trf__fail_learning(err);
    TRF__TRY(trf__hooks_check(&o.hooks, err));
    TRF__FAIL_IF(!*path, TRF_E_INVALID_ARG, -1, "path", "path must be a name, got an empty one");
    TRF__TRY(trf__name_file(trf__save_target(path, &there, &exists, err), path, err));
    TRF__ALLOC_ZEROED(trf_token_file, f, &o.hooks, 1, "file", "to write a file");
    f->hooks = o.hooks;
    f->saving.fd = f->saving.held = -1;
    f->path = trf__copied(&o.hooks, path);
    f->saving.path = f->path;
    f->saving.bytes = strlen(path) + sizeof ".part";
    f->saving.temporary = TRF__NEW(char, &o.hooks, f->saving.bytes);
    if (f->path && f->saving.temporary) {
        snprintf(f->saving.temporary, f->saving.bytes, "%s.part", path);
        trf__token_head(f, &o);
        status = trf__name_file(trf__token_begin(f, o.resume, err), f->saving.temporary, err);
    } else status = trf__fail(err, TRF_E_NOMEM, -1, "file", "no memory for a path");
    if (status) { trf_token_file_destroy(f); return status; }
    *file = f;
    return TRF_OK;
}

TRF_API void trf_token_file_destroy(trf_token_file *file)
{
    if (!file) return;
    trf_hooks hooks = file->hooks;
    /* any failure: it must not commit. path.part stays, because saving.made is 0 */
    (void)trf__save_end(&file->saving, &hooks, TRF_E_STATE, NULL);
    if (file->path) trf__free(&hooks, file->path, strlen(file->path) + 1);
    trf__free(&hooks, file->records, trf__bytes(file->record_capacity, 1));
    trf__free(&hooks, file, sizeof *file);
}

TRF_API const trf_token_facts *trf_token_file_facts(const trf_token_file *file)
{
    return file ? &file->form.facts : NULL;
}

// >>token-adding   pairs, blocks, and the end

/* Writes the block, if it has a pair. */
TRF__FN trf_status trf__token_flush(trf_token_file *f, trf_error *err)
{
    int64_t n = TRF__TOKEN_BLOCK + f->n * 2 * f->form.length_bytes, records = f->n_records;
    if (f->n == 0) return TRF_OK;
    trf__to_little(f->top, (uint64_t)f->n, 4);
    trf__to_little(f->top + 4, (uint64_t)(f->form.facts.pairs - f->n), 8);
    trf__to_little(f->top + 12, (uint64_t)records, 8);
    trf__to_little(f->top + 20, (uint64_t)f->form.facts.mark, 8);
    n = trf__token_seal(&f->form, f->top, n);
    f->n = f->n_records = 0;
    TRF__TRY(trf__token_write(f, f->top, n, err));
    return trf__token_write(f, f->records, records, err);
}

/* A file that is finished, or could not be written, takes nothing more. */
TRF__FN trf_status trf__token_writable(const trf_token_file *f, trf_error *err)
{
    TRF__TRY(trf__begin(f, "file", err));
    return TRF__OK_IF(!f->failed && !f->finished, TRF_E_STATE, -1, "file",
                      f->finished ? "the file is finished already"
                                  : "an earlier call could not write the file");
}

/* Writes the ids of one side behind a record. */
TRF__FN unsigned char *trf__token_put(const trf__token_form *form, unsigned char *to,
                                      const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++, to += form->id_bytes)
        trf__to_little(to, (uint32_t)ids[i], form->id_bytes);
    return to;
}

TRF__FN trf_status trf__token_narrow(const trf_token_file *f, const int32_t *ids, int32_t n,
                                     const char *what, trf_error *err)
{
    for (int32_t i = 0; f->form.id_bytes == 2 && i < n; i++)
        TRF__FAIL_IF(ids[i] >= 0xFFFF, TRF_E_LIMIT, i, what,
                     "ids of two bytes are below 65535, pair %lld has %d at position %d",
                     (long long)f->form.facts.pairs, (int)ids[i], (int)i);
    return TRF_OK;
}

TRF_API trf_status trf_token_file_add(trf_token_file *file, const int32_t *source, int32_t n_source,
                                      const int32_t *target, int32_t n_target, int64_t mark,
                                      trf_error *err)
{
    TRF__TRY(trf__token_writable(file, err));
    trf__token_form *form = &file->form;
    TRF__TRY(trf__check_pair(form->max_length, form->facts.pairs, source, n_source, target,
                             n_target, -1, err));
    TRF__TRY(trf__token_narrow(file, source, n_source, "source", err));
    TRF__TRY(trf__token_narrow(file, target, n_target, "target", err));
    int64_t bytes = trf__record_bytes(form, n_source, n_target);
    TRF__GROW(unsigned char, file->records, file->record_capacity, file->n_records + bytes,
              &file->hooks);
    unsigned char *record = file->records + file->n_records;
    unsigned char *end = trf__token_put(form, record + 4, source, n_source);
    end = trf__token_put(form, end, target, n_target);
    trf__to_little(record, trf__token_crc(form, record + 4, end - record - 4), 4);
    unsigned char *lengths = file->top + TRF__TOKEN_BLOCK + file->n * 2 * form->length_bytes;
    trf__to_little(lengths, (uint64_t)n_source, form->length_bytes);
    trf__to_little(lengths + form->length_bytes, (uint64_t)n_target, form->length_bytes);
    trf__token_count(file, source, n_source, target, n_target);
    form->facts.mark = mark;
    file->n_records += bytes;
    file->n++;
    return trf__block_has_room(file->n, file->n_records)
               ? TRF_OK : trf__name_file(trf__token_flush(file, err), file->saving.temporary, err);
}

/* Writes the last block and the end. A resumed file may have had more bytes behind its whole
   blocks than were written now. */
TRF__COLD
TRF__FN trf_status trf__token_last(trf_token_file *f, trf_error *err)
{
    const trf_token_facts *facts = &f->form.facts;
    unsigned char *end = f->top;
    trf_os_facts there;
    TRF__TRY(trf__token_flush(f, err));
    const int64_t numbers[7] = {facts->pairs, 0, facts->mark, facts->source_ids, facts->target_ids,
                                facts->source_unknown, facts->target_unknown};
    trf__to_little(end, 0, 4);
    for (int i = 0; i < 7; i++) trf__to_little(end + 4 + 8 * i, (uint64_t)numbers[i], 8);
    trf__to_little(end + 60, f->form.hash, 8);
    trf__to_little(end + 68, (uint64_t)facts->longest, 4);
    trf__token_seal(&f->form, end, TRF__TOKEN_END - 4);
    TRF__TRY(trf__token_write(f, end, TRF__TOKEN_END, err));
    errno = 0;
    if (TRF_OS(stat)(NULL, f->saving.fd, &there) < 0)
        return trf__fail_io(err, trf__errno(), f->saving.temporary, "examine it");
    return TRF__OK_IF(there.size == (uint64_t)f->at, TRF_E_STATE, -1, "file",
                      "the interrupted file was longer, so its pairs were others: begin it again");
}

TRF__COLD
TRF_API trf_status trf_token_file_finish(trf_token_file *file, trf_error *err)
{
    TRF__TRY(trf__token_writable(file, err));
    trf_status status = trf__save_end(&file->saving, &file->hooks, trf__token_last(file, err), err);
    file->finished = status == TRF_OK;
    file->failed = !file->finished;
    return trf__name_file(status, file->path, err);
}

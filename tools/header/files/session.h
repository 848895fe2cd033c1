#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/batch.h"
#include "api/files.h"
#include "api/translate.h"
#include "api/sampling.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "system/text.h"
#include "model/model.h"
#include "search/sampling.h"
#include "read/ensemble.h"
#include "search/sampler.h"
#include "files/container.h"
#include "files/reading.h"
#include "files/writing.h"
#include "files/store.h"

// >>session        a sampler in the middle of its sequences
//
//   generator      a tensor I32, in words: the number of sequences. For each sequence: the number
//                  of ids of its source; of its beginning and answer; of its beginning alone; 1 if
//                  EOS has ended it; the 64 bits of its log-probability, the lower half first. Then
//                  the ids of all sources; the other ids; the log-probabilities of the ids of all
//                  answers, with that of EOS after each answer that it ended
//   __metadata__   trf.content = generator; trf.generator = 3, this format; trf.version;
//                  trf.ordinal; trf.weights, the CRC-32 of the model's weights; trf.sampling.FIELD
//
// Keys and values are not stored: ids suffice to compute them again with the same bits
// (>>sampling). The names say generator because samplers once had that name.

/* The last column of the table says since which format a field is stored. Format 1 lacks the
   log-probabilities of ids too. */
enum { TRF__SESSION = 3 };

/* Checksum of all weights. With other weights a session would continue with other bits. */
TRF__FN trf_status trf__weights_sum(const trf_model *model, int64_t *sum, trf_error *err)
{
    int64_t bytes = (int64_t)model->packed_bytes;
    trf__out arenas[2];
    uint32_t crc = 0;
    arenas[0] = trf__out_of("", "weights", TRF__DTYPE, 1, &model->layout.n_weights, model->weights,
                            &model->run);
    arenas[1] = trf__out_of("", "packed", "U8", 1, &bytes, model->packed, &model->run);
    TRF__TRY(trf__out_crc(arenas, model->packed ? 2 : 1, &crc, err));
    *sum = crc;
    return TRF_OK;
}

/* Number of tokens of an answer with known log-probabilities. */
TRF__FN int64_t trf__scored(const trf_hypothesis *answer)
{
    return answer->log_probabilities ? (int64_t)answer->n + (answer->ended == TRF_ENDED_EOS) : 0;
}

/* The 64 bits of a double as two words, the lower half first. */
TRF__FN void trf__put_double(int32_t *words, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    words[0] = (int32_t)(uint32_t)bits;
    words[1] = (int32_t)(uint32_t)(bits >> 32);
}

TRF__FN double trf__get_double(const int32_t *words)
{
    return trf__from_double((uint32_t)words[0] | (uint64_t)(uint32_t)words[1] << 32);
}

/* What trf__metadata_session needs. */
typedef struct trf__session { const trf_sampler *g; int64_t sum, format; } trf__session;

/* The notes of a session. */
TRF__FN void trf__metadata_session(trf__text *notes, const void *of)
{
    const trf__session *session = (const trf__session *)of;
    trf__add_metadata(notes, "trf.content", "generator");
    trf__metadata_int(notes, "trf.generator", session->format);
    trf__add_metadata(notes, "trf.version", TRF_VERSION);
    trf__metadata_int(notes, "trf.ordinal", session->g->ordinal);
    trf__metadata_int(notes, "trf.weights", session->sum);
#define TRF__X(type, field, low, high, stored) \
    TRF__NOTE_FIELD("trf.sampling.", &session->g->sampling, type, field, stored)
    TRF__SAMPLING_FIELDS(TRF__X)
#undef TRF__X
}

/* Number of ids of a sequence, with the one that has taken the place of the start id. */
TRF__FN int32_t trf__all_ids(const trf__sampled *s) { return s->n + s->takes_start; }

TRF_API trf_status trf_sampler_save(const trf_sampler *sampler, const char *path, trf_error *err)
{
    const trf__destination to = { path, NULL, 0, NULL };
    int64_t n, i;
    trf__clear(err);
    if (!sampler || !path) return trf__fail_null(err, sampler ? "path" : "sampler");
    TRF__TRY(trf__check_begun(sampler, err));
    TRF__TRY(trf__check_one_model(&sampler->ensemble, err));
    const trf_hooks *hooks = &sampler->sampling.hooks;
    int64_t count = sampler->count;
    /* each sequence has 6 words besides its ids and log-probabilities */
    for (n = 1 + 6 * count + sampler->n_source, i = 0; i < count; i++)
        n += trf__all_ids(&sampler->sampled[i]) + 2 * trf__scored(&sampler->sampled[i].answer);
    int32_t *words = TRF__NEW(int32_t, hooks, n);
    if (!words)
        return trf__name_file(trf__fail(err, TRF_E_NOMEM, -1, "session",
                                        "no memory for the data of a session"), path, err);
    words[0] = (int32_t)count;
    int32_t *ids = words + 1 + 6 * count;
    if (sampler->n_source > 0)
        memcpy(ids, sampler->sources, (size_t)sampler->n_source * sizeof *ids);
    for (ids += sampler->n_source, i = 0; i < count; ids += trf__all_ids(&sampler->sampled[i++])) {
        const trf__sampled *s = &sampler->sampled[i];
        words[1 + i] = sampler->source_lengths[i];
        words[1 + count + i] = trf__all_ids(s);
        words[1 + 2 * count + i] = s->n_begin + s->takes_start;
        words[1 + 3 * count + i] = s->answer.ended == TRF_ENDED_EOS;
        trf__put_double(words + 1 + 4 * count + 2 * i, s->answer.log_probability);
        memcpy(ids, s->ids - s->takes_start, (size_t)trf__all_ids(s) * sizeof *ids);
    }
    for (i = 0; i < count; i++) {
        const trf_hypothesis *answer = &sampler->sampled[i].answer;
        int64_t k, scored = trf__scored(answer);
        for (k = 0; k < scored; k++, ids += 2) trf__put_double(ids, answer->log_probabilities[k]);
    }
    trf__out out = trf__out_of("", "generator", "I32", 1, &n, words, NULL);
    /* a session of format 1 has no log-probabilities of ids, so it is saved as format 1 again */
    const int first = count > 0 && !sampler->sampled[0].answer.log_probabilities;
    trf__session session = { sampler, 0, first ? 1 : (int)TRF__SESSION };
    trf_status status = trf__weights_sum(sampler->model, &session.sum, err);
    if (status == TRF_OK)
        status = trf__file_write(hooks, &to, &out, 1, trf__metadata_session, &session, err);
    trf__free(hooks, words, (size_t)out.bytes);
    return trf__name_file(status, path, err);
}

/* Reads the log-probabilities of an answer's tokens, `scored` doubles. Returns 0 if one is above 0,
   or if their sum is not the answer's. NULL for each only checks them. */
TRF__FN int trf__session_scores(const int32_t *words, int64_t scored, double sum, double *each)
{
    double total = 0;
    for (int64_t k = 0; k < scored; k++) {
        double x = trf__get_double(words + 2 * k);
        if (!(x <= 0)) return 0;
        if (each) each[k] = x;
        total += x;
    }
    return total == sum;
}

/* Checks n words, which may be hostile. *ids[0] and [1] become the numbers of ids of sources and of
   all others. Returns the number of the first sequence that is wrong, or that of the sequences if
   all are right, or -1 if the words do not add up to n. */
TRF__FN int64_t trf__session_check(const trf_sampling *rules, const int32_t *words, int64_t n,
                                   int64_t format, int64_t ids[2])
{
    int64_t count = n > 0 ? words[0] : -1, i, scores = 0, scored;
    const int32_t *l = words + 1;
    /* no product with count can overflow after this check */
    if (count < 0 || count > (n - 1) / 6) return -1;
    for (ids[0] = ids[1] = i = 0; i < count; i++, l++) {
        if (l[0] < 0 || l[2 * count] < 0 || l[count] < l[2 * count] || (l[3 * count] & ~1) ||
            l[count] - l[2 * count] > rules->max_tokens ||
            !(trf__get_double(words + 1 + 4 * count + 2 * i) <= 0)) return i;
        ids[0] += l[0];
        ids[1] += l[count];
        scores += (int64_t)l[count] - l[2 * count] + l[3 * count];
    }
    int64_t at = 1 + 6 * count + ids[0] + ids[1];
    if (format < 2 || at + 2 * scores != n) return format < 2 && at == n ? count : -1;
    for (l = words + 1, i = 0; i < count; i++, l++, at += 2 * scored) {
        scored = (int64_t)l[count] - l[2 * count] + l[3 * count];
        if (!trf__session_scores(words + at, scored, trf__get_double(words + 1 + 4 * count + 2 * i),
                                 NULL)) return i;
    }
    return count;
}

/* Continues with n words, which may be hostile. The sampler's options change only on success. */
TRF__FN trf_status trf__session_start(trf_sampler *g, const trf_sampling *rules,
                                      const int32_t *words, int64_t n,
                                      int64_t format, int64_t ordinal, trf_error *err)
{
    const trf_sampling before = g->sampling;
    int64_t ids[2] = {0, 0}, count = n > 0 ? words[0] : -1;
    int64_t i = trf__session_check(rules, words, n, format, ids);
    const int32_t *lengths = words + 1, *scores;
    TRF__FAIL_IF(i < 0, TRF_E_FORMAT, i, "generator", "the sizes in the session do not add up");
    TRF__FAIL_IF(i != count, TRF_E_FORMAT, i, "generator",
                 "sequence %lld of the session is invalid", (long long)i);
    TRF__ZEROED(trf_batch, batch);
    batch.source.count = batch.target.count = (int32_t)count;
    batch.source.lengths = lengths;
    batch.target.lengths = lengths + count;
    batch.source.ids = lengths + 6 * count;
    batch.target.ids = batch.source.ids + ids[0];
    batch.ordinal = ordinal;
    g->sampling = *rules;
    trf_status status = trf__sampler_start(g, &batch, lengths + 2 * count, err);
    if (status != TRF_OK) g->sampling = before;
    for (scores = batch.target.ids + ids[1], i = 0; i < g->count; i++) {
        trf__sampled *s = &g->sampled[i];
        s->answer.log_probability = trf__get_double(lengths + 4 * count + 2 * i);
        s->answer.score = s->answer.log_probability;
        if (lengths[3 * count + i]) s->answer.ended = TRF_ENDED_EOS;
        /* format 1 has only the sum of an answer's log-probabilities */
        if (format < 2) { s->answer.log_probabilities = NULL; continue; }
        (void)trf__session_scores(scores, trf__scored(&s->answer), 0, s->each);
        scores += 2 * trf__scored(&s->answer);
    }
    return trf__file_fault(status, err);
}

// >>session-read   a session, and whether it is sound
//
// Options come from the file, hooks and threads from the sampler. The checksum is compared first.

TRF__FN trf_status trf__session_read(trf_sampler *g, trf_file *file, trf_error *err)
{
    trf_file_entry e = trf_file_at(file, 0);
    trf_sampling rules = g->sampling;
    int64_t format, ordinal, sum, weights;
    int32_t *words;
    TRF__TRY(trf__read_int(file, "trf.generator", &format, err));
    TRF__FAIL_IF(format < 1 || format > TRF__SESSION, TRF_E_UNSUPPORTED, format, "trf.generator",
                 "expected a session of format 1 to %d, got %lld", (int)TRF__SESSION,
                 (long long)format);
    rules.allow_unk = 1;        /* format 1 allowed unk and had no window */
    rules.window = 0;
    rules.no_repeat_ngram = 0;  /* format 2 had none */
#define TRF__X(type, field, low, high, stored) \
    TRF__READ_FIELD("trf.sampling.", &rules, type, field, stored)
    TRF__SAMPLING_FIELDS(TRF__X)
#undef TRF__X
    TRF__TRY(trf__file_fault(trf__sampling_check(&rules, NULL, err), err));
    TRF__TRY(trf__read_int(file, "trf.ordinal", &ordinal, err));
    TRF__TRY(trf__read_int(file, "trf.weights", &sum, err));
    TRF__TRY(trf__weights_sum(g->model, &weights, err));
    TRF__FAIL_IF(sum != weights, TRF_E_STATE, -1, "trf.weights",
                 "the session belongs to another model, or to other weights");
    TRF__FAIL_IF(file->count != 1 || strcmp(e.name, "generator") || strcmp(e.dtype, "I32") ||
                 e.rank != 1, TRF_E_SHAPE, -1, "generator",
                 "a session has one tensor, \"generator\", of type I32");
    TRF__ALLOC(int32_t, words, &g->sampling.hooks, e.shape[0], "session",
               "for the data of a session");
    trf_status status = trf__file_fetch(&file->from, e.begin, words, (size_t)e.bytes, err);
    if (status == TRF_OK) status = trf__file_check_crc(file, err);
    for (int64_t i = 0; status == TRF_OK && i < e.shape[0]; i++)
        words[i] = (int32_t)(uint32_t)trf__from_little((const unsigned char *)(words + i), 4);
    if (status == TRF_OK)
        status = trf__session_start(g, &rules, words, e.shape[0], format, ordinal, err);
    TRF__FREE(&g->sampling.hooks, words, e.shape[0]);
    return status;
}

TRF_API trf_status trf_sampler_load(trf_sampler *sampler, const char *path, trf_error *err)
{
    trf_error own;
    trf_load_options options = trf_load_defaults();
    trf_file *file;
    if (!err) err = &own;       /* trf__file_fault reads it */
    TRF__TRY(trf__begin(sampler, "sampler", err));
    TRF__TRY(trf__check_one_model(&sampler->ensemble, err));
    options.hooks = sampler->sampling.hooks;
    TRF__TRY(trf_file_open(&file, path, &options, err));
    trf_status status = trf__session_read(sampler, file, err);
    trf_file_close(file);
    return trf__name_file(status, path, err);
}

#pragma once
#include "api/basics.h"
#include "api/batch.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "ops/ops.h"
#include "ops/phrases.h"
#include "ops/beam.h"
#include "device/backend.h"
#include "text/vocab.h"
#include "text/pieces.h"
#include "text/vocab_use.h"
#include "model/model.h"
#include "search/translator.h"

// >>required       the phrases of a call, as its beams read them
//
// Texts become bytes, each with the token that continues a copy there: the vocabulary's own where
// it cuts the text, else one with the fewest after it. A call's phrases lie in one device block.

enum { TRF__NEVER = 1 << 28, TRF__MAX_REQUIRED = 1024, TRF__MAX_PHRASE_TOKENS = 1 << 20 };

/* Bytes of the lists of a call on the device. */
TRF__FN size_t trf__lists_bytes(int64_t phrases, int64_t units, int64_t symbols)
{
    return trf__bytes(phrases, sizeof(trf__phrase)) + trf__bytes(units, sizeof(trf__unit)) +
        trf__bytes(symbols, sizeof(int32_t)) + 3 * TRF__ALIGN;
}

/* Bytes that the phrases of a search take. */
TRF__FN size_t trf__phrases_memory(const trf_search *s)
{
    int64_t n = s->phrases.count, units = trf__total_ids(&s->phrases);
    if (n == 0) return 0;
    return trf__bytes(trf__capacity(16, 1), sizeof(trf__phrases)) +
        trf__bytes(trf__capacity(16, n), sizeof(trf__phrase)) +
        trf__bytes(trf__capacity(16, units + 1), sizeof(trf__unit)) + trf__lists_bytes(n, units, 0);
}

TRF__COLD
TRF__FN void trf__required_free(trf_translator *t)
{
    trf__required *r = &t->required;
    const trf__run *run = &t->reader.pass.run;
    const trf_hooks *hooks = &t->search.hooks;
    run->backend->release(run, r->device, (size_t)r->device_bytes);
    run->backend->release(run, r->writes, r->writes_bytes);
    TRF__FREE(hooks, r->of, r->of_capacity);
    TRF__FREE(hooks, r->each, r->each_capacity);
    TRF__FREE(hooks, r->units, r->units_capacity);
    TRF__FREE(hooks, r->symbols, r->symbols_capacity);
    TRF__FREE(hooks, r->text, r->text_capacity);
    TRF__FREE(hooks, r->cut.ids, r->cut.capacity);
    trf__free(hooks, r->entries, trf__bytes(r->n_entries, sizeof *r->entries) + r->writes_bytes);
}

// >>writing        what each id of the target writes

TRF__FN const char *trf__writing(const trf__required *r, int32_t id, int32_t *n)
{
    int32_t from = id > 0 ? r->ends[id - 1] : 0;
    *n = r->ends[id] - from;
    return r->texts + from;
}

/* The entry of the id that writes n bytes, or the empty one where it would be. */
TRF__FN int32_t *trf__writing_entry(const trf__required *r, const char *text, int32_t n,
                                    uint64_t hash)
{
    uint64_t mask = (uint64_t)r->n_entries - 1, at = hash & mask;
    for (; r->entries[at]; at = (at + trf__entry_step(hash)) & mask) {
        int32_t length;
        const char *other = trf__writing(r, r->entries[at] - 1, &length);
        if (length == n && !memcmp(other, text, (size_t)n)) break;
    }
    return &r->entries[at];
}

/* Enters an id that a copy may use, unless another one writes the same. */
TRF__FN void trf__enter_writing(trf__required *r, int32_t id)
{
    int32_t n;
    const char *text = trf__writing(r, id, &n);
    int32_t *entry = trf__writing_entry(r, text, n, trf__hash_bytes(text, (size_t)n));
    if (n == 0 || *entry) return;
    *entry = id + 1;
    if (n > r->longest) r->longest = n;
}

/* Whether a token is ordinary; of SentencePiece: a normal or a user-defined piece. */
TRF__FN int trf__is_plain_token(const trf_vocab *v, int32_t id)
{
    int32_t type = v->pieces ? trf__type_of(v->pieces, trf__token_of(v, id)) : 0;
    return !v->pieces || type == TRF__PIECE_NORMAL || type == TRF__PIECE_USER;
}

/* The text of an id in a model whose vocabulary may have fewer. */
TRF__FN size_t trf__target_text(const trf_model *model, int32_t id, char *to)
{
    return id < trf_vocab_size(model->target) ? trf__token_text(model->target, id, to) : 0;
}

/* Learns what the ids of the target write, once for a translator. */
TRF__FN trf_status trf__learn_writing(trf_translator *t, trf_error *err)
{
    const trf_model *model = t->reader.model;
    const trf_config *c = &model->config;
    const trf__run *run = &t->reader.pass.run;
    const trf_hooks *hooks = &t->search.hooks;
    trf__required *r = &t->required;
    size_t ends = trf__bytes(c->target_vocab, sizeof *r->ends), texts = 0;
    int32_t id;
    if (r->writes) return TRF_OK;
    for (id = 0; id < c->target_vocab; id++) texts += trf__target_text(model, id, NULL);
    r->n_entries = trf__capacity(2, 2 * (int64_t)c->target_vocab);
    r->writes_bytes = ends + texts;
    size_t bytes = trf__bytes(r->n_entries, sizeof *r->entries) + r->writes_bytes;
    r->entries = texts < INT32_MAX ? (int32_t *)trf__alloc_zeroed(hooks, bytes) : NULL;
    if (r->entries) r->writes = run->backend->alloc(run, r->writes_bytes);
    if (!r->writes) {
        trf__free(hooks, r->entries, bytes);
        r->entries = NULL;
        return trf__fail(err, TRF_E_NOMEM, -1, "texts", "no memory for the texts of %lld tokens",
                         (long long)c->target_vocab);
    }
    r->ends = r->entries + r->n_entries;
    r->texts = (char *)(r->ends + c->target_vocab);
    for (texts = 0, id = 0; id < c->target_vocab; id++)
        r->ends[id] = (int32_t)(texts += trf__target_text(model, id, r->texts + texts));
    for (int32_t pass = 0; pass < 2; pass++)
        for (id = 0; id < c->target_vocab && id < trf_vocab_size(model->target); id++)
            if (id != c->unk && !trf__is_end(c->eos, &t->search.ends, id) &&
                trf__is_plain_token(model->target, id) == !pass) trf__enter_writing(r, id);
    run->backend->upload(run, r->writes, r->ends, r->writes_bytes);
    return run->backend->sync(run, err);
}

// >>phrase-copies  the tokens of a copy

/* The token with which a copy goes on at byte m of a text of n bytes, or -1, and how many tokens it
   needs then. blank: the token begins with the blank before it. */
TRF__FN int32_t trf__copy_token(const trf__required *r, const char *text, int32_t n, int32_t m,
                                int blank, const trf__unit *units, int32_t *needed)
{
    const char *from = text + m - blank;
    uint64_t hash = TRF__HASH_START;
    int32_t id = -1;
    *needed = TRF__NEVER;
    for (int32_t length = 1; length <= r->longest && length <= n - m + blank; length++) {
        int32_t rest = units[m + length - blank].rest;
        hash = trf__hash_more(hash, from + length - 1, 1);
        if (length <= blank || rest + 1 > *needed) continue;
        int32_t found = *trf__writing_entry(r, from, length, trf__hash_end(hash));
        if (found) { id = found - 1; *needed = rest + 1; }
    }
    return id;
}

/* Sets where the vocabulary cuts a text, if its tokens write the text or a blank and the text.
   Returns where the part of the first token ends, or 0. */
TRF__FN int32_t trf__set_cut(const trf__required *r, int32_t unk, const char *text, trf__phrase *f,
                             trf__unit *units)
{
    int32_t lead = -f->n, end = 0, at, length, i;
    for (i = 0; i < r->cut.n; i++, lead += length) (void)trf__writing(r, r->cut.ids[i], &length);
    if (lead < 0 || lead > 1) return 0;
    for (at = -lead, i = 0; i < r->cut.n; i++, at += length) {
        int32_t id = r->cut.ids[i];
        const char *written = trf__writing(r, id, &length);
        if (id == unk || memcmp(written, text + at, (size_t)length)) {
            for (; at > 0; at--) units[at].next = -1;
            f->first[0] = -1;
            return 0;
        }
        if (at > 0) units[at].next = id;
        else if (at + length > 0) { f->first[0] = id; end = at + length; }
    }
    return end;
}

/* Sets how copies of a text go on from each of its bytes, and with which tokens they begin. */
TRF__FN void trf__set_copies(const trf__required *r, int32_t unk, const char *text, trf__phrase *f,
                             trf__unit *units)
{
    int32_t n = f->n, length, needed;
    for (int32_t m = 0; m < n; m++) units[m].next = -1;
    units[n].rest = 0;
    int32_t end = trf__set_cut(r, unk, text, f, units);
    for (int32_t m = n - 1; m >= 0; m--) {
        if (units[m].next < 0)
            units[m].next = trf__copy_token(r, text, n, m, 0, units, &units[m].rest);
        else {
            (void)trf__writing(r, units[m].next, &length);
            units[m].rest = units[m + length].rest + 1;
        }
    }
    f->first[1] = units[0].next;        /* a cut says nothing of byte 0 */
    f->first[2] = trf__copy_token(r, text, n, 0, 1, units, &needed);
    f->cost = (int32_t)trf__min64(units[0].rest, needed);
    if (end && units[end].rest < f->cost) f->cost = units[end].rest + 1;
}

// >>requirements   the phrases of each sentence of a call

/* Sets where matching resumes if a phrase breaks off after each of its units (the failure function
   of Knuth, Morris and Pratt). */
TRF__FN void trf__set_failure_links(const trf__phrase *f, trf__unit *units)
{
    units[0].back = f->bytes && trf__is_digit(units[0].unit) ? -1 : 0;
    for (int32_t i = 1; i < f->n; i++)
        units[i].back = trf__phrase_after(units, f->bytes, units[i - 1].back, units[i].unit);
}

/* A new phrase of n units at the end of the list. The unit behind them is for trf__set_copies. */
TRF__FN trf_status trf__new_phrase(trf_translator *t, int32_t n, trf__phrase **f,
                                   trf__unit **units, trf_error *err)
{
    trf__required *r = &t->required;
    TRF__GROW(trf__phrase, r->each, r->each_capacity, r->n_each + 1, &t->search.hooks);
    TRF__GROW(trf__unit, r->units, r->units_capacity, r->n_units + n + 1, &t->search.hooks);
    *f = &r->each[r->n_each];
    *units = &r->units[r->n_units];
    TRF__ZERO(**f);
    (*f)->begin = (int32_t)r->n_units;
    (*f)->n = (*f)->cost = n;
    (*f)->first[0] = (*f)->first[1] = (*f)->first[2] = -1;
    return TRF_OK;
}

/* Enters the phrase that trf__new_phrase has begun, or counts it with an equal one of the sentence,
   whose phrases begin at `first`. */
TRF__FN void trf__enter_phrase(trf__required *r, int64_t first, int32_t times, int32_t exactly)
{
    trf__phrase *f = &r->each[r->n_each];
    trf__unit *units = &r->units[f->begin];
    trf__set_failure_links(f, units);
    for (trf__phrase *g = r->each + first; g < f; g++) {
        if (g->n != f->n || g->bytes != f->bytes ||
            memcmp(&r->units[g->begin], units, (size_t)f->n * sizeof *units)) continue;
        g->times = (int32_t)trf__min64((int64_t)g->times + times, TRF__MAX_PHRASE_TOKENS);
        g->exactly |= exactly;
        return;
    }
    f->times = times;
    f->exactly = exactly;
    r->n_each++;
    r->n_units += f->n;
}

/* Adds the phrases that all answers of a translator contain. */
TRF__FN trf_status trf__require_ids(trf_translator *t, int64_t first, trf_error *err)
{
    trf__required *r = &t->required;
    int32_t at = 0;
    for (int32_t k = 0; k < r->n_ids; at += r->lengths[k++]) {
        int32_t n = r->lengths[k];
        trf__phrase *f;
        trf__unit *units;
        TRF__TRY(trf__new_phrase(t, n, &f, &units, err));
        for (int32_t i = 0; i < n; i++) {
            units[i].unit = units[i].next = r->ids[at + i];
            units[i].rest = n - i;
        }
        f->first[0] = r->ids[at];
        trf__enter_phrase(r, first, 1, 0);
    }
    return TRF_OK;
}

/* Adds a text, unless the vocabulary cannot write it. */
TRF__FN trf_status trf__require_text(trf_translator *t, int64_t first, const trf_required *x,
                                     trf_error *err)
{
    trf__required *r = &t->required;
    int32_t n = (int32_t)strlen(x->text);
    trf__phrase *f;
    trf__unit *units;
    TRF__GROW(char, r->text, r->text_capacity, (int64_t)n + 2, &t->search.hooks);
    r->text[0] = ' ';
    memcpy(r->text + 1, x->text, (size_t)n + 1);
    TRF__TRY(trf__encode_all(t->reader.model->target, x->text, &r->cut, &t->search.hooks, err));
    TRF__TRY(trf__new_phrase(t, n, &f, &units, err));
    f->bytes = 1;
    for (int32_t i = 0; i < n; i++) units[i].unit = (unsigned char)x->text[i];
    trf__set_copies(r, t->reader.model->config.unk, r->text + 1, f, units);
    if (f->cost < TRF__NEVER) trf__enter_phrase(r, first, x->times, x->exactly);
    return TRF_OK;
}

/* How often phrase f occurs in phrase g. */
TRF__FN int32_t trf__phrase_in(const trf__required *r, const trf__phrase *f, const trf__phrase *g)
{
    trf__met met = { 0, 0 };
    TRF__ZEROED(trf__phrases, all);
    all.units = r->units;
    if (f->bytes != g->bytes || f->n >= g->n) return 0;
    for (int32_t i = 0; i < g->n; i++) trf__phrase_unit(&all, f, &met, r->units[g->begin + i].unit);
    return trf__phrase_count(f, met);
}

/* Counts what is required of a sentence, with phrases from `first` on: one occurs in others too. */
TRF__FN trf_status trf__require_all(trf_translator *t, int64_t first, trf__phrases *p,
                                    trf_error *err)
{
    trf__required *r = &t->required;
    int64_t total = 0, n = r->n_each - first, phrase_next = 0;
    int32_t own[TRF__MAX_REQUIRED];
    TRF__FAIL_IF(n > TRF__MAX_REQUIRED, TRF_E_LIMIT, -1, "texts",
                 "a sentence must have at most %d different texts", (int)TRF__MAX_REQUIRED);
    for (int64_t k = 0; k < n; k++) own[k] = r->each[first + k].times;
    for (int64_t k = 0; k < n; k++) {
        trf__phrase *f = &r->each[first + k];
        int64_t times = own[k];
        for (int64_t j = 0; j < n; j++)
            times += (int64_t)own[j] * trf__phrase_in(r, f, &r->each[first + j]);
        f->times = (int32_t)trf__min64(times, TRF__NEVER);
        total += times * f->cost;
        phrase_next += f->bytes ? 4 : 2;
        TRF__FAIL_IF(total > TRF__MAX_PHRASE_TOKENS, TRF_E_LIMIT, -1, "texts",
                     "the texts of a sentence must have at most %d tokens together",
                     (int)TRF__MAX_PHRASE_TOKENS);
    }
    p->n = (int32_t)n;
    p->total = (int32_t)total;
    if (p->n > t->rules.phrases.n) t->rules.phrases.n = p->n;
    if (p->total > t->rules.phrases.total) t->rules.phrases.total = p->total;
    phrase_next = trf__min64(phrase_next, TRF__MAX_PHRASE_NEXT);
    if (phrase_next > t->rules.n_phrase_next) t->rules.n_phrase_next = (int32_t)phrase_next;
    return TRF_OK;
}

// >>require-call   the requirements of a call: checked, copied, given to its sentences

TRF__FN trf_status trf__fail_no_vocabs(trf_error *err)
{
    return trf__fail(err, TRF_E_STATE, -1, "vocabulary",
                     "the model has no vocabularies: see trf_model_set_vocabs");
}

/* Checks what a call requires of n sentences. */
TRF__COLD
TRF__FN trf_status trf__check_required(const trf_translator *t, const trf_requirements *x,
                                       int32_t n, trf_error *err)
{
    int32_t before = 0;
    if (!t->reader.model->target) return trf__fail_no_vocabs(err);
    if (x->n_texts < 0) return trf__fail_below(err, "n_texts", 0, x->n_texts);
    if (x->n_symbols < 0) return trf__fail_below(err, "n_symbols", 0, x->n_symbols);
    if (x->n_texts > 0 && !x->texts) return trf__fail_null(err, "texts");
    if (x->n_symbols > 0 && !x->symbols) return trf__fail_null(err, "symbols");
    for (int64_t k = 0; k < x->n_texts; before = x->texts[k++].sentence) {
        const trf_required *y = &x->texts[k];
        TRF__FAIL_IF(y->sentence < before || y->sentence >= n, TRF_E_INVALID_ARG, k, "sentence",
                     "text %lld: sentence must be %d to %d, got %d", (long long)k, (int)before,
                     (int)n - 1, (int)y->sentence);
        TRF__FAIL_IF(y->times < 1 || y->times > TRF__MAX_PHRASE_TOKENS, TRF_E_INVALID_ARG, k,
                     "times", "text %lld: times must be 1 to %d, got %d", (long long)k,
                     (int)TRF__MAX_PHRASE_TOKENS, (int)y->times);
        TRF__FAIL_IF(y->exactly < 0 || y->exactly > 1, TRF_E_INVALID_ARG, k, "exactly",
                     "text %lld: exactly must be 0 or 1, got %d", (long long)k, (int)y->exactly);
        if (!y->text) return trf__fail_null(err, "text");
        TRF__FAIL_IF(!*y->text || strlen(y->text) > TRF__MAX_PHRASE_TOKENS, TRF_E_INVALID_ARG, k,
                     "text", "text %lld must have 1 to %d bytes, got %llu", (long long)k,
                     (int)TRF__MAX_PHRASE_TOKENS, (unsigned long long)strlen(y->text));
        TRF__FAIL_IF(trf_find_invalid_utf8(y->text, strlen(y->text)) >= 0, TRF_E_FORMAT, k, "text",
                     "text %lld is not UTF-8", (long long)k);
    }
    for (int64_t k = 0; k < x->n_symbols; k++)
        TRF__FAIL_IF(x->symbols[k] < 0 || x->symbols[k] >= t->reader.model->config.target_vocab,
                     TRF_E_INVALID_ARG, k, "symbols", "symbol %lld: id must be 0 to %d, got %d",
                     (long long)k, (int)t->reader.model->config.target_vocab - 1,
                     (int)x->symbols[k]);
    return TRF_OK;
}

/* Copies the lists to the device, and gives each sentence its part. */
TRF__COLD
TRF__FN trf_status trf__upload_required(trf_translator *t, trf_error *err)
{
    trf__required *r = &t->required;
    int32_t n_symbols = t->rules.phrases.n_symbols;
    const trf__run *run = &t->reader.pass.run;
    int64_t bytes = (int64_t)trf__lists_bytes(r->n_each, r->n_units, n_symbols);
    if (bytes > r->device_bytes) {
        run->backend->release(run, r->device, (size_t)r->device_bytes);
        r->device = run->backend->alloc(run, (size_t)bytes);
        r->device_bytes = r->device ? bytes : 0;
        TRF__FAIL_IF(!r->device, TRF_E_NOMEM, -1, "texts", "no memory for %lld phrases",
                     (long long)r->n_each);
    }
    trf__cursor cursor = trf__cursor_at(r->device);
    trf__phrase *each = TRF__TAKE(trf__phrase, &cursor, r->n_each);
    trf__unit *units = TRF__TAKE(trf__unit, &cursor, r->n_units);
    int32_t *symbols = TRF__TAKE(int32_t, &cursor, n_symbols);
    run->backend->upload(run, each, r->each, (size_t)r->n_each * sizeof *each);
    run->backend->upload(run, units, r->units, (size_t)r->n_units * sizeof *units);
    run->backend->upload(run, symbols, r->symbols, (size_t)n_symbols * sizeof *symbols);
    for (int64_t i = 0; i < r->n_of; i++) {
        trf__phrases *p = &r->of[i];
        p->each = each;
        p->units = units;
        p->symbols = symbols;
        p->n_symbols = n_symbols;
        p->ends = (const int32_t *)r->writes;
        if (p->ends) p->texts = (const char *)(p->ends + t->reader.model->config.target_vocab);
        each += p->n;
    }
    return run->backend->sync(run, err);
}

/* Sets the phrases of all sentences of a call: those of the search, and texts if x is not NULL.
   Without texts all sentences have the same ones, which stand there once. */
TRF__COLD
TRF__FN trf_status trf__require(trf_translator *t, const trf_requirements *x, int32_t n,
                                trf_error *err)
{
    trf__required *r = &t->required;
    const trf_vocab *v = t->reader.model->target;
    int drops_blank = v && (v->kind == TRF_WORDS || v->wordpiece ||
                            (v->pieces && (v->pieces->dummy_prefix || v->pieces->remove_extra)));
    int64_t k = 0, first = 0;
    int32_t lists = x && x->n_texts > 0 ? n : 1;
    t->rules.phrases.n = t->rules.phrases.total = t->rules.n_phrase_next = 0;
    t->rules.phrases.n_symbols = x ? x->n_symbols : 0;
    r->n_each = r->n_units = r->n_of = 0;
    if (x) TRF__TRY(trf__check_required(t, x, n, err));
    if (!(x && x->n_texts + x->n_symbols > 0) && !r->n_ids) return TRF_OK;
    if (x) {
        const size_t symbols = (size_t)x->n_symbols;
        TRF__TRY(trf__learn_writing(t, err));
        TRF__GROW(int32_t, r->symbols, r->symbols_capacity, x->n_symbols, &t->search.hooks);
        if (symbols) memcpy(r->symbols, x->symbols, symbols * sizeof *r->symbols);
        trf__sort_items(r->symbols, symbols, sizeof *r->symbols, trf__by_id);
    }
    TRF__GROW(trf__phrases, r->of, r->of_capacity, lists, &t->search.hooks);
    for (int32_t i = 0; i < lists; i++, first = r->n_each) {
        TRF__ZERO(r->of[i]);
        r->of[i].drops_blank = drops_blank;
        TRF__TRY(trf__require_ids(t, first, err));
        for (; x && k < x->n_texts && x->texts[k].sentence == i; k++)
            TRF__TRY(trf__require_text(t, first, &x->texts[k], err));
        TRF__TRY(trf__require_all(t, first, &r->of[i], err));
    }
    r->n_of = lists;
    return trf__upload_required(t, err);
}

TRF_API int32_t trf_text_count(const char *in, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    const char *at = in, *found;
    int32_t count = 0;
    if (!in || n == 0) return 0;
    while ((found = strstr(at, text)) != NULL) {
        int before = found > in && trf__is_digit(found[-1]) && trf__is_digit(text[0]);
        int after = trf__is_digit(found[n]) && trf__is_digit(text[n - 1]);
        at = found + (before || after ? 1 : n);
        count += !before && !after;
    }
    return count;
}

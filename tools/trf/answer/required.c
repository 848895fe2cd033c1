// trf translate: texts that the answer to a line must contain: what --keep matches, --phrase,
// --phrase-file, --glossary.
//
// Here they are found and, when the answers are there, counted; the library searches for answers
// that have them (trf_translate_options.required).

#include "answer.h"

enum { MOST = 1000 };           /* different texts of a line; the library takes 1,024 */

static int read_patterns(struct required *r, const struct settings *s, const trf_model *model)
{
    int k, none = 0, status = DONE;
    for (k = 0; k < s->rules.keeps.n; k++) none |= !strcmp(s->rules.keeps.item[k], "none");
    if (!none) status = add_patterns(&r->patterns, s->model, trf_model_metadata(model, keep_key));
    for (k = 0; k < s->rules.keeps.n && !status; k++)
        if (strcmp(s->rules.keeps.item[k], "none"))
            status = add_pattern(&r->patterns, "--keep", s->rules.keeps.item[k]);
    r->own = !none;
    return status;
}

static void add_symbol(struct required *r, size_t *capacity, int32_t id)
{
    r->symbols = grow(r->symbols, capacity, (size_t)r->n_symbols + 1, sizeof *r->symbols);
    r->symbols[r->n_symbols++] = id;
}

/* Whether a text is a match as a whole, and no word: it has a character besides letters. */
static int is_kept(struct required *r, const char *text)
{
    const char *at = text;
    size_t begin, end;
    while ((*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || (unsigned char)*at >= 0x80) at++;
    return *at && next_match(&r->patterns, text, 0, &begin, &end) && begin == 0 && !text[end];
}

/* Tokens that are kept texts: no answer has one that its source lacks. They are the model's symbols,
   and others that match, without the mark of a blank (of SentencePiece or byte-level BPE). */
static void find_symbols(struct required *r, const trf_model *model, const trf_vocab *vocab)
{
    static const char *const blanks[] = {"\xE2\x96\x81", "\xC4\xA0"};
    const char *lines = r->own ? trf_model_metadata(model, symbols_key) : NULL;
    size_t capacity = 0, n;
    int32_t id, size = r->patterns.n ? trf_vocab_size(vocab) : 0, unk = unknown_id(vocab);
    int k;
    for (; lines && *lines; lines += n + (lines[n] == '\n')) {
        char *text = format_text("%.*s", (int)(n = strcspn(lines, "\n")), lines);
        id = trf_vocab_id(vocab, text);
        if (id != unk) add_symbol(r, &capacity, id);
        free(text);
    }
    for (id = 0; id < size; id++) {
        const char *text = trf_vocab_token(vocab, id);
        if (trf_vocab_id(vocab, text) == unk) continue;         /* a special one */
        for (k = 0; k < 2; k++)
            if (!strncmp(text, blanks[k], strlen(blanks[k]))) text += strlen(blanks[k]);
        if (is_kept(r, text)) add_symbol(r, &capacity, id);
    }
}

int open_required(struct required *r, const struct settings *s, const trf_model *model,
                  const trf_vocab *target)
{
    int status = read_patterns(r, s, model);
    r->s = s;
    if (!status && s->rules.phrase_file) status = open_reader(&r->phrases, s->rules.phrase_file);
    if (!status && s->rules.glossary) status = read_glossary(&r->glossary, s->rules.glossary);
    if (!status) find_symbols(r, model, target);
    r->any = r->patterns.n || s->rules.phrases.n || s->rules.phrase_file || s->rules.glossary;
    return status;
}

/* Adds a text that a sentence needs; the first of its texts is number `first`. */
static void require(struct required *r, size_t first, int32_t sentence, const char *text, size_t n,
                    int exactly)
{
    trf_required *x;
    size_t k;
    for (k = first; k < r->n; k++) {
        x = &r->item[k];
        if (x->exactly != exactly || strlen(x->text) != n || memcmp(x->text, text, n)) continue;
        x->times++;
        return;
    }
    if (!n || r->n - first >= MOST) return;
    r->item = grow(r->item, &r->capacity, r->n + 1, sizeof *r->item);
    x = &r->item[r->n++];
    x->sentence = sentence;
    x->times = 1;
    x->exactly = exactly;
    x->text = format_text("%.*s", (int)n, text);
}

/* The translations of terms in a part of a line, from `at` to `end`. */
static void require_terms(struct required *r, size_t first, int32_t sentence, const char *line,
                          size_t at, size_t end)
{
    while (at < end) {
        size_t n = 0;
        const char *translation = find_term(&r->glossary, line, at, end, &n);
        if (translation) require(r, first, sentence, translation, strlen(translation), 0);
        for (at += n ? n : 1; at < end && ((unsigned char)line[at] & 0xC0) == 0x80; at++) { }
    }
}

const char *next_phrases(struct required *r)
{
    int got;
    r->fault = NULL;
    if (!r->phrases.file) return "";
    got = next_line(&r->phrases);
    if (got > 0) r->fault = r->phrases.fault;
    return got > 0 ? r->phrases.line : "";
}

void require_line(struct required *r, const char *line, const char *phrases, int32_t sentence)
{
    size_t first = r->n, from = 0, begin, end;
    int k;
    for (k = 0; k < r->s->rules.phrases.n; k++) {
        const char *text = r->s->rules.phrases.item[k];
        require(r, first, sentence, text, strlen(text), 0);
    }
    for (; *phrases; phrases += end + (phrases[end] == '\t'))
        require(r, first, sentence, phrases, end = strcspn(phrases, "\t"), 0);
    for (; next_match(&r->patterns, line, from, &begin, &end); from = end) {
        require_terms(r, first, sentence, line, from, begin);
        require(r, first, sentence, line + begin, end - begin, 1);
    }
    require_terms(r, first, sentence, line, from, strlen(line));
}

trf_requirements requirements_of(const struct required *r)
{
    trf_requirements x = {r->item, (int64_t)r->n, r->symbols, r->n_symbols};
    return x;
}

/* How often a sentence needs a text: each text has an occurrence of its own. */
static int64_t times_of(const trf_required *item, size_t n, const char *text)
{
    int64_t times = 0;
    size_t k;
    for (k = 0; k < n; k++) times += (int64_t)item[k].times * trf_text_count(item[k].text, text);
    return times;
}

void check_answer(struct required *r, const char *name, int64_t line, int32_t sentence,
                  const char *answer)
{
    const trf_required *item;
    size_t n = 0, k;
    int wrong = 0;
    while (r->checked < r->n && r->item[r->checked].sentence < sentence) r->checked++;
    item = r->item + r->checked;
    while (r->checked + n < r->n && item[n].sentence == sentence) n++;
    for (k = 0; k < n; k++) {
        int64_t times = times_of(item, n, item[k].text), got = trf_text_count(answer, item[k].text);
        if (got == times || (got > times && !item[k].exactly)) continue;
        say("%s:%lld: the answer has '%s' %lld time%s instead of %lld", name, (long long)line,
            item[k].text, (long long)got, plural(got), (long long)times);
        wrong = 1;
    }
    r->asked += n > 0;
    r->wrong += wrong;
}

void clear_required(struct required *r)
{
    for (; r->n > 0; r->n--) free((char *)(uintptr_t)r->item[r->n - 1].text);
    r->checked = 0;
}

int say_required(const struct required *r)
{
    if (!r->wrong) return DONE;
    say("%lld of %lld answer%s must contain texts and %s not as asked: they are the best that the "
        "search found", (long long)r->wrong, (long long)r->asked, plural(r->asked),
        r->wrong == 1 ? "one does" : "these do");
    return r->s->train.strict ? FAILED : DONE;
}

void close_required(struct required *r)
{
    clear_required(r);
    free(r->item);
    free(r->symbols);
    close_reader(&r->phrases);
    free_patterns(&r->patterns);
    free_glossary(&r->glossary);
}

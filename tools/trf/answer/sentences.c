// trf translate --sentences: a line is cut into sentences, which are translated one by one.
//
// ICU finds where sentences end, by the rules of a language and without stopping behind its usual
// abbreviations. The blanks between sentences belong to the line: they stand between the answers.

#include "answer.h"

#ifdef TRF_WITH_ICU

#include <unicode/ubrk.h>

struct cutter {
    UBreakIterator *rules;
    UText *text;
};

static int refused_by_icu(const char *locale, UErrorCode code)
{
    say("--sentences %s: %s", locale, u_errorName(code));
    return FAILED;
}

int open_cutter(struct cutter **cutter, const char *locale)
{
    UErrorCode code = U_ZERO_ERROR;
    char *name = format_text("%s%css=standard", locale, strchr(locale, '@') ? ';' : '@');
    struct cutter *c = zeroed(1, sizeof *c);
    *cutter = c;
    c->rules = ubrk_open(UBRK_SENTENCE, name, NULL, 0, &code);
    free(name);
    return U_FAILURE(code) ? refused_by_icu(locale, code) : DONE;
}

void close_cutter(struct cutter *c)
{
    if (!c) return;
    if (c->rules) ubrk_close(c->rules);
    if (c->text) utext_close(c->text);
    free(c);
}

static size_t next_end(struct cutter *c, size_t bytes)
{
    int32_t at = ubrk_next(c->rules);
    return at == UBRK_DONE ? bytes : (size_t)at;
}

void cut_sentences(struct cutter *c, const char *text, int32_t line, struct sentences *to)
{
    UErrorCode code = U_ZERO_ERROR;
    size_t bytes = strlen(text), at = 0, begin, end;
    int cuts;
    c->text = utext_openUTF8(c->text, text, (int64_t)bytes, &code);
    if (U_SUCCESS(code)) ubrk_setUText(c->rules, c->text, &code);
    cuts = U_SUCCESS(code);             /* of no memory: the line is one sentence */
    while (at < bytes) {
        begin = at;
        end = at = cuts ? next_end(c, bytes) : bytes;
        while (begin < end && strchr(" \t", text[begin])) begin++;
        while (end > begin && strchr(" \t", text[end - 1])) end--;
        if (begin == end) continue;
        to->item = grow(to->item, &to->capacity, to->n + 1, sizeof *to->item);
        to->item[to->n].begin = begin;
        to->item[to->n].end = end;
        to->item[to->n++].line = line;
    }
}

#else

struct cutter { int none; };

int open_cutter(struct cutter **cutter, const char *locale)
{
    (void)locale;
    *cutter = NULL;
    say("--sentences needs ICU, and this trf was built without it: install libicu-dev and make "
        "again");
    return USAGE;
}

void close_cutter(struct cutter *c) { (void)c; }

void cut_sentences(struct cutter *c, const char *text, int32_t line, struct sentences *to)
{
    (void)c; (void)text; (void)line; (void)to;
}

#endif

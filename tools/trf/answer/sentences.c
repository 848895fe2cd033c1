// trf translate --sentences: a line is cut into sentences, which are translated one by one.
//
// ICU finds where sentences end, by the rules of a language and without stopping behind its usual
// abbreviations. The blanks between sentences belong to the line: they stand between the answers.

#include "answer.h"

#ifdef TRF_WITH_ICU

#include <dlfcn.h>
#include <unicode/ubrk.h>

/* ICU is loaded when a line is to be cut: linked, its 30 MB of data would lie in the address space
   of every command. Its headers give each function a name with the version. */
#define NAME_OF(name) #name
#define SYMBOL(name) NAME_OF(name)
#define USED(X) X(ubrk_open) X(ubrk_close) X(ubrk_setUText) X(ubrk_next) X(utext_openUTF8) \
    X(utext_close) X(u_errorName)

struct cutter {
    UBreakIterator *rules;
    UText *text;
    void *library;
    struct {
        UBreakIterator *(*ubrk_open)(UBreakIteratorType, const char *, const UChar *, int32_t,
                                     UErrorCode *);
        void (*ubrk_close)(UBreakIterator *);
        void (*ubrk_setUText)(UBreakIterator *, UText *, UErrorCode *);
        int32_t (*ubrk_next)(UBreakIterator *);
        UText *(*utext_openUTF8)(UText *, const char *, int64_t, UErrorCode *);
        UText *(*utext_close)(UText *);
        const char *(*u_errorName)(UErrorCode);
    } icu;
};

static int load_icu(struct cutter *c)
{
    static const char name[] = "libicuuc.so." U_ICU_VERSION_SHORT;
    int missing = !(c->library = dlopen(name, RTLD_NOW | RTLD_LOCAL));
#define FIND(function) \
    if (!missing) { \
        void *found = dlsym(c->library, SYMBOL(function)); \
        missing = !found; \
        memcpy(&c->icu.function, &found, sizeof found); \
    }
    USED(FIND)
#undef FIND
    if (!missing) return DONE;
    say("--sentences: ICU cannot be loaded: %s", dlerror());
    return FAILED;
}

int open_cutter(struct cutter **cutter, const char *locale)
{
    UErrorCode code = U_ZERO_ERROR;
    char *name = format_text("%s%css=standard", locale, strchr(locale, '@') ? ';' : '@');
    struct cutter *c = zeroed(1, sizeof *c);
    int status;
    *cutter = c;
    status = load_icu(c);
    if (!status) c->rules = c->icu.ubrk_open(UBRK_SENTENCE, name, NULL, 0, &code);
    free(name);
    if (status || !U_FAILURE(code)) return status;
    say("--sentences %s: %s", locale, c->icu.u_errorName(code));
    return FAILED;
}

void close_cutter(struct cutter *c)
{
    if (!c) return;
    if (c->rules) c->icu.ubrk_close(c->rules);
    if (c->text) c->icu.utext_close(c->text);
    if (c->library) dlclose(c->library);
    free(c);
}

static size_t next_end(struct cutter *c, size_t bytes)
{
    int32_t at = c->icu.ubrk_next(c->rules);
    return at == UBRK_DONE ? bytes : (size_t)at;
}

void cut_sentences(struct cutter *c, const char *text, int32_t line, struct sentences *to)
{
    UErrorCode code = U_ZERO_ERROR;
    size_t bytes = strlen(text), at = 0, begin, end;
    int cuts;
    c->text = c->icu.utext_openUTF8(c->text, text, (int64_t)bytes, &code);
    if (U_SUCCESS(code)) c->icu.ubrk_setUText(c->rules, c->text, &code);
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

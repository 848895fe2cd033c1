// trf: finds the words of a source that the model does not know; answers copy or drop them.
//
// A vocabulary does not say which part of the text has an unknown id. With characters, token i is
// character i of the line. Words and subwords are encoded word by word; if that gives other ids
// than the whole line, as with some SentencePiece models, the unknown words cannot be found.

#include "base.h"

static void add_span(struct spans *to, const char *text, size_t bytes, int32_t from, int32_t end)
{
    struct span *s;
    to->item = grow(to->item, &to->capacity, to->n + 1, sizeof *to->item);
    s = &to->item[to->n++];
    s->text = text;
    s->bytes = bytes;
    s->from = from;
    s->end = end;
}

/* Adjacent unknown characters form one span. */
static void find_characters(const trf_vocab *vocab, const char *line, const int32_t *ids, int32_t n,
                            struct spans *to)
{
    const int32_t unk = unknown_id(vocab);
    const char *end = line + strlen(line);
    uint32_t c;
    int32_t i;
    for (i = 0; i < n && *line; i++) {
        size_t bytes = character_of(line, (size_t)(end - line), &c);
        struct span *last = to->n ? &to->item[to->n - 1] : NULL;
        if (ids[i] == unk && last && last->end == i) { last->bytes += bytes; last->end++; }
        else if (ids[i] == unk) add_span(to, line, bytes, i, i + 1);
        line += bytes;      /* the line has been encoded: it is UTF-8 */
    }
}

static void find_words(const trf_vocab *vocab, const char *line, const int32_t *ids, int32_t n,
                       struct spans *to)
{
    struct word_tokens words;
    int32_t w, i;
    memset(&words, 0, sizeof words);
    if (!encode_words(vocab, line, &words) && words.n == n &&
        !memcmp(words.ids, ids, (size_t)n * sizeof *ids))
        for (w = 0; w < words.n_words; w++) {
            int32_t end = w + 1 < words.n_words ? words.first[w + 1] : n;
            size_t bytes;
            line += strspn(line, BLANKS);
            bytes = strcspn(line, BLANKS);
            for (i = words.first[w]; i < end && ids[i] != unknown_id(vocab); i++) { }
            if (i < end) add_span(to, line, bytes, words.first[w], end);
            line += bytes;      /* the line has been encoded: it is UTF-8 */
        }
    free_word_tokens(&words);
}

void find_unknown(const trf_vocab *vocab, const char *line, const int32_t *ids, int32_t n,
                  struct spans *to)
{
    int32_t i;
    to->n = 0;
    for (i = 0; i < n && ids[i] != unknown_id(vocab); i++) { }
    if (i == n) return;
    if (trf_vocab_kind(vocab) == TRF_CHARACTERS) find_characters(vocab, line, ids, n, to);
    else find_words(vocab, line, ids, n, to);
}

void report_unknown(const struct spans *spans, const char *file, int64_t line)
{
    enum { NAMED = 8 };
    char *list = format_text("%s", ""), *longer;
    size_t i;
    for (i = 0; i < spans->n && i < NAMED; i++) {
        longer = format_text("%s%s'%.*s'", list, i ? ", " : "", (int)spans->item[i].bytes,
                             spans->item[i].text);
        free(list);
        list = longer;
    }
    if (spans->n > NAMED)
        say("%s:%lld: unknown to the model: %s and %zu more", file, (long long)line, list,
            spans->n - NAMED);
    else if (spans->n) say("%s:%lld: unknown to the model: %s", file, (long long)line, list);
    free(list);
}

static void append(char **text, size_t *used, size_t *capacity, const char *more, size_t bytes)
{
    *text = grow(*text, capacity, *used + bytes + 1, 1);
    memcpy(*text + *used, more, bytes);
    *used += bytes;
    (*text)[*used] = 0;
}

/* Whether a space comes before a token: before every word, and before subwords that begin with
   U+2581. */
static int begins_word(const trf_vocab *vocab, int32_t id)
{
    trf_token_kind kind = trf_vocab_kind(vocab);
    return kind == TRF_WORDS ||
           (kind == TRF_SENTENCEPIECE && !strncmp(trf_vocab_token(vocab, id), "\xE2\x96\x81", 3));
}

/* Whether an unknown token is replaced: a copy exists for it, or all of them are dropped. */
static int is_replaced(int32_t unk, const int32_t *ids, int32_t i, const struct span *const *copies)
{
    return ids[i] == unk && (!copies || copies[i]);
}

char *text_without_unknown(const trf_vocab *vocab, const int32_t *ids, int32_t n,
                           const struct span *const *copies)
{
    size_t capacity = 0, used = 0, part_capacity = 0;
    char *text = grow(NULL, &capacity, 1, 1), *part = NULL;
    int32_t i, end, unk = unknown_id(vocab);
    *text = 0;
    for (i = 0; i < n; i = end) {
        int space = used > 0 && text[used - 1] != ' ' && begins_word(vocab, ids[i]);
        const struct span *copy = copies ? copies[i] : NULL;
        end = i + 1;
        if (is_replaced(unk, ids, i, copies)) {
            while (copy && end < n && ids[end] == unk && copies[end] == copy) end++;
            if (copy && space) append(&text, &used, &capacity, " ", 1);
            if (copy) append(&text, &used, &capacity, copy->text, copy->bytes);
            continue;
        }
        while (end < n && !is_replaced(unk, ids, end, copies)) end++;
        if (!text_of(vocab, ids + i, end - i, &part, &part_capacity)) { free(text); return NULL; }
        if (space) append(&text, &used, &capacity, " ", 1);
        append(&text, &used, &capacity, part, strlen(part));
    }
    while (used && text[used - 1] == ' ') text[--used] = 0;
    free(part);
    return text;
}

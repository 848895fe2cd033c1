/* The stored bytes of a WordPiece vocabulary (transformer.h, >>wordpiece) from a list of tokens and
   the settings of BERT's tokenizer. Four settings decide what becomes of a character; tools/unicode
   has the facts. The same bytes come from tools/parity/wordpiece_table.py. */
#ifndef WORDPIECE_FILE_H
#define WORDPIECE_FILE_H

#include "import.h"
#include "tools/unicode/unicode.h"

/* BertNormalizer's settings, and the other numbers of the file. special: pad bos eos unk mask cls
   sep, -1 for none. BERT: cleanup 1, longest 100. */
typedef struct wordpiece_settings {
    int clean, chinese, strip, lower;
    int cleanup;
    uint32_t longest;
    int32_t special[7];
} wordpiece_settings;

enum { WORDPIECE_DROPPED = 1, WORDPIECE_WHITE = 2, WORDPIECE_ALONE = 4, WORDPIECE_CJK = 8,
       WORDPIECE_MARK = 16 };

/* The facts of each code point. lower: 0 for itself. */
typedef struct wordpiece_facts {
    unsigned char is[UNICODE_POINTS];
    uint32_t parts[UNICODE_POINTS][2], lower[UNICODE_POINTS];
} wordpiece_facts;

static void wordpiece_mark(wordpiece_facts *f, const uint32_t *set, size_t n, int what)
{
    struct unicode_range range = {0, 0, 0};
    uint32_t c;
    while (unicode_next(set, n, &range))
        for (c = range.first; c < range.end; c++) f->is[c] = (unsigned char)(f->is[c] | what);
}

static wordpiece_facts *wordpiece_know(void)
{
    wordpiece_facts *f = zeroed(1, sizeof *f);
    size_t i;
    int32_t c;
    wordpiece_mark(f, unicode_dropped, UNICODE_COUNT(unicode_dropped), WORDPIECE_DROPPED);
    wordpiece_mark(f, unicode_white, UNICODE_COUNT(unicode_white), WORDPIECE_WHITE);
    wordpiece_mark(f, unicode_alone, UNICODE_COUNT(unicode_alone), WORDPIECE_ALONE);
    wordpiece_mark(f, unicode_cjk, UNICODE_COUNT(unicode_cjk), WORDPIECE_CJK);
    wordpiece_mark(f, unicode_marks, UNICODE_COUNT(unicode_marks), WORDPIECE_MARK);
    unicode_parts(f->parts, 0);
    for (i = 0; i < UNICODE_COUNT(unicode_lower); i++)
        for (c = unicode_lower[i][0]; c <= unicode_lower[i][1]; c += unicode_lower[i][2])
            f->lower[c] = (uint32_t)(c + unicode_lower[i][3]);
    return f;
}

/* What is left of a code point without accents: at most 3. Returns their number. */
static int wordpiece_strip(const wordpiece_facts *f, uint32_t c, uint32_t *to)
{
    int n;
    if (f->is[c] & WORDPIECE_MARK) return 0;
    if (!f->parts[c][0]) {
        *to = c;
        return 1;
    }
    n = wordpiece_strip(f, f->parts[c][0], to);
    return f->parts[c][1] ? n + wordpiece_strip(f, f->parts[c][1], to + n) : n;
}

/* What is left of a code point without accents, and then of each character in lower case. Returns
   the number of characters, at most 6. */
static int wordpiece_map(const wordpiece_facts *f, const wordpiece_settings *s, uint32_t c,
                         uint32_t to[6])
{
    uint32_t from[3] = {c};
    int n = s->strip ? wordpiece_strip(f, c, from) : 1, m = 0, i;
    for (i = 0; i < n; i++) {
        if (s->lower && from[i] == 0x130) { to[m++] = 0x69; to[m++] = 0x307; }
        else to[m++] = s->lower && f->lower[from[i]] ? f->lower[from[i]] : from[i];
    }
    return m;
}

/* The offset of a text among the replacements, where it is added if it is new. */
static uint32_t wordpiece_text(made_file *replaced, const uint32_t *text, int n)
{
    char one[6 * 4 + 1];
    size_t at, length = 0;
    int i;
    for (i = 0; i < n; i++) length += write_character(one + length, text[i]);
    one[length] = 0;
    for (at = 0; at < replaced->n; at += strlen((const char *)replaced->bytes + at) + 1)
        if (!strcmp((const char *)replaced->bytes + at, one)) return (uint32_t)at;
    put_bytes(replaced, one, length + 1);
    return (uint32_t)at;
}

/* The kind and the argument of a code point's rule, as BertNormalizer and BertPreTokenizer treat
   it. Kind 2 and argument 0: it needs none. */
static uint32_t wordpiece_treat(const wordpiece_facts *f, const wordpiece_settings *s, uint32_t c,
                                made_file *replaced, uint32_t *argument)
{
    uint32_t to[6] = {0};
    int n, alone;
    *argument = 0;
    if (s->clean && f->is[c] & WORDPIECE_DROPPED) return 0;
    if (f->is[c] & WORDPIECE_WHITE) return 1;
    if (s->strip && c >= 0xAC00 && c <= 0xD7A3) return 4;
    n = wordpiece_map(f, s, c, to);
    if (n == 0) return 0;
    if (f->is[to[0]] & WORDPIECE_WHITE) return 1;       /* U+2000 is U+2002 without accents */
    alone = (s->chinese && f->is[c] & WORDPIECE_CJK) || f->is[to[0]] & WORDPIECE_ALONE ? 8 : 0;
    if (n == 1) *argument = to[0] - c;
    else *argument = wordpiece_text(replaced, to, n);
    return (uint32_t)((n == 1 ? 2 : 3) + alone);
}

/* Writes the rules of all code points; equal ones of neighbours are one. Returns their number. */
static uint32_t wordpiece_rules(const wordpiece_settings *s, made_file *rules,
                                made_file *replaced)
{
    wordpiece_facts *f = wordpiece_know();
    uint32_t c, first = 0, kind = 2, argument = 0, n = 0;
    for (c = 0; c <= UNICODE_POINTS; c++) {
        uint32_t next = 2, with = 0;
        if (c < UNICODE_POINTS && (c < 0xD800 || c >= 0xE000))
            next = wordpiece_treat(f, s, c, replaced, &with);
        if (next == kind && with == argument) continue;
        if (kind != 2 || argument != 0) {
            put_u32(rules, first);
            put_u32(rules, c - 1);
            put_u32(rules, kind);
            put_u32(rules, argument);
            n++;
        }
        first = c;
        kind = next;
        argument = with;
    }
    free(f);
    return n;
}

/* The whole file: `tokens` are n texts, each followed by a NUL, `size` bytes together. Returns a
   block for free(). trf_vocab_from_wordpiece checks the rest. */
static unsigned char *wordpiece_file(const wordpiece_settings *s, const char *tokens, size_t size,
                                     uint32_t n, size_t *bytes)
{
    made_file file, rules, replaced;
    uint32_t n_rules;
    int i;
    memset(&file, 0, sizeof file);
    memset(&rules, 0, sizeof rules);
    memset(&replaced, 0, sizeof replaced);
    n_rules = wordpiece_rules(s, &rules, &replaced);
    put_bytes(&file, "TRFWP\0\0\1", 8);
    put_u32(&file, s->cleanup ? 1 : 0);
    put_u32(&file, s->longest);
    for (i = 0; i < 7; i++) put_u32(&file, (uint32_t)s->special[i]);
    put_u32(&file, n);
    put_u32(&file, n_rules);
    put_bytes(&file, rules.bytes, rules.n);
    put_u32(&file, (uint32_t)replaced.n);
    put_bytes(&file, replaced.bytes, replaced.n);
    put_bytes(&file, tokens, size);
    free(rules.bytes);
    free(replaced.bytes);
    *bytes = file.n;
    return file.bytes;
}

#endif

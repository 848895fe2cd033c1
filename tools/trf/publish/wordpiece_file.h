/* The stored bytes of a WordPiece vocabulary (transformer.h, >>wordpiece) from a list of tokens and
   the settings of BERT's tokenizer. Four settings decide what becomes of a character; unicode.h has
   the facts. The same bytes come from tools/parity/wordpiece_table.py. */
#ifndef WORDPIECE_FILE_H
#define WORDPIECE_FILE_H

#include "import.h"
#include "unicode.h"

/* BertNormalizer's settings, and the other numbers of the file. special: pad bos eos unk mask cls
   sep, -1 for none. BERT: cleanup 1, longest 100. */
typedef struct wordpiece_settings {
    int clean, chinese, strip, lower;
    int cleanup;
    uint32_t longest;
    int32_t special[7];
} wordpiece_settings;

enum { WORDPIECE_POINTS = 0x110000, WORDPIECE_DROPPED = 1, WORDPIECE_WHITE = 2, WORDPIECE_ALONE = 4,
       WORDPIECE_CJK = 8, WORDPIECE_MARK = 16 };

/* The facts of unicode.h, one place for each code point. strip, lower: the code point that it
   becomes, or 0 for itself. several: the row of unicode_strip_several plus 1, or 0. */
typedef struct wordpiece_facts {
    unsigned char is[WORDPIECE_POINTS], several[WORDPIECE_POINTS];
    uint32_t strip[WORDPIECE_POINTS], lower[WORDPIECE_POINTS];
} wordpiece_facts;

static void wordpiece_mark(wordpiece_facts *f, const unsigned (*ranges)[2], size_t n, int what)
{
    size_t i;
    unsigned c;
    for (i = 0; i < n; i++)
        for (c = ranges[i][0]; c <= ranges[i][1]; c++) f->is[c] = (unsigned char)(f->is[c] | what);
}

#define WORDPIECE_COUNT(array) (sizeof(array) / sizeof *(array))
static wordpiece_facts *wordpiece_know(void)
{
    wordpiece_facts *f = zeroed(1, sizeof *f);
    size_t i;
    unsigned k;
    int c;
    wordpiece_mark(f, unicode_dropped, WORDPIECE_COUNT(unicode_dropped), WORDPIECE_DROPPED);
    wordpiece_mark(f, unicode_white, WORDPIECE_COUNT(unicode_white), WORDPIECE_WHITE);
    wordpiece_mark(f, unicode_alone, WORDPIECE_COUNT(unicode_alone), WORDPIECE_ALONE);
    wordpiece_mark(f, unicode_cjk, WORDPIECE_COUNT(unicode_cjk), WORDPIECE_CJK);
    wordpiece_mark(f, unicode_marks, WORDPIECE_COUNT(unicode_marks), WORDPIECE_MARK);
    for (i = 0; i < WORDPIECE_COUNT(unicode_strip); i += 2 + unicode_strip[i + 1])
        for (k = 0; k < unicode_strip[i + 1]; k++)
            f->strip[unicode_strip[i] + k] = unicode_strip[i + 2 + k];
    for (i = 0; i < WORDPIECE_COUNT(unicode_strip_several); i++)
        f->several[unicode_strip_several[i][0]] = (unsigned char)(i + 1);
    for (i = 0; i < WORDPIECE_COUNT(unicode_lower); i++)
        for (c = unicode_lower[i][0]; c <= unicode_lower[i][1]; c += unicode_lower[i][2])
            f->lower[c] = (uint32_t)(c + unicode_lower[i][3]);
    return f;
}

/* What is left of a code point without accents, and then of each character in lower case. Returns
   the number of characters, at most 6. */
static int wordpiece_map(const wordpiece_facts *f, const wordpiece_settings *s, uint32_t c,
                         uint32_t to[6])
{
    uint32_t from[3];
    int n = 1, m = 0, i;
    from[0] = c;
    if (s->strip && f->is[c] & WORDPIECE_MARK) return 0;
    if (s->strip && f->strip[c]) from[0] = f->strip[c];
    if (s->strip && f->several[c])
        for (n = 0; n < 3 && unicode_strip_several[f->several[c] - 1][n + 1]; n++)
            from[n] = unicode_strip_several[f->several[c] - 1][n + 1];
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
    for (c = 0; c <= WORDPIECE_POINTS; c++) {
        uint32_t next = 2, with = 0;
        if (c < WORDPIECE_POINTS && (c < 0xD800 || c >= 0xE000))
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

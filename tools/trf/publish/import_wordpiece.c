// trf import: the rules of a WordPiece vocabulary (transformer.h, >>wordpiece) follow from four
// settings of BERT's tokenizer and from the facts of tools/unicode. tools/parity/wordpiece_table.py
// makes the same rules.

#include "import.h"

#include "tools/unicode/unicode.h"

enum { DROPPED = 1, WHITE = 2, ALONE = 4, CJK = 8, MARK = 16 };
enum { DROP, SPACE, SHIFT, REPLACE, HANGUL, WORD = 8 };    /* kinds of rules */

/* The facts of each code point. lower: 0 for itself. */
struct facts {
    unsigned char is[UNICODE_POINTS];
    uint32_t parts[UNICODE_POINTS][2], lower[UNICODE_POINTS];
};

struct word_rules {
    const struct facts *facts;
    int32_t flags;                      /* the settings: WORDPIECE_... */
    int32_t (*rule)[4];
    size_t n, capacity;
    made_file replaced;
};

static void mark(struct facts *f, const uint32_t *set, size_t n, int what)
{
    struct unicode_range range = {0, 0, 0};
    uint32_t c;
    while (unicode_next(set, n, &range))
        for (c = range.first; c < range.end; c++) f->is[c] = (unsigned char)(f->is[c] | what);
}

static struct facts *all_facts(void)
{
    struct facts *f = zeroed(1, sizeof *f);
    size_t i;
    int32_t c;
    mark(f, unicode_dropped, UNICODE_COUNT(unicode_dropped), DROPPED);
    mark(f, unicode_white, UNICODE_COUNT(unicode_white), WHITE);
    mark(f, unicode_alone, UNICODE_COUNT(unicode_alone), ALONE);
    mark(f, unicode_cjk, UNICODE_COUNT(unicode_cjk), CJK);
    mark(f, unicode_marks, UNICODE_COUNT(unicode_marks), MARK);
    unicode_parts(f->parts, 0);
    for (i = 0; i < UNICODE_COUNT(unicode_lower); i++)
        for (c = unicode_lower[i][0]; c <= unicode_lower[i][1]; c += unicode_lower[i][2])
            f->lower[c] = (uint32_t)(c + unicode_lower[i][3]);
    return f;
}

/* What is left of a code point without accents: at most 3. Returns their number. */
static int strip(const struct facts *f, uint32_t c, uint32_t *to)
{
    int n;
    if (f->is[c] & MARK) return 0;
    if (!f->parts[c][0]) {
        *to = c;
        return 1;
    }
    n = strip(f, f->parts[c][0], to);
    return f->parts[c][1] ? n + strip(f, f->parts[c][1], to + n) : n;
}

/* What is left of a code point without accents, and then of each character in lower case. Returns
   the number of characters, at most 6. */
static int map(const struct facts *f, int32_t flags, uint32_t c, uint32_t to[6])
{
    uint32_t from[3] = {c};
    int n = flags & WORDPIECE_STRIP ? strip(f, c, from) : 1, m = 0, i;
    for (i = 0; i < n; i++) {
        int lower = flags & WORDPIECE_LOWER;
        if (lower && from[i] == 0x130) { to[m++] = 0x69; to[m++] = 0x307; }
        else to[m++] = lower && f->lower[from[i]] ? f->lower[from[i]] : from[i];
    }
    return m;
}

/* The offset of a text among the replacements, where it is added if it is new. */
static int32_t place_of(made_file *replaced, const uint32_t *text, int n)
{
    char one[6 * 4 + 1];
    size_t at, length = 0;
    int i;
    for (i = 0; i < n; i++) length += write_character(one + length, text[i]);
    one[length] = 0;
    for (at = 0; at < replaced->n; at += strlen((const char *)replaced->bytes + at) + 1)
        if (!strcmp((const char *)replaced->bytes + at, one)) return (int32_t)at;
    put_bytes(replaced, one, length + 1);
    return (int32_t)at;
}

/* The kind and the argument of a code point's rule, as BertNormalizer and BertPreTokenizer treat
   it. SHIFT and argument 0: it needs none. */
static int32_t treat(struct word_rules *r, uint32_t c, int32_t *argument)
{
    const struct facts *f = r->facts;
    uint32_t to[6] = {0};
    int n, word;
    *argument = 0;
    if (r->flags & WORDPIECE_CLEAN && f->is[c] & DROPPED) return DROP;
    if (f->is[c] & WHITE) return SPACE;
    if (r->flags & WORDPIECE_STRIP && c >= 0xAC00 && c <= 0xD7A3) return HANGUL;
    n = map(f, r->flags, c, to);
    if (n == 0) return DROP;
    if (f->is[to[0]] & WHITE) return SPACE;             /* U+2000 is U+2002 without accents */
    word = (r->flags & WORDPIECE_CHINESE && f->is[c] & CJK) || f->is[to[0]] & ALONE ? WORD : 0;
    *argument = n == 1 ? (int32_t)(to[0] - c) : place_of(&r->replaced, to, n);
    return (n == 1 ? SHIFT : REPLACE) + word;
}

/* The rules of all code points; equal ones of neighbours are one. */
static struct word_rules rules_of(const struct facts *f, int32_t flags)
{
    struct word_rules r;
    int32_t c, first = 0, kind = SHIFT, argument = 0;
    memset(&r, 0, sizeof r);
    r.facts = f;
    r.flags = flags;
    for (c = 0; c <= UNICODE_POINTS; c++) {
        int32_t next = SHIFT, with = 0;
        if (c < UNICODE_POINTS && (c < 0xD800 || c >= 0xE000)) next = treat(&r, (uint32_t)c, &with);
        if (next == kind && with == argument) continue;
        if (kind != SHIFT || argument != 0) {
            int32_t rule[4] = {first, c - 1, kind, argument};
            r.rule = grow(r.rule, &r.capacity, r.n + 1, sizeof *r.rule);
            memcpy(r.rule[r.n++], rule, sizeof rule);
        }
        first = c;
        kind = next;
        argument = with;
    }
    return r;
}

static void free_word_rules(struct word_rules *r)
{
    free(r->rule);
    free(r->replaced.bytes);
}

trf_status make_word_piece(trf_vocab **vocab, struct wordpiece_file *file, trf_error *err)
{
    struct facts *f = all_facts();
    struct word_rules r = rules_of(f, file->flags);
    unsigned char *bytes;
    trf_status status;
    size_t n;
    file->rules = (const int32_t *)r.rule;
    file->n_rules = (int32_t)r.n;
    file->replaced = (const char *)r.replaced.bytes;
    file->n_replaced = (int32_t)r.replaced.n;
    n = bytes_of_wordpiece(file, NULL);
    bytes = zeroed(n, 1);
    bytes_of_wordpiece(file, bytes);
    status = vocab_of_bytes(vocab, bytes, n, NULL, err);
    free(bytes);
    free_word_rules(&r);
    free(f);
    return status;
}

/* Whether a vocabulary stores these rules. */
static int has_rules(const unsigned char *bytes, const struct word_rules *r)
{
    enum { RULES_AT = 48, HEADER = 52 };
    size_t i;
    if (get_u32(bytes + RULES_AT) != r->n) return 0;
    for (i = 0; i < 4 * r->n; i++)
        if (get_u32(bytes + HEADER + 4 * i) != (uint32_t)r->rule[i / 4][i % 4]) return 0;
    bytes += HEADER + 16 * r->n;
    return get_u32(bytes) == r->replaced.n && (!r->replaced.n ||
           !memcmp(bytes + 4, r->replaced.bytes, r->replaced.n));
}

int find_word_piece(const unsigned char *bytes, int32_t *flags)
{
    struct facts *f;
    int32_t stored = (int32_t)get_u32(bytes + 8), settings;
    int found = 0;
    *flags = stored;
    if (stored & WORDPIECE_SETTINGS) return DONE;
    f = all_facts();
    for (settings = 15; settings >= 0 && !found; settings--) {
        struct word_rules r;
        *flags = stored | WORDPIECE_SETTINGS | WORDPIECE_CLEAN * settings;
        r = rules_of(f, *flags);
        found = has_rules(bytes, &r);
        free_word_rules(&r);
    }
    free(f);
    return found ? DONE : FAILED;
}

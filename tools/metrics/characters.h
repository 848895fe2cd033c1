// metrics: texts as characters, and their tokens. A part of metrics.c.
//
// Contents: >>memory  >>characters  >>tokens

// -----------------------------------------------------------------------------------------------
// >>memory         what a sentence needs; kept for the next one
// -----------------------------------------------------------------------------------------------

enum { MOST_UNITS = 1 << 29 };
#define ROOT UINT32_MAX             /* the prefix of a first symbol */
#define NONE (UINT32_MAX - 1)       /* an n-gram that the hypothesis does not have */

/* Characters, or numbers of words or n-grams. */
struct units { uint32_t *at; size_t n, capacity; };
/* Several texts: number t ends before units.at[ends.at[t]]. */
struct parts { struct units units, ends; };

/* A sequence of symbols is a path: each slot belongs to (slot of all symbols but the last, last
   symbol). */
struct slot { uint32_t prefix, symbol, stamp, in_hypothesis, in_reference, text, most; };
struct table { struct slot *slots; size_t allocated, mask; uint32_t stamp; };

/* Makes room for `more` units behind those that are there. */
static int reserve(struct units *u, size_t more)
{
    size_t wanted = u->capacity ? u->capacity : 256;
    uint32_t *at;
    if (u->at && more <= u->capacity - u->n) return METRICS_OK;
    if (more > MOST_UNITS - u->n) return METRICS_NO_MEMORY;
    while (wanted < u->n + more) wanted *= 2;
    at = wanted > SIZE_MAX / sizeof *at ? NULL : (uint32_t *)realloc(u->at, wanted * sizeof *at);
    if (!at) return METRICS_NO_MEMORY;
    u->at = at;
    u->capacity = wanted;
    return METRICS_OK;
}

/* There is room for it. */
static void put(struct units *u, uint32_t unit) { u->at[u->n++] = unit; }

/* An empty table for at most n sequences, half full then. */
static int prepare(struct table *t, size_t n)
{
    size_t wanted = 64;
    while (wanted < 2 * n) wanted *= 2;
    if (wanted > t->allocated) {
        struct slot *slots =
            wanted > SIZE_MAX / sizeof *slots ? NULL : (struct slot *)calloc(wanted, sizeof *slots);
        if (!slots) return METRICS_NO_MEMORY;
        free(t->slots);
        t->slots = slots;
        t->allocated = wanted;
        t->stamp = 0;
    }
    if (t->stamp == UINT32_MAX) {
        memset(t->slots, 0, t->allocated * sizeof *t->slots);
        t->stamp = 0;
    }
    t->stamp++;                     /* slots with another stamp are empty */
    t->mask = wanted - 1;
    return METRICS_OK;
}

/* The number of prefix with symbol behind it. If it is new: NONE, or with `insert` a new number. */
static uint32_t find(struct table *t, uint32_t prefix, uint32_t symbol, int insert)
{
    uint64_t key = ((uint64_t)prefix << 32 | symbol) * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)((key ^ key >> 32) * 0xD6E8FEB86659FD93u >> 32) & t->mask;
    struct slot *s;
    for (s = &t->slots[i]; s->stamp == t->stamp; s = &t->slots[i]) {
        if (s->prefix == prefix && s->symbol == symbol) return (uint32_t)i;
        i = (i + 1) & t->mask;
    }
    if (!insert) return NONE;
    memset(s, 0, sizeof *s);
    s->prefix = prefix;
    s->symbol = symbol;
    s->stamp = t->stamp;
    return (uint32_t)i;
}

static const uint32_t *text_at(const struct parts *p, size_t t, size_t *n)
{
    size_t begin = t ? p->ends.at[t - 1] : 0;
    *n = p->ends.at[t] - begin;
    return p->units.at + begin;
}

static void clear(struct parts *p) { p->units.n = p->ends.n = 0; }

static void free_parts(struct parts *p)
{
    free(p->units.at);
    free(p->ends.at);
}

// -----------------------------------------------------------------------------------------------
// >>characters     UTF-8, blanks, small letters
// -----------------------------------------------------------------------------------------------

/* The character at text, of which `left` bytes are there; returns its bytes. Well-formed is what
   Unicode's table 3-7 says. Any other byte is a character by itself, U+DC00 + byte, as with
   Python's "surrogateescape". */
static size_t character_at(const unsigned char *text, size_t left, uint32_t *c)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char b = text[0];
    size_t n = b < 0x80 ? 1 : b < 0xC2 ? 0 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : b < 0xF5 ? 4 : 0, i;
    *c = n > 1 ? b & (0x7Fu >> n) : b;
    for (i = 1; i < n && n <= left && (text[i] & 0xC0) == 0x80; i++)
        *c = *c << 6 | (text[i] & 0x3Fu);
    if (n > 0 && i >= n && *c >= least[n] && *c <= 0x10FFFF && !(*c >= 0xD800 && *c < 0xE000))
        return n;
    *c = 0xDC00u + b;
    return 1;
}

static int is_digit(uint32_t c) { return c >= '0' && c <= '9'; }

/* The blanks of Python's str.split(): all of Unicode's, and four controls of ASCII. */
static int is_blank(uint32_t c) { return (c >= 28 && c < 32) || UNICODE_IN(unicode_white, c); }

static uint32_t small_letter(uint32_t c)
{
    size_t low = 0, high = UNICODE_COUNT(unicode_lower);
    const int32_t *run;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uint32_t)unicode_lower[middle][1] < c) low = middle + 1; else high = middle;
    }
    if (low == UNICODE_COUNT(unicode_lower)) return c;
    run = unicode_lower[low];
    if (c < (uint32_t)run[0] || (c - (uint32_t)run[0]) % (uint32_t)run[2] ||
        UNICODE_IN(unicode_new_capitals, c))
        return c;
    return c + (uint32_t)run[3];
}

/* Whether the capital sigma at i ends a word (SpecialCasing.txt, Final_Sigma). */
static int ends_word(const uint32_t *s, size_t n, size_t i)
{
    size_t before = i, after = i + 1;
    while (before > 0 && UNICODE_IN(unicode_ignorable, s[before - 1])) before--;
    while (after < n && UNICODE_IN(unicode_ignorable, s[after])) after++;
    return before > 0 && UNICODE_IN(unicode_cased, s[before - 1]) &&
           (after == n || !UNICODE_IN(unicode_cased, s[after]));
}

/* As Python's str.lower(), for all of Unicode 14. Two letters depend on more than themselves: a
   final sigma, and U+0130, which becomes two characters. */
static int append_lower(struct units *to, const uint32_t *s, size_t n)
{
    size_t i;
    if (reserve(to, 2 * n)) return METRICS_NO_MEMORY;
    for (i = 0; i < n; i++) {
        if (s[i] == 0x130) { put(to, 'i'); put(to, 0x307); }
        else put(to, s[i] == 0x3A3 && ends_word(s, n, i) ? 0x3C2 : small_letter(s[i]));
    }
    return METRICS_OK;
}

// -----------------------------------------------------------------------------------------------
// >>tokens         13a, the tokenizer of WMT's mteval-v13a.pl
//
// As sacreBLEU's tokenizer_13a.py and tokenizer_re.py have it, step by step.
// -----------------------------------------------------------------------------------------------

/* Replaces each `from` by one character, or by none if `by` is 0. */
static void replace(struct units *u, const char *from, uint32_t by)
{
    size_t length = strlen(from), i = 0, n = 0, k;
    while (i < u->n) {
        for (k = 0; k < length && i + k < u->n && u->at[i + k] == (unsigned char)from[k]; k++) { }
        if (k < length) { u->at[n++] = u->at[i++]; continue; }
        if (by) u->at[n++] = by;
        i += length;
    }
    u->n = n;
}

/* ([\{-\~\[-\` -\&\(-\+\:-\@\/]): of ASCII all but letters, digits, controls and ' , - . */
static int stands_alone(uint32_t c)
{
    return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

static int is_stop(uint32_t c) { return c == '.' || c == ','; }
static int no_digit(uint32_t c) { return !is_digit(c); }
static int is_dash(uint32_t c) { return c == '-'; }

typedef int kind(uint32_t c);

/* Puts a blank between two neighbours, and one before (or after) them: pairs from left to right,
   none overlaps. */
static int part_pairs(const struct units *from, struct units *to, kind *first, kind *second,
                      int before)
{
    size_t i = 0;
    to->n = 0;
    if (reserve(to, 2 * from->n)) return METRICS_NO_MEMORY;
    while (i < from->n) {
        uint32_t c = from->at[i++];
        if (i == from->n || !first(c) || !second(from->at[i])) { put(to, c); continue; }
        if (before) put(to, ' ');
        put(to, c);
        put(to, ' ');
        put(to, from->at[i++]);
        if (!before) put(to, ' ');
    }
    return METRICS_OK;
}

/* The line with blanks around its tokens, in scratch[0]. */
static int tokenize_13a(struct units scratch[2], const uint32_t *s, size_t n)
{
    struct units *a = &scratch[0], *b = &scratch[1];
    size_t i;
    while (n > 0 && is_blank(s[n - 1])) n--;
    a->n = b->n = 0;
    if (reserve(a, n) || reserve(b, 3 * n + 2)) return METRICS_NO_MEMORY;
    for (i = 0; i < n; i++) put(a, s[i]);
    replace(a, "<skipped>", 0);
    replace(a, "-\n", 0);
    replace(a, "\n", ' ');
    replace(a, "&quot;", '"');
    replace(a, "&amp;", '&');
    replace(a, "&lt;", '<');
    replace(a, "&gt;", '>');
    put(b, ' ');
    for (i = 0; i < a->n; i++) {
        int alone = stands_alone(a->at[i]);
        if (alone) put(b, ' ');
        put(b, a->at[i]);
        if (alone) put(b, ' ');
    }
    put(b, ' ');
    if (part_pairs(b, a, no_digit, is_stop, 0))
        return METRICS_NO_MEMORY; /* ([^0-9])([\.,]) -> \1 \2_ */
    if (part_pairs(a, b, is_stop, no_digit, 1))
        return METRICS_NO_MEMORY;                  /* ([\.,])([^0-9]) -> _\1 \2 */
    return part_pairs(b, a, is_digit, is_dash, 0); /* ([0-9])(-)      -> \1 \2_ */
}

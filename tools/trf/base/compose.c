// trf train: the map by which a SentencePiece model composes text. What is one character in
// Unicode's NFC becomes that character; a tab or a line end becomes a blank. Nothing else changes.
//
// The form is SentencePiece's "precompiled_charsmap": a 32-bit number of bytes, a double array of
// rules as darts-clone has it (Aoe 1989), then the texts that the rules lead to, each with a NUL
// after it. A cell of it is
//
//   31 30          10  9  8  7     0
//    0 |   offset  | 0| e|  label  |      the node that byte `label` leads to; its child for byte
//                                         c is cell (its own number) ^ offset ^ c; e: a rule ends
//                                         here, its value is child 0
//    1 |      begin of a text      |      a value

#include "base.h"
#include "tools/unicode/unicode.h"

enum { MOST_KEY = 17,                   /* four characters and a NUL */
       /* Unicode 3.12, "Conjoining Jamo Behavior" */
       LEADING = 0x1100, VOWEL = 0x1161, TRAILING = 0x11A7, SYLLABLE = 0xAC00,
       LEADINGS = 19, VOWELS = 21, TRAILINGS = 28, SYLLABLES = LEADINGS * VOWELS * TRAILINGS };

struct rule { char key[MOST_KEY]; uint32_t text; };

struct map {
    struct rule *rules;
    size_t n, capacity;
    char *texts;
    size_t n_texts, texts_capacity;
    uint32_t *cells;
    char *taken; /* of each cell: 1: in use; 2: its number is the base of a node's children */
    size_t n_cells, cells_capacity, taken_capacity, from;
};

// -----------------------------------------------------------------------------------------------
// >>ways           all that NFC writes otherwise
// -----------------------------------------------------------------------------------------------

enum { MOST_CHARACTERS = 4 };
typedef uint32_t characters[MOST_CHARACTERS + 1];       /* zeros follow the last one */

/* A text, and what NFC makes of it. */
struct way { characters other, usual; };
struct ways {
    struct way *item;
    size_t n, capacity;
    uint32_t (*parts)[2];               /* of tools/unicode */
    uint32_t *composing;                /* the characters that compose */
    size_t n_composing, composing_capacity;
};

static void add_way(struct ways *w, const characters other, const characters usual)
{
    w->item = grow(w->item, &w->capacity, w->n + 1, sizeof *w->item);
    memcpy(w->item[w->n].other, other, sizeof w->item->other);
    memcpy(w->item[w->n++].usual, usual, sizeof w->item->usual);
}

/* The same, unless it is among those from `first` on. */
static void add_spelling(struct ways *w, size_t first, const characters other, uint32_t c)
{
    const characters usual = {c};
    for (; first < w->n; first++)
        if (!memcmp(w->item[first].other, other, sizeof w->item->other)) return;
    add_way(w, other, usual);
}

/* The character that composes from two, or 0. */
static uint32_t composed_of(const struct ways *w, uint32_t a, uint32_t b)
{
    size_t i;
    for (i = 0; i < w->n_composing; i++) {
        const uint32_t *parts = w->parts[w->composing[i]];
        if (parts[0] == a && parts[1] == b) return w->composing[i];
    }
    return 0;
}

static int by_characters(const void *a, const void *b)
{
    const uint32_t *x = ((const struct way *)a)->other, *y = ((const struct way *)b)->other;
    for (; *x == *y && *x; x++, y++) { }
    return (*x > *y) - (*x < *y);
}

/* All other ways to write a character that composes. They follow from its parts: the first
   character may be in parts, or composed with the mark after it, and marks of different classes may
   change places. */
static void add_spellings(struct ways *w, uint32_t c)
{
    const size_t first = w->n;
    const characters parts = {w->parts[c][0], w->parts[c][1]};
    size_t i, k;
    add_spelling(w, first, parts, c);
    for (i = first; i < w->n; i++) {
        characters s;
        uint32_t joined;
        memcpy(s, w->item[i].other, sizeof s);
        if (unicode_composes(w->parts, s[0])) {
            const characters longer = {w->parts[s[0]][0], w->parts[s[0]][1], s[1], s[2]};
            add_spelling(w, first, longer, c);
        }
        joined = s[2] ? composed_of(w, s[0], s[1]) : 0;
        if (joined) {
            const characters shorter = {joined, s[2], s[3]};
            add_spelling(w, first, shorter, c);
        }
        for (k = 1; s[k + 1]; k++) {
            const uint32_t before = unicode_class(s[k]), after = unicode_class(s[k + 1]);
            characters other;
            if (!before || !after || before == after) continue;
            memcpy(other, s, sizeof s);
            other[k] = s[k + 1];
            other[k + 1] = s[k];
            add_spelling(w, first, other, c);
        }
    }
    qsort(w->item + first, w->n - first, sizeof *w->item, by_characters);
}

/* What NFC makes of one character. Returns how many that are. */
static size_t write_usual(const struct ways *w, uint32_t c, uint32_t *to)
{
    size_t n;
    if (!w->parts[c][0] || unicode_composes(w->parts, c)) {
        *to = c;
        return 1;
    }
    n = write_usual(w, w->parts[c][0], to);
    if (w->parts[c][1]) to[n++] = w->parts[c][1];
    return n;
}

static void list_ways(struct ways *w)
{
    size_t i;
    uint32_t c;
    memset(w, 0, sizeof *w);
    w->parts = zeroed(UNICODE_POINTS, sizeof *w->parts);
    unicode_parts(w->parts, 1);
    for (c = 0; c < UNICODE_POINTS; c++) {
        if (!unicode_composes(w->parts, c)) continue;
        w->composing = grow(w->composing, &w->composing_capacity, w->n_composing + 1, sizeof c);
        w->composing[w->n_composing++] = c;
    }
    for (i = 0; i < w->n_composing; i++) add_spellings(w, w->composing[i]);
    for (c = 0; c < UNICODE_POINTS; c++) {
        const characters other = {c};
        characters usual = {0};
        if (!w->parts[c][0] || unicode_composes(w->parts, c)) continue;
        write_usual(w, c, usual);
        add_way(w, other, usual);
    }
}

static void free_ways(struct ways *w)
{
    free(w->item);
    free(w->parts);
    free(w->composing);
}

// -----------------------------------------------------------------------------------------------
// >>map            the rules as a double array
// -----------------------------------------------------------------------------------------------

/* Up to n characters; 0 ends them before. */
static size_t write_characters(char *to, const uint32_t *from, size_t n)
{
    size_t i, bytes = 0;
    for (i = 0; i < n && from[i]; i++) bytes += write_character(to + bytes, from[i]);
    to[bytes] = 0;
    return bytes;
}

static void add_rule(struct map *m, const uint32_t *key, size_t n_key, const uint32_t *text,
                     size_t n_text)
{
    m->rules = grow(m->rules, &m->capacity, m->n + 1, sizeof *m->rules);
    m->texts = grow(m->texts, &m->texts_capacity, m->n_texts + MOST_KEY, 1);
    write_characters(m->rules[m->n].key, key, n_key);
    m->rules[m->n++].text = (uint32_t)m->n_texts;
    m->n_texts += write_characters(m->texts + m->n_texts, text, n_text) + 1;
}

/* Each syllable from its two or three letters; one of three also from the syllable of the first two
   and the third. */
static void add_hangul(struct map *m)
{
    uint32_t i;
    for (i = 0; i < SYLLABLES; i++) {
        uint32_t syllable = SYLLABLE + i, trailing = i % TRAILINGS, open = syllable - trailing;
        uint32_t letters[3] = {LEADING + i / TRAILINGS / VOWELS, VOWEL + i / TRAILINGS % VOWELS,
                               TRAILING + trailing};
        uint32_t two[2] = {open, TRAILING + trailing};
        add_rule(m, letters, trailing ? 3 : 2, &syllable, 1);
        if (trailing) add_rule(m, two, 2, &syllable, 1);
    }
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct rule *)a)->key, ((const struct rule *)b)->key);
}

/* A number that no other node has, which gives free cells when each of these bytes is xored with
   it. */
static size_t find_base(struct map *m, const unsigned char *bytes, size_t n)
{
    size_t base, tries = 0, i;
    for (base = m->from; ; base++, tries++) {
        if ((base | 255) >= m->n_cells) {
            size_t more = (base | 255) + 1;
            m->cells = grow(m->cells, &m->cells_capacity, more, sizeof *m->cells);
            m->taken = grow(m->taken, &m->taken_capacity, more, 1);
            memset(m->cells + m->n_cells, 0, (more - m->n_cells) * sizeof *m->cells);
            memset(m->taken + m->n_cells, 0, more - m->n_cells);
            m->n_cells = more;
        }
        if (m->taken[base] & 2) continue;
        for (i = 0; i < n && !(m->taken[base ^ bytes[i]] & 1); i++) { }
        if (i == n) break;
    }
    if (tries > 512) m->from += 256;        /* nearly full there */
    m->taken[base] |= 2;
    for (i = 0; i < n; i++) m->taken[base ^ bytes[i]] |= 1;
    return base;
}

/* The children of the node at a cell: rules low to high - 1 begin with the `depth` bytes that lead
   to it. */
static void place_rules(struct map *m, size_t low, size_t high, size_t depth, size_t at)
{
    unsigned char bytes[256];
    size_t begins[257], n = 0, i, base;
    for (i = low; i < high; i++) {
        unsigned char byte = (unsigned char)m->rules[i].key[depth];
        if (n && bytes[n - 1] == byte) continue;
        bytes[n] = byte;
        begins[n++] = i;
    }
    begins[n] = high;
    base = find_base(m, bytes, n);
    m->cells[at] |= (uint32_t)(at ^ base) << 10 | (uint32_t)!bytes[0] << 8;
    for (i = 0; i < n; i++)
        m->cells[base ^ bytes[i]] = bytes[i] ? bytes[i] : 1u << 31 | m->rules[low].text;
    for (i = 0; i < n; i++)
        if (bytes[i]) place_rules(m, begins[i], begins[i + 1], depth + 1, base ^ bytes[i]);
}

static void write_little(unsigned char *to, uint32_t number)
{
    int i;
    for (i = 0; i < 4; i++) to[i] = (unsigned char)(number >> 8 * i);
}

char *composing_map(int hangul, size_t *bytes)
{
    static const uint32_t blanks[] = {'\t', '\n', '\v', '\f', '\r'}, blank = ' ';
    struct map m;
    struct ways ways;
    unsigned char *map;
    size_t i, begin;
    memset(&m, 0, sizeof m);
    for (i = 0; i < sizeof blanks / sizeof *blanks; i++) add_rule(&m, &blanks[i], 1, &blank, 1);
    list_ways(&ways);
    for (i = 0; i < ways.n; i++)
        add_rule(&m, ways.item[i].other, MOST_CHARACTERS, ways.item[i].usual, MOST_CHARACTERS);
    free_ways(&ways);
    if (hangul) add_hangul(&m);
    qsort(m.rules, m.n, sizeof *m.rules, by_key);
    m.from = 1;
    m.cells = grow(NULL, &m.cells_capacity, 1, sizeof *m.cells);
    m.cells[0] = 0;
    m.taken = grow(NULL, &m.taken_capacity, 1, 1);
    m.taken[0] = 3;                     /* the root */
    m.n_cells = 1;
    place_rules(&m, 0, m.n, 0, 0);
    begin = 4 + 4 * m.n_cells;
    *bytes = begin + m.n_texts;
    map = zeroed(*bytes, 1);
    write_little(map, (uint32_t)(4 * m.n_cells));
    for (i = 0; i < m.n_cells; i++) write_little(map + 4 + 4 * i, m.cells[i]);
    memcpy(map + begin, m.texts, m.n_texts);
    free(m.rules);
    free(m.texts);
    free(m.cells);
    free(m.taken);
    return (char *)map;
}

static uint32_t read_little(const char *from)
{
    const unsigned char *at = (const unsigned char *)from;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Whether a rule of the map matches the beginning of a text. */
static int begins_with_rule(const char *map, const char *text)
{
    uint32_t at = 0, cell = read_little(map + 4);
    for (; *text && !(at && cell >> 8 & 1); text++) {
        at ^= cell >> 10 ^ (unsigned char)*text;
        cell = read_little(map + 4 + 4 * (size_t)at);
        if ((cell & (1u << 31 | 255)) != (unsigned char)*text) return 0;
    }
    return at && cell >> 8 & 1;
}

int is_composed(const char *map, const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text & 0xC0) != 0x80 && begins_with_rule(map, text)) return 0;
    return 1;
}

/* The letters are U+1100 to U+11FF, the syllables U+AC00 to U+D7A3. */
int has_hangul(const char *text)
{
    for (; *text; text++) {
        const unsigned char *c = (const unsigned char *)text;
        if (c[0] == 0xE1 && c[1] >= 0x84 && c[1] <= 0x87) return 1;
        if ((c[0] == 0xEA && c[1] >= 0xB0) || c[0] == 0xEB || c[0] == 0xEC ||
            (c[0] == 0xED && c[1] < 0x9F))
            return 1;
    }
    return 0;
}

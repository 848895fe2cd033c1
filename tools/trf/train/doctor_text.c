// trf doctor: what one line has that is seldom meant. See doctor.h.

#include "doctor.h"

struct range { enum symptom is; uint32_t first, last; };

/* Characters that nobody sees, or that damage has left. */
static const struct range odd[] = {
    {CONTROL, 0x01, 0x08}, {CONTROL, 0x0B, 0x1F}, {CONTROL, 0x7F, 0x9F}, {NO_BREAK, 0xA0, 0xA0},
    {SOFT_HYPHEN, 0xAD, 0xAD}, {ZERO_WIDTH, 0x200B, 0x200F}, {SEPARATOR, 0x2028, 0x2029},
    {ZERO_WIDTH, 0x202A, 0x202E}, {NO_BREAK, 0x202F, 0x202F}, {ZERO_WIDTH, 0x2060, 0x2069},
    {META, 0x2581, 0x2581}, {MARK, 0xFEFF, 0xFEFF}, {REPLACEMENT, 0xFFFD, 0xFFFD}
};

enum alphabet { NO_LETTER = 0, LATIN = 1, GREEK = 2, CYRILLIC = 4 };

static enum alphabet alphabet_of(uint32_t c)
{
    if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z' ? LATIN : NO_LETTER;
    if (c >= 0xC0 && c < 0x250) return c == 0xD7 || c == 0xF7 ? NO_LETTER : LATIN;
    if (c >= 0x370 && c < 0x400) return GREEK;
    if (c >= 0x400 && c < 0x530) return CYRILLIC;
    if (c >= 0x1F00 && c < 0x2000) return GREEK;
    return c >= 0x1E00 && c < 0x1F00 ? LATIN : NO_LETTER;
}

/* A line while it is read: the characters before, and the current word. */
struct looking {
    struct doctor *d;
    int32_t file;
    int64_t line;
    int side, right_to_left;        /* 1: the text has Hebrew or Arabic letters */
    uint32_t before;
    const char *word;
    int letters;
    unsigned alphabets;
};

static void find(struct looking *l, enum symptom is, const char *why)
{
    note_place(l->d, is, l->file, l->line, l->side, why);
}

/* Joiners belong between letters of Persian or Hindi and in pictures, marks of direction into texts
   that run from right to left. */
static int is_meant(const struct looking *l, uint32_t c)
{
    if (c == 0x200C || c == 0x200D) return l->before >= 0x530 && l->before != 0x2019;
    return ((c >= 0x200E && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
            (c >= 0x2066 && c <= 0x2069)) && l->right_to_left;
}

static void look_at_odd(struct looking *l, uint32_t c)
{
    char why[16];
    size_t i;
    for (i = 0; i < sizeof odd / sizeof *odd && c >= odd[i].first; i++) {
        if (c > odd[i].last || is_meant(l, c)) continue;
        snprintf(why, sizeof why, "U+%04X", (unsigned)c);
        find(l, odd[i].is, why);
    }
}

/* A Greek letter in a short word is a symbol of mathematics or a unit. */
static void end_word(struct looking *l, const char *end)
{
    unsigned both = l->alphabets;
    char word[64];
    if ((both & (both - 1)) && (l->letters > 3 || (both & CYRILLIC))) {
        snprintf(word, sizeof word, "%.*s", (int)(end - l->word < 60 ? end - l->word : 60),
                 l->word);
        find(l, MIXED, word);
    }
    l->letters = 0;
    l->alphabets = 0;
}

static void look_at(struct looking *l, uint32_t c, const char *at)
{
    enum alphabet alphabet = alphabet_of(c);
    if (alphabet) {
        if (!l->letters++) l->word = at;
        l->alphabets |= alphabet;
    } else if (l->letters && (c < 0x300 || c > 0x36F)) end_word(l, at);     /* no accent */
    if (c < ' ' || c >= 0x7F) look_at_odd(l, c);
    /* "Ã¤" for "ä", "â€" before a quotation mark */
    if (((l->before == 0xC2 || l->before == 0xC3) && c >= 0x80 && c < 0xC0) ||
        (l->before == 0xE2 && (c == 0x20AC || c == 0x80)))
        find(l, MOJIBAKE, NULL);
    l->before = c;
}

static int has_entity(const char *text)
{
    static const char *const names[] = {"amp;", "lt;", "gt;", "quot;", "nbsp;", "apos;", "#"};
    size_t i;
    while ((text = strchr(text, '&')))
        for (text++, i = 0; i < sizeof names / sizeof *names; i++)
            if (!strncmp(text, names[i], strlen(names[i])) &&
                (*text != '#' || text[1 + strspn(text + 1, "xX0123456789abcdefABCDEF")] == ';'))
                return 1;
    return 0;
}

static int has_right_to_left(const char *text)
{
    for (; *text; text++)       /* U+0590 to U+08FF */
        if (((unsigned char)*text >= 0xD6 && (unsigned char)*text <= 0xDF) ||
            ((unsigned char)*text == 0xE0 && (unsigned char)text[1] < 0xA4)) return 1;
    return 0;
}

/* Blanks are looked at where a line is a sentence, not a line of a program. */
static void look_at_blanks(struct looking *l, const char *text, size_t n)
{
    const struct settings *s = l->d->s;
    if (s->train.documents == DOCUMENTS_FILE) return;
    if (*text == ' ' || (n && text[n - 1] == ' ') || strstr(text, "  "))
        find(l, OUTER_BLANKS, NULL);
    if (strchr(text, '\t') && !s->config.segments && !s->train.next_sentences) find(l, TAB, NULL);
}

void examine_text(struct doctor *d, int32_t file, int64_t line, int side, const char *text,
                  int is_label)
{
    struct looking l = {d, file, line, side, 0, 0, NULL, 0, 0};
    size_t length = strlen(text), at, n;
    uint32_t c = 0;
    if (length && text[length - 1] == '\n') length--;       /* of a file that is one document */
    l.right_to_left = has_right_to_left(text);
    for (at = 0; at < length; at += n) {
        n = 1;
        c = (unsigned char)text[at];
        if (c >= 0x80 && !(n = character_of(text + at, length - at, &c))) return;
        look_at(&l, c, text + at);
    }
    end_word(&l, text + at);
    if (has_entity(text)) find(&l, HTML, NULL);
    if (!is_label) look_at_blanks(&l, text, length);
}

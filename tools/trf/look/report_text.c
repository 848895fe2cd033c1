// trf report: untrusted text as HTML, and the differences of two texts. See report.h.

#include "picture.h"
#include "report.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>characters
// -----------------------------------------------------------------------------------------------

/* The bytes of the character at text and its code point. A byte that is not UTF-8 is a character of
   its own, *c UINT32_MAX. */
static size_t character_at(const char *text, size_t left, uint32_t *c)
{
    size_t n = character_of(text, left, c);
    if (n) return n;
    *c = UINT32_MAX;
    return 1;
}

static void put_character(FILE *to, const char *text, uint32_t c)
{
    if (c == UINT32_MAX)
        fprintf(to, "<span class=odd>0x%02X</span>", (unsigned)(unsigned char)*text);
    else if (picture__is_odd(c)) fprintf(to, "<span class=odd>U+%04X</span>", (unsigned)c);
    else picture__put_escaped(to, c);
}

/* Writes at most `limit` characters. Returns the number of the others. */
static size_t put_some(FILE *to, const char *text, size_t bytes, size_t limit)
{
    size_t at = 0, shown = 0;
    uint32_t c;
    for (; at < bytes; shown++) {
        size_t n = character_at(text + at, bytes - at, &c);
        if (shown < limit) put_character(to, text + at, c);
        at += n;
    }
    return shown > limit ? shown - limit : 0;
}

void put_html_start(FILE *to, const char *text, size_t bytes, size_t limit)
{
    if (put_some(to, text, bytes, limit)) fputs("…", to);
}

static void put_more(FILE *to, size_t more)
{
    fprintf(to, " <span class=more>… and %s more character%s</span>", whole_text((double)more),
            plural((int64_t)more));
}

void put_html(FILE *to, const char *text, size_t bytes)
{
    size_t more = put_some(to, text, bytes, SHOWN_CHARACTERS);
    if (more) put_more(to, more);
}

void put_html_text(FILE *to, const char *text) { put_html(to, text, strlen(text)); }

// -----------------------------------------------------------------------------------------------
// >>numbers
// -----------------------------------------------------------------------------------------------

/* Room for the text of a number: the eighth call from here on overwrites it. */
static char *next_text(void)
{
    static char texts[8][64];
    static int n;
    return texts[n++ % 8];
}

const char *whole_text(double x)
{
    char digits[32], *text = next_text(), *to = text;
    const char *at;
    if (!isfinite(x) || fabs(x) >= 1e18) return "–";
    snprintf(digits, sizeof digits, "%.0f", x);
    for (at = digits; *at; at++) {
        *to++ = *at;
        if (strlen(at) % 3 != 1 || !at[1] || *at == '-') continue;
        memcpy(to, "\xE2\x80\xAF", 3); /* a thin space */
        to += 3;
    }
    *to = '\0';
    return text;
}

const char *number_text(double x, int digits)
{
    char *text = next_text();
    if (!isfinite(x)) return "–";
    snprintf(text, 64, digits < 0 ? "%.*g" : "%.*f", abs(digits), x);
    return text;
}

void put_cell(FILE *to, const char *text) { fprintf(to, "<td class=n>%s", text); }

// -----------------------------------------------------------------------------------------------
// >>tables
// -----------------------------------------------------------------------------------------------

void put_heads(FILE *to, const char *heads)
{
    for (;; heads++) {
        int number = *heads == '#', length;
        heads += number;
        length = (int)strcspn(heads, "|");
        fprintf(to, "<th scope=col%s>%.*s", number ? " class=n" : "", length, heads);
        heads += length;
        if (!*heads) return;
    }
}

void begin_head(FILE *to, const char *label, const char *heads)
{
    fprintf(to, "<div class=wide tabindex=0 role=region aria-label='%s'>\n", label);
    fputs("<table><thead><tr>", to);
    put_heads(to, heads);
}

void end_head(FILE *to) { fputs("</thead>\n<tbody>\n", to); }

void begin_table(FILE *to, const char *label, const char *heads)
{
    begin_head(to, label, heads);
    end_head(to);
}

void end_table(FILE *to) { fputs("</tbody></table></div>\n", to); }

// -----------------------------------------------------------------------------------------------
// >>differences    the longest common subsequence of two texts, in words or in characters
// -----------------------------------------------------------------------------------------------

/* A word with the spaces after it, or a character with its combining marks. same: the bytes to
   compare. */
struct unit {
    const char *text;
    size_t bytes, same;
};
struct unit_list {
    struct unit *item;
    size_t n, capacity;
    size_t left;
}; /* left: characters after the last unit */

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* A combining mark belongs to the character before it, also one that takes room, of Devanagari, and
   the skin colour of an emoji. */
static int joins(uint32_t c)
{
    return !picture__wide(c) || (c >= 0x93A && c <= 0x94D && c != 0x93D) ||
           (c >= 0x1F3FB && c <= 0x1F3FF);
}

static void add_unit(struct unit_list *list, const char *text, size_t bytes, size_t same)
{
    list->item = grow(list->item, &list->capacity, list->n + 1, sizeof *list->item);
    list->item[list->n].text = text;
    list->item[list->n].bytes = bytes;
    list->item[list->n++].same = same;
}

enum units { CHARACTERS, WORDS, WHOLE };

/* The first SHOWN_CHARACTERS of a text as units. */
static void cut_units(struct unit_list *list, const char *text, enum units of)
{
    size_t bytes = strlen(text), at = 0, n, shown = 0;
    int blank = 0, glued = 0;
    uint32_t c;
    for (; at < bytes; at += n, shown++) {
        struct unit *last = list->n ? &list->item[list->n - 1] : NULL;
        n = character_at(text + at, bytes - at, &c);
        if (shown >= SHOWN_CHARACTERS) {
            list->left++;
            continue;
        }
        if (!last || (of == WORDS && blank && !is_blank(text[at])) ||
            (of == CHARACTERS && !joins(c) && !glued))
            add_unit(list, text + at, 0, 0);
        last = &list->item[list->n - 1];
        last->bytes += n;
        if (of != WORDS || !is_blank(text[at])) last->same = last->bytes;
        blank = is_blank(text[at]);
        glued = c == 0x200D;
    }
}

static int is_same(const struct unit *a, const struct unit *b)
{
    return a->same == b->same && !memcmp(a->text, b->text, a->same);
}

/* Marks in kept[0][i] and kept[1][j] the units that both have, in the same order. */
static void find_common(const struct unit_list *a, const struct unit_list *b, char *kept[2])
{
    size_t width = b->n + 1, i, j;
    uint16_t *longest = zeroed((a->n + 1) * width, sizeof *longest); /* of what begins at i and j */
    for (i = a->n; i-- > 0;)
        for (j = b->n; j-- > 0;) {
            uint16_t down = longest[(i + 1) * width + j], right = longest[i * width + j + 1];
            longest[i * width + j] = is_same(&a->item[i], &b->item[j])
                                       ? (uint16_t)(longest[(i + 1) * width + j + 1] + 1)
                                   : down > right ? down
                                                  : right;
        }
    for (i = j = 0; i < a->n && j < b->n;) {
        if (is_same(&a->item[i], &b->item[j])) kept[0][i++] = kept[1][j++] = 1;
        else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
        else j++;
    }
    free(longest);
}

static void find_same_position(const struct unit_list *a, const struct unit_list *b, char *kept[2])
{
    size_t i;
    for (i = 0; i < a->n && i < b->n; i++)
        kept[0][i] = kept[1][i] = (char)is_same(&a->item[i], &b->item[i]);
}

/* Adjacent units with the same tag share an element. */
static void put_units(FILE *to, const struct unit_list *list, const char *kept, const char *tag)
{
    size_t i;
    for (i = 0; i < list->n; i++) {
        const struct unit *u = &list->item[i];
        int begins = !kept[i] && (i == 0 || kept[i - 1]),
            ends = !kept[i] && (i + 1 == list->n || kept[i + 1]);
        if (begins) fprintf(to, "<%s>", tag);
        put_html(to, u->text, ends ? u->same : u->bytes);
        if (ends) fprintf(to, "</%s>", tag);
        if (ends) put_html(to, u->text + u->same, u->bytes - u->same);
    }
    if (list->left) put_more(to, list->left);
}

/* Compares words if there are several of usual length, else characters. */
static int has_words(const char *text)
{
    int64_t words = count_units(text, 0);
    return words > 1 && count_units(text, 1) <= 20 * words;
}

void put_differences(FILE *to, const char *reference, const char *answer, enum compare how)
{
    const char *const text[2] = {reference, answer}, *const name[2] = {"reference", "answer"},
                      *const tag[2] = {"del", "ins"};
    struct unit_list list[2];
    char *kept[2];
    enum units of = how == COMPARE_WHOLE                                               ? WHOLE
                  : how == COMPARE_POSITIONS || has_words(reference) || has_words(answer) ? WORDS
                                                                                       : CHARACTERS;
    int i;
    memset(list, 0, sizeof list);
    for (i = 0; i < 2; i++) {
        cut_units(&list[i], text[i], of);
        kept[i] = zeroed(list[i].n, 1);
    }
    (how == COMPARE_TEXT ? find_common : find_same_position)(&list[0], &list[1], kept);
    for (i = 0; i < 2; i++) {
        fprintf(to, "<dt>%s<dd dir=auto>", name[i]);
        put_units(to, &list[i], kept[i], tag[i]);
        if (!list[i].n) fputs("<i>empty</i>", to);
        fputs("</dd>\n", to);
        free(kept[i]);
        free(list[i].item);
    }
}

// unicode: the facts of tables.h for the tool and the metrics. transformer.h needs none of them.
// SPDX-License-Identifier: MIT

#ifndef TRF_UNICODE_H
#define TRF_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "tables.h"

#define UNICODE_COUNT(table) (sizeof(table) / sizeof *(table))

enum { UNICODE_POINTS = 0x110000 };

/* Ranges of a set, one after the other; all zero before the first one. They have the code points
   from `first` to end - 1. */
struct unicode_range { size_t at; uint32_t first, end; };

static inline int unicode_next(const uint32_t *set, size_t n, struct unicode_range *range)
{
    if (range->at == n) return 0;
    range->first = range->end + set[range->at++];
    range->end = range->first + set[range->at++];
    return 1;
}

static inline int unicode_in(const uint32_t *set, size_t n, uint32_t c)
{
    struct unicode_range range = {0, 0, 0};
    while (unicode_next(set, n, &range) && range.end <= c) { }
    return c >= range.first && c < range.end;
}

/* Whether a code point is in a set of tables.h. */
#define UNICODE_IN(set, c) unicode_in(set, UNICODE_COUNT(set), c)

/* What NFD makes of each code point in one step, 0, 0 where it leaves it; there is room for
   UNICODE_POINTS of them. Hangul is not here: it follows a rule. newest 0: as tokenizers. */
static inline void unicode_parts(uint32_t (*parts)[2], int newest)
{
    size_t i;
    uint32_t c;
    for (i = 0; i < UNICODE_COUNT(unicode_one); i += 2 + unicode_one[i + 1])
        for (c = 0; c < unicode_one[i + 1]; c++)
            parts[unicode_one[i] + c][0] = unicode_one[i + 2 + c];
    for (i = 0; i < UNICODE_COUNT(unicode_two); i += 2 + 2 * unicode_two[i + 1])
        for (c = 0; c < 2 * unicode_two[i + 1]; c++)
            parts[unicode_two[i] + c / 2][c % 2] = unicode_two[i + 2 + c];
    for (c = 0; !newest && c < UNICODE_POINTS; c++)
        if (parts[c][0] && UNICODE_IN(unicode_new_parts, c)) parts[c][0] = parts[c][1] = 0;
}

/* Whether NFC composes a code point from its two parts. */
static inline int unicode_composes(uint32_t (*parts)[2], uint32_t c)
{
    return parts[c][1] && !UNICODE_IN(unicode_apart, c);
}

/* Ranges with a combining class, as unicode_next. Returns the class, or 0 after the last one. */
static inline uint32_t unicode_next_class(struct unicode_range *range)
{
    if (!unicode_next(unicode_classes, UNICODE_COUNT(unicode_classes), range)) return 0;
    return unicode_classes[range->at++];
}

static inline uint32_t unicode_class(uint32_t c)
{
    struct unicode_range range = {0, 0, 0};
    uint32_t class_of;
    do class_of = unicode_next_class(&range); while (class_of && range.end <= c);
    return c >= range.first ? class_of : 0;
}

#endif

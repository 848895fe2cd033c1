/* language.h - a small language with agreement of words, and tests of what models write in it.

   A line is two sentences. A sentence is a phrase, a verb, a phrase and a particle. A phrase is an
   article, up to two adjectives and a noun, all of one class out of three. The verb is of the class
   of the first phrase, and each of its six stems has one particle. So a missing word follows

       an article      from the noun after it
       a particle      from the verb before it
       a verb          from both sides: its class from the left, its stem from the particle

   Words are ids from 4 on, followed by the sentinels of spans. A hash of the words reserves one
   line in eight for tests. language_skill has a model fill gaps and continue lines. */
#ifndef LANGUAGE_H
#define LANGUAGE_H

#include "study.h"

enum { CLASSES = 3, STEMS = 6, NOUNS = 6, ARTICLE = 4, ADJECTIVE = ARTICLE + CLASSES };
enum { NOUN = ADJECTIVE + 3 * CLASSES, VERB = NOUN + NOUNS * CLASSES };
enum { PARTICLE = VERB + STEMS * CLASSES, WORDS_END = PARTICLE + CLASSES };
enum { VOCAB = WORDS_END + 8, WORDS = WORDS_END - ARTICLE };
enum { LINE = 20, LINES = 200 };        /* words of the longest line; lines of a text at most */

/* How models answer: by their objective, or a model of next words by the scores of whole lines. */
enum { MASKS = 0, SPANS = 1, PREFIXES = 2, NEXT = 3, OBJECTIVES = 4, SCORES = 4, MODES = 5 };
enum { GAP_ARTICLE = 0, GAP_PARTICLE = 1, GAP_VERB = 2, CONTINUED = 3, SKILLS = 4 };

struct text { int32_t ids[LINES * LINE], lengths[LINES], first[LINES]; };

/* Returns the number of words, and sets the class that they share. */
STUDY int32_t language_phrase(int32_t *ids, int32_t *class, uint64_t *random)
{
    int32_t n = 0, adjectives = study_below(random, 3);
    *class = study_below(random, CLASSES);
    ids[n++] = ARTICLE + *class;
    while (adjectives--) ids[n++] = ADJECTIVE + study_below(random, 3) * CLASSES + *class;
    ids[n++] = NOUN + study_below(random, NOUNS) * CLASSES + *class;
    return n;
}

STUDY int32_t language_sentence(int32_t *ids, uint64_t *random)
{
    int32_t stem = study_below(random, STEMS), class, n = language_phrase(ids, &class, random);
    ids[n++] = VERB + stem * CLASSES + class;
    n += language_phrase(ids + n, &class, random);
    ids[n++] = PARTICLE + stem % CLASSES;
    return n;
}

/* The class of the phrase that begins at *at, which is moved behind it; -1: there is none. */
STUDY int32_t language_class(const int32_t *ids, int32_t n, int32_t *at)
{
    int32_t i = *at, class = i < n ? ids[i++] - ARTICLE : -1;
    if (class < 0 || class >= CLASSES) return -1;
    while (i < n && ids[i] >= ADJECTIVE && ids[i] < NOUN && (ids[i] - ADJECTIVE) % CLASSES == class)
        i++;
    if (i == n || ids[i] < NOUN || ids[i] >= VERB || (ids[i] - NOUN) % CLASSES != class) return -1;
    *at = i + 1;
    return class;
}

/* Is all of it one valid sentence after another? */
STUDY int language_valid(const int32_t *ids, int32_t n)
{
    int32_t at = 0;
    do {
        int32_t class = language_class(ids, n, &at), verb;
        if (class < 0 || at == n || ids[at] < VERB || ids[at] >= PARTICLE) return 0;
        verb = ids[at++] - VERB;
        if (verb % CLASSES != class || language_class(ids, n, &at) < 0 || at == n) return 0;
        if (ids[at++] != PARTICLE + verb / CLASSES % CLASSES) return 0;
    } while (at < n);
    return 1;
}

/* Sentences that are for tests, one in eight, or those that are not. */
STUDY trf_sequences language_draw(struct text *x, int32_t count, int testing,
                                  uint64_t *random)
{
    trf_sequences all = {x->ids, x->lengths, count};
    int32_t i, j, at = 0;
    for (i = 0; i < count; at += x->lengths[i++]) {
        uint64_t hash;
        do {
            x->lengths[i] = language_sentence(x->ids + at, random);
            x->lengths[i] += language_sentence(x->ids + at + x->lengths[i], random);
            for (hash = 7, j = 0; j < x->lengths[i]; j++)
                hash = (hash ^ (uint64_t)x->ids[at + j]) * 1099511628211u;
        } while (((hash >> 40) % 8 == 0) != testing);
        x->first[i] = at;
    }
    return all;
}

/* A sequence by the kinds of its words; a point where nothing is asked for. */
STUDY void language_print(const char *title, const trf_sequences *x)
{
    static const struct { const char *name; int32_t first; } kinds[] = {
        {"span", WORDS_END}, {"particle", PARTICLE}, {"verb", VERB},
        {"noun", NOUN}, {"adjective", ADJECTIVE}, {"article", ARTICLE}};
    int32_t i, k;
    printf("    %-10s", title);
    for (i = 0; i < x->lengths[0]; i++) {
        for (k = 0; k < STUDY_COUNT(kinds) && x->ids[i] < kinds[k].first; k++) {}
        if (k < STUDY_COUNT(kinds))
            printf(" %s%d", kinds[k].name, (int)(x->ids[i] - kinds[k].first));
        else printf(" %s", x->ids[i] < 0 ? "." : "[mask]");
    }
    printf("\n");
}

/* Where the gap of the first sentence is; CONTINUED removes all behind three words. */
STUDY int32_t language_gap(const int32_t *ids, int which)
{
    int32_t at = 0;
    if (which == CONTINUED) return 3;
    while (ids[at] < (which == GAP_PARTICLE ? PARTICLE : VERB)) at++;
    return at + (which == GAP_ARTICLE);
}

/* The word that makes the line, whose word `at` is missing, the most probable. */
STUDY int32_t language_best(trf_translator *t, const int32_t *line, int32_t n, int32_t at)
{
    int32_t ids[WORDS * LINE], lengths[WORDS], k, best;
    trf_batch b = {{NULL, NULL, 0}, {ids, lengths, WORDS}, 0, {0, 0, 0}};
    double scores[WORDS];
    for (k = 0; k < WORDS; k++) {
        memcpy(ids + k * n, line, (size_t)n * sizeof *line);
        ids[k * n + at] = ARTICLE + k;
        lengths[k] = n;
    }
    STUDY_TRY(trf_reader_score(trf_translator_reader(t), &b, NULL, scores, &err));
    for (best = k = 0; k < WORDS; k++) if (scores[k] > scores[best]) best = k;
    return ARTICLE + best;
}

/* Fills masks from the left: `removed` words from `at` on. */
STUDY void language_unmask(trf_translator *t, int32_t *line, int32_t n, int32_t at, int32_t removed)
{
    trf_batch b = {{line, &n, 1}, {NULL, NULL, 0}, 0, {0, 0, 0}};
    trf_reading seen;
    int32_t i;
    for (i = at; i < at + removed; i++) line[i] = 0;
    for (i = at; i < at + removed; i++) {
        STUDY_TRY(trf_reader_read(trf_translator_reader(t), &b, TRF_READ_LOGITS, NULL, &seen, &err));
        line[i] = study_best(seen.logits.data + i * VOCAB, ARTICLE, WORDS_END);
    }
}

/* Writes what the model puts behind the first `at` words, or into a gap there. Returns the length
   of the whole line then. */
STUDY int32_t language_fill(trf_translator *t, int mode, int32_t *line, int32_t n, int32_t at,
                            int32_t removed)
{
    int32_t source[LINE + 2], k = mode == SPANS, got, rest = n - at - removed;
    int32_t length = mode == SPANS ? at + 1 + rest : at;
    trf_sequences asked = {source, &length, 1};
    const trf_hypothesis *answer;
    int32_t end[LINE];
    memcpy(end, line + at + removed, (size_t)rest * sizeof *line);
    if (mode == SCORES) line[at] = language_best(t, line, n, at);
    if (mode == MASKS) language_unmask(t, line, n, at, removed);
    if (mode == SCORES || mode == MASKS) return n;
    memcpy(source, line, (size_t)at * sizeof *line);
    source[at] = WORDS_END;                     /* the first sentinel, for spans alone */
    memcpy(source + at + 1, end, (size_t)rest * sizeof *line);
    if (rest) source[at + rest] = WORDS_END + 1; /* and the last word is one of a second span */
    STUDY_TRY(trf_translate(t, &asked, NULL, &err));
    answer = trf_translator_answer(t, 0, 0);
    got = answer->n;
    if (mode != SPANS && rest && got > 1) got = 1;      /* of what comes next the first word */
    while (k < got && answer->ids[k] < WORDS_END && at < 2 * LINE) line[at++] = answer->ids[k++];
    memcpy(line + at, end, (size_t)rest * sizeof *line);
    return at + rest;
}

/* The share of so many unseen lines, in percent, that are valid once the model has filled in what
   is missing. */
STUDY double language_skill(const trf_model *model, int mode, int which, int32_t lines)
{
    static struct text x;
    uint64_t random = 77;               /* the same lines for all */
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    int32_t i, valid = 0;
    search.beam = 1;
    search.max_length_b = 2 * LINE;
    language_draw(&x, lines, 1, &random);
    STUDY_TRY(trf_translator_create(&t, model, &search, &err));
    for (i = 0; i < lines; i++) {
        int32_t line[4 * LINE], n = x.lengths[i], at = language_gap(x.ids + x.first[i], which);
        memcpy(line, x.ids + x.first[i], (size_t)n * sizeof *line);
        n = language_fill(t, mode, line, n, at, which == CONTINUED ? n - at : 1);
        valid += language_valid(line, n);
    }
    trf_translator_destroy(t);
    return 100.0 * valid / lines;
}

#endif

// trf train: the labels of the data, and lines with their labels as training pairs. See labelled.h.

#include "labelled.h"

enum { MOST_LABELS = 65536, MOST_LABEL_BYTES = 1000 };

// -----------------------------------------------------------------------------------------------
// >>labels         which labels the data have
// -----------------------------------------------------------------------------------------------

static void append_word(void *user, const char *word, size_t bytes)
{
    if (bytes <= MOST_LABEL_BYTES) append_label((struct labels *)user, word, bytes);
}

/* Calls each(user, label, bytes) for the labels of one line. */
static void for_labels(const struct settings *s, const char *line,
                       void (*each)(void *user, const char *label, size_t bytes), void *user)
{
    size_t bytes;
    const char *label = trim_label(line, &bytes);
    if (s->objective == OBJECTIVE_TAG) for_words(line, each, user);
    else if (bytes) each(user, label, bytes);
}

/* Appends the labels of one line. Removes repeated ones from time to time, so that memory does not
   grow with the number of lines. Returns 0 if there are too many labels. */
static int append_labels(const struct settings *s, const char *line, struct labels *labels)
{
    for_labels(s, line, append_word, labels);
    if (labels->n <= 4 * MOST_LABELS) return 1;
    settle_labels(labels);
    return labels->n <= MOST_LABELS;
}

/* The labels of the text without its marked lines: sorted, each once. */
static void collect_labels(const struct settings *s, const struct text *text, const char *marked,
                           struct labels *labels)
{
    size_t i;
    for (i = 0; i < text->count; i++)
        if (!(marked && marked[i]) && !append_labels(s, line_of(text, i), labels)) break;
    settle_labels(labels);
}

struct missing { struct labels *labels; int found; };

/* Inserts a label into the sorted labels unless they have it. */
static void add_missing(void *user, const char *word, size_t bytes)
{
    struct missing *m = (struct missing *)user;
    struct labels *labels = m->labels;
    char *label;
    int32_t at = labels->n;
    if (bytes > MOST_LABEL_BYTES || label_number(labels, word, bytes) >= 0) return;
    append_label(labels, word, bytes);
    label = labels->name[at];
    for (; at > 0 && strcmp(labels->name[at - 1], label) > 0; at--)
        labels->name[at] = labels->name[at - 1];
    labels->name[at] = label;
    m->found = 1;
}

int64_t keep_labels(const struct settings *s, const struct text text[2], char *held)
{
    struct labels labels = {NULL, 0, 0};
    struct missing m = {&labels, 0};
    uint64_t *back = zeroed(text[1].count, sizeof *back), hash;
    size_t i, n = 0;
    int64_t kept = 0;
    collect_labels(s, &text[1], held, &labels);
    for (i = 0; i < text[1].count && labels.n <= MOST_LABELS; i++) {
        if (!held[i]) continue;
        m.found = 0;
        for_labels(s, line_of(&text[1], i), add_missing, &m);
        if (m.found) back[n++] = hash_line(line_of(&text[0], i));
    }
    qsort(back, n, sizeof *back, by_hash);
    for (i = 0; i < text[0].count && n; i++) {      /* and all other lines with the same source */
        if (!held[i]) continue;
        hash = hash_line(line_of(&text[0], i));
        if (!bsearch(&hash, back, n, sizeof *back, by_hash)) continue;
        held[i] = 0;
        kept++;
    }
    free(back);
    free_labels(&labels);
    return kept;
}

int learn_labels(const struct settings *s, const struct text *text, struct labels *labels)
{
    collect_labels(s, text, NULL, labels);
    if (labels->n > MOST_LABELS) {
        say("more than %d labels: is this the column of the labels?", MOST_LABELS);
        return FAILED;
    }
    if (labels->n >= 2) return DONE;
    say("there %s, but two are needed", labels->n ? "is one label" : "are no labels");
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>examples       a line with its label, or with those of its words
// -----------------------------------------------------------------------------------------------

struct labelling {
    const struct labels *labels;
    const struct word_tokens *words;
    int32_t *targets, at;
    int unknown;
};

static void label_word(void *user, const char *word, size_t bytes)
{
    struct labelling *l = (struct labelling *)user;
    int32_t label = label_number(l->labels, word, bytes);
    if (l->at < l->words->n_words) l->targets[l->words->first[l->at++]] = label;
    if (label < 0) l->unknown++;
}

/* A label at the first token of each word, -1 at all other tokens. Returns the reason why not, or
   NULL. */
static const char *add_tagged(const struct settings *s, const struct labels *labels,
                              const trf_vocab *vocab, const char *const line[2], struct side ids[2],
                              enum skip *kind, char why[300])
{
    struct word_tokens words;
    struct labelling labelling = {labels, &words, NULL, 0, 0};
    size_t capacity = 0;
    int32_t n_tags = for_words(line[1], NULL, NULL), i;
    memset(&words, 0, sizeof words);
    *why = 0;
    *kind = SKIP_LABEL;
    if (encode_words(vocab, line[0], &words)) {
        *kind = SKIP_UNREADABLE;
        snprintf(why, 300, "%s", words.why);
    } else if (words.n_words != n_tags)
        snprintf(why, 300, "%d word%s, but %d label%s", (int)words.n_words, plural(words.n_words),
                 (int)n_tags, plural(n_tags));
    else if (words.n > s->corpus.max_length) {
        *kind = SKIP_LONG;
        snprintf(why, 300, "%d tokens, at most %d", (int)words.n, (int)s->corpus.max_length);
    } else if (words.n) {
        labelling.targets = grow(NULL, &capacity, (size_t)words.n, sizeof *labelling.targets);
        for (i = 0; i < words.n; i++) labelling.targets[i] = -1;
        for_words(line[1], label_word, &labelling);
        if (labelling.unknown)
            snprintf(why, 300,
                     "%d label%s that the training data do not have, or of more than %d bytes",
                     labelling.unknown, plural(labelling.unknown), (int)MOST_LABEL_BYTES);
    }
    if (!*why) {
        add_ids(&ids[0], words.ids, words.n);
        add_ids(&ids[1], labelling.targets, words.n);
    }
    free(labelling.targets);
    free_word_tokens(&words);
    return *why ? why : NULL;
}

static const char *add_classified(const struct settings *s, const struct labels *labels,
                                  const trf_vocab *vocab, const char *const line[2],
                                  struct side ids[2], enum skip *kind, char why[300])
{
    size_t bytes;
    const char *label = trim_label(line[1], &bytes);
    int32_t n,
        number = label_number(labels, line[1],
                              strlen(line[1])); /* labels of old checkpoints have outer blanks */
    *kind = SKIP_LABEL;
    if (number < 0) number = label_number(labels, label, bytes);
    if (number < 0) {
        if (!bytes) snprintf(why, 300, "no label");
        else if (bytes > MOST_LABEL_BYTES)
            snprintf(why, 300, "a label of %zu bytes, at most %d", bytes, (int)MOST_LABEL_BYTES);
        else
            snprintf(why, 300, "the training data do not have the label '%.*s'",
                     (int)(bytes < 200 ? bytes : 200), label);
        return why;
    }
    if (strchr(line[0], '\t') && !s->config.segments) {
        *kind = SKIP_UNREADABLE;
        snprintf(why, 300, "two texts, but the model has no segments (--segments 2)");
        return why;
    }
    if (add_source(&ids[0], vocab, &s->config, line[0], source_limit(&s->config), NULL, &n, why)) {
        *kind = n ? SKIP_LONG : SKIP_UNREADABLE;
        return why;
    }
    if (n) add_ids(&ids[1], &number, 1);
    return NULL;
}

const char *unlearnable(const trf_vocab *vocab, const char *line)
{
    enum { MOST_WORD = 1 << 20 };
    if (trf_vocab_kind(vocab) != TRF_WORDS) return NULL;
    for (line += strspn(line, BLANKS); *line; line += strspn(line, BLANKS)) {
        size_t bytes = strcspn(line, BLANKS);
        if (bytes > MOST_WORD) return "a word of more than 1 MiB, the most that a vocabulary takes";
        line += bytes;
    }
    return NULL;
}

const char *add_labelled(const struct settings *s, const struct labels *labels,
                         const trf_vocab *vocab, const char *const line[2], struct side ids[2],
                         enum skip *kind, char why[300])
{
    const char *fault = unlearnable(vocab, line[0]);
    *kind = SKIP_LONG;
    if (fault) return fault;
    return s->objective == OBJECTIVE_TAG ? add_tagged(s, labels, vocab, line, ids, kind, why)
                                         : add_classified(s, labels, vocab, line, ids, kind, why);
}

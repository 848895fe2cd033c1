// trf train: what is learned besides translating. Labels of texts and of words; texts alone.
//
//   objective   model             learns from                      target of a sequence
//   translate   encoder-decoder   pairs of lines                   the other line
//   causal      decoder-only      text                             the text itself, token by token
//   classify    encoder-only      text, tab, label                 its label
//   tag         encoder-only      words and as many labels         a label at the first token of each word
//   mask        encoder-only      text                             the tokens that are hidden (Devlin et al. 2019)
//   span        encoder-decoder   text                             the spans that are missing (Raffel et al. 2020)

#include "train.h"

#include <math.h>

#define BLANKS " \t\r\n"         /* what stands between words, as in the library */

enum { UNKNOWN = 3, MOST_LABELS = 65536, MOST_LABEL_BYTES = 1000, SENTINELS = 100 };

int learns_from_text(const struct settings *s)
{
    return s->objective == OBJECTIVE_CAUSAL || s->objective == OBJECTIVE_MASK || s->objective == OBJECTIVE_SPAN;
}

int learns_labels(const struct settings *s)
{
    return s->objective == OBJECTIVE_CLASSIFY || s->objective == OBJECTIVE_TAG;
}

/* Whether a side of the data has a vocabulary of its own. */
int reads_side(const struct settings *s, int side)
{
    return s->objective == OBJECTIVE_TRANSLATE || side == (s->objective == OBJECTIVE_CAUSAL);
}

/* The side that the recipe looks at: what is learned, or, where that is labels, what they belong to. */
int leading_side(const struct settings *s)
{
    return s->objective == OBJECTIVE_TRANSLATE || s->objective == OBJECTIVE_CAUSAL;
}

struct unfit { const char *option, *why; int wrong; };

static int check_unfit(const struct settings *s, const struct unfit *of, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        const char *given = given_text(s, of[i].option);
        if (!given || !strcmp(given, "auto") || !of[i].wrong) continue;
        say("--%s %s", of[i].option, of[i].why);
        return USAGE;
    }
    return DONE;
}

static int is_whole(int tokens) { return tokens == TOKENS_WORDS || tokens == TOKENS_CHARACTERS; }

/* Options that do nothing beside another one, or without it. */
int check_company(const struct settings *s)
{
    static const char kind[] = "is not for a SentencePiece model, which says itself what a token is";
    static const char sized[] = "is not for a SentencePiece model, which has its size";
    int validated_on = s->valid_source || s->valid_tsv || s->valid_text;
    int unseen = !validated_on && was_given(s, "valid-size") && s->valid_size == 0;
    int file[2] = {s->source_sentencepiece != NULL, s->target_sentencepiece != NULL};
    int both = (file[0] || !reads_side(s, 0)) && (file[1] || !reads_side(s, 1));
    int noam = s->training.schedule == TRF_NOAM && (was_given(s, "schedule") || s->recipe == RECIPE_PAPER);
    const struct unfit of[] = {
        {"size", "is not for --init-from: the sizes are those of that model", s->init_from != NULL},
        {"tokens", kind, both && (is_whole(s->source_tokens) || is_whole(s->target_tokens))},
        {"source-tokens", kind, file[0] && is_whole(s->source_tokens)},
        {"target-tokens", kind, file[1] && is_whole(s->target_tokens)},
        {"normalise", "is not for a SentencePiece model, which has a rule of its own", both},
        {"vocab-size", sized, both},
        {"source-vocab-size", sized, file[0]},
        {"target-vocab-size", sized, file[1]},
        {"subword-alpha", "is for --subword-samples", s->subword_samples < 2},
        {"average-of", "is for --average", s->average < 2},
        {"total-steps", "is for --schedule cosine", s->training.schedule != TRF_COSINE},
        {"final-rate", "is for --schedule cosine", s->training.schedule != TRF_COSINE},
        {"initial-rate", "is not for --schedule noam, which rises from 0", noam},
        {"valid-beam", "is for answers, which --metric loss does not want", s->metric == METRIC_LOSS},
        {"patience", "is for pairs to validate on, and there are none", unseen && s->patience > 0},
        {"metric", "is for pairs to validate on, and there are none",
         unseen && s->metric != METRIC_AUTO && s->metric != METRIC_LOSS},
        {"valid-every", "is for pairs to validate on, or for --keep and --average",
         unseen && !s->keep && s->average < 2},
        {"valid-size", "is for pairs held out, but the pairs to validate on are given",
         validated_on && s->valid_size > 0}
    };
    return check_unfit(s, of, sizeof of / sizeof *of);
}

/* The same of a model to begin with, once it is known which vocabularies it has. */
int check_inherited(const struct training *t)
{
    static const char theirs[] = "is not for --init-from: the vocabulary is that of the model";
    static const char grown[] = "is not for --init-from without --extend-vocabulary";
    static const char shared[] = "is not for --init-from: the model says how many vocabularies there are";
    const struct settings *s = t->s;
    int has[2] = {!reads_side(s, 0) || t->vocab[0], !reads_side(s, 1) || t->vocab[1]}, still = !s->extend_vocabulary;
    const struct unfit of[] = {
        {"sentencepiece", theirs, has[0] && has[1]},
        {"source-sentencepiece", theirs, has[0]},
        {"target-sentencepiece", theirs, has[1]},
        {"joint-vocabulary", shared,
         s->joint_vocabulary != (t->vocab[0] && t->vocab[1] && same_tokens(t->vocab[0], t->vocab[1]))},
        {"normalise", theirs, has[0] && has[1]},
        {"min-count", grown, has[0] && has[1] && still},
        {"vocab-size", grown, has[0] && has[1] && still},
        {"source-vocab-size", grown, has[0] && still},
        {"target-vocab-size", grown, has[1] && still}
    };
    return check_unfit(s, of, sizeof of / sizeof *of);
}

/* Options that only some objectives know: one that did nothing would be taken for one that works. */
int check_effects(const struct settings *s)
{
    enum { TRANSLATES = 1 << OBJECTIVE_TRANSLATE, GOES_ON = 1 << OBJECTIVE_CAUSAL,
           CLASSIFIES = 1 << OBJECTIVE_CLASSIFY, TAGS = 1 << OBJECTIVE_TAG,
           MASKS = 1 << OBJECTIVE_MASK, SPANS = 1 << OBJECTIVE_SPAN,
           TEXTS_ALONE = GOES_ON | MASKS | SPANS, ENCODES = TRANSLATES | CLASSIFIES | TAGS | MASKS | SPANS,
           DECODES = TRANSLATES | GOES_ON | SPANS };
    static const struct { const char *option; int objectives; } of[] = {
        {"documents", TEXTS_ALONE}, {"pack", TEXTS_ALONE}, {"chunk", TEXTS_ALONE}, {"keep-empty", TRANSLATES},
        {"source-tokens", ENCODES}, {"source-sentencepiece", ENCODES}, {"source-vocab-size", ENCODES},
        {"target-tokens", TRANSLATES | GOES_ON}, {"target-sentencepiece", TRANSLATES | GOES_ON},
        {"target-vocab-size", TRANSLATES | GOES_ON}, {"joint-vocabulary", TRANSLATES},
        {"subword-samples", TRANSLATES}, {"subword-alpha", TRANSLATES}, {"valid-beam", TRANSLATES},
        {"tying", DECODES}, {"source-eos", ENCODES}, {"target-eos", TRANSLATES | SPANS}, {"pooling", CLASSIFIES},
        {"noise-density", MASKS | SPANS}, {"masked-share", MASKS}, {"random-share", MASKS}, {"whole-words", MASKS},
        {"mean-span", SPANS}
    };
    static const char *const names[] = {"translate", "causal", "classify", "tag", "mask", "span"};
    size_t i;
    for (i = 0; i < sizeof of / sizeof *of; i++) {
        if (!was_given(s, of[i].option) || of[i].objectives >> s->objective & 1) continue;
        say("--%s has no effect on --objective %s", of[i].option, names[s->objective]);
        return USAGE;
    }
    if (s->joint_vocabulary == 0 && was_given(s, "joint-vocabulary") && shares_embedding(&s->config) &&
        was_given(s, "tying")) {
        say("--tying %s needs one vocabulary for both sides, --joint-vocabulary no wants two",
            s->config.tying == TRF_TIED_ALL ? "all" : "embeddings");
        return USAGE;
    }
    if (was_given(s, "pack") && s->documents == DOCUMENTS_FILE) {
        say("--pack has no effect on --documents file, which is one document");
        return USAGE;
    }
    if (s->extend_vocabulary && !s->init_from) { say("--extend-vocabulary is for --init-from"); return USAGE; }
    return s->resume ? DONE : check_company(s);
}

// -----------------------------------------------------------------------------------------------
// >>labels         their texts, sorted; label i of the model is text i
// -----------------------------------------------------------------------------------------------

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void free_labels(struct labels *labels)
{
    int32_t i;
    for (i = 0; i < labels->n; i++) free(labels->name[i]);
    free(labels->name);
    memset(labels, 0, sizeof *labels);
}

static void append_label(struct labels *labels, const char *text, size_t bytes)
{
    labels->name = grow(labels->name, &labels->capacity, (size_t)labels->n + 1, sizeof *labels->name);
    labels->name[labels->n++] = format_text("%.*s", (int)bytes, text);
}

int32_t label_number(const struct labels *labels, const char *text, size_t bytes)
{
    char *key = format_text("%.*s", (int)bytes, text), **found;
    found = labels->n ? bsearch(&key, labels->name, (size_t)labels->n, sizeof key, by_text) : NULL;
    free(key);
    return found ? (int32_t)(found - labels->name) : -1;
}

/* Sorts, and leaves one of each. */
static void settle_labels(struct labels *labels)
{
    int32_t i, n = 0;
    qsort(labels->name, (size_t)labels->n, sizeof *labels->name, by_text);
    for (i = 0; i < labels->n; i++) {
        if (n && !strcmp(labels->name[n - 1], labels->name[i])) free(labels->name[i]);
        else labels->name[n++] = labels->name[i];
    }
    labels->n = n;
}

int32_t best_of(const trf_real *numbers, int32_t n)
{
    int32_t best = 0, i;
    for (i = 1; i < n; i++) if (numbers[i] > numbers[best]) best = i;
    return best;
}

/* The words of a line: calls each(user, word, bytes) and returns their number. */
static int32_t for_words(const char *line, void (*each)(void *user, const char *word, size_t bytes), void *user)
{
    int32_t n = 0;
    for (line += strspn(line, BLANKS); *line; line += strspn(line, BLANKS), n++) {
        size_t bytes = strcspn(line, BLANKS);
        if (each) each(user, line, bytes);
        line += bytes;
    }
    return n;
}

static void append_word(void *user, const char *word, size_t bytes)
{
    if (bytes <= MOST_LABEL_BYTES) append_label((struct labels *)user, word, bytes);
}

/* The label of a text: blanks around it, and the CR of a line that ends in CR CR LF, are no part of it. */
static const char *trim_label(const char *line, size_t *bytes)
{
    line += strspn(line, BLANKS);
    *bytes = strlen(line);
    while (*bytes && strchr(BLANKS, line[*bytes - 1])) --*bytes;
    return line;
}

/* Calls each(user, label, bytes) for the labels of one line. */
static void for_labels(const struct training *t, const char *line,
                       void (*each)(void *user, const char *label, size_t bytes), void *user)
{
    size_t bytes;
    const char *label = trim_label(line, &bytes);
    if (t->s->objective == OBJECTIVE_TAG) for_words(line, each, user);
    else if (bytes) each(user, label, bytes);
}

/* Those of one line. Now and then one of each is left, so that memory does not grow with the lines. 0: they are too
   many. */
static int append_labels(const struct training *t, const char *line, struct labels *labels)
{
    for_labels(t, line, append_word, labels);
    if (labels->n <= 4 * MOST_LABELS) return 1;
    settle_labels(labels);
    return labels->n <= MOST_LABELS;
}

/* Those of the text, but for lines that are marked; sorted, one of each. */
static void collect_labels(const struct training *t, const char *marked, struct labels *labels)
{
    const struct text *text = &t->text[1];
    size_t i;
    for (i = 0; i < text->count; i++)
        if (!(marked && marked[i]) && !append_labels(t, line_of(text, i), labels)) break;
    settle_labels(labels);
}

struct missing { struct labels *labels; int found; };

/* Puts a label that is not among the sorted ones in its place there. */
static void add_missing(void *user, const char *word, size_t bytes)
{
    struct missing *m = (struct missing *)user;
    struct labels *labels = m->labels;
    char *label;
    int32_t at = labels->n;
    if (bytes > MOST_LABEL_BYTES || label_number(labels, word, bytes) >= 0) return;
    append_label(labels, word, bytes);
    label = labels->name[at];
    for (; at > 0 && strcmp(labels->name[at - 1], label) > 0; at--) labels->name[at] = labels->name[at - 1];
    labels->name[at] = label;
    m->found = 1;
}

int64_t keep_labels(const struct training *t, char *held)
{
    struct labels labels = {NULL, 0, 0};
    struct missing m = {&labels, 0};
    uint64_t *back = zeroed(t->text[1].count, sizeof *back), hash;
    size_t i, n = 0;
    int64_t kept = 0;
    collect_labels(t, held, &labels);
    for (i = 0; i < t->text[1].count && labels.n <= MOST_LABELS; i++) {
        if (!held[i]) continue;
        m.found = 0;
        for_labels(t, line_of(&t->text[1], i), add_missing, &m);
        if (m.found) back[n++] = hash_line(line_of(&t->text[0], i));
    }
    qsort(back, n, sizeof *back, by_hash);
    for (i = 0; i < t->text[0].count && n; i++) {       /* with the others of their source */
        if (!held[i]) continue;
        hash = hash_line(line_of(&t->text[0], i));
        if (!bsearch(&hash, back, n, sizeof *back, by_hash)) continue;
        held[i] = 0;
        kept++;
    }
    free(back);
    free_labels(&labels);
    return kept;
}

int learn_labels(struct training *t)
{
    struct labels *labels = &t->labels;
    collect_labels(t, NULL, labels);
    if (labels->n > MOST_LABELS) {
        say("more than %d labels: is this the column of the labels?", MOST_LABELS);
        return FAILED;
    }
    if (labels->n >= 2) return DONE;
    say("there %s, but two are needed", labels->n ? "is one label" : "are no labels");
    return FAILED;
}

/* They travel as a text of the model, a line each. */
int store_labels(struct training *t)
{
    size_t capacity = 0, used = 0;
    char *text = grow(NULL, &capacity, 1, 1);
    trf_error err;
    int32_t i;
    int status;
    *text = 0;
    for (i = 0; i < t->labels.n; i++) {
        size_t bytes = strlen(t->labels.name[i]);
        text = grow(text, &capacity, used + bytes + 2, 1);
        used += (size_t)snprintf(text + used, bytes + 2, "%s%s", i ? "\n" : "", t->labels.name[i]);
    }
    status = t->labels.n && trf_model_set_metadata(t->model, "labels", text, &err) ? FAILED : DONE;
    if (status && err.status == TRF_E_LIMIT)
        say("the %d labels have %zu bytes together, a model has room for 1 MiB: is this the column of the labels?",
            (int)t->labels.n, used);
    else if (status) say_error("labels", &err);
    free(text);
    return status;
}

int load_labels(const trf_model *model, const char *path, struct labels *labels)
{
    const char *text = trf_model_metadata(model, "labels");
    int32_t wanted = trf_model_config(model)->n_labels;
    while (text && *text) {
        size_t bytes = strcspn(text, "\n");
        append_label(labels, text, bytes);
        text += bytes + (text[bytes] == '\n');
    }
    if (labels->n == wanted) return DONE;
    if (!text)
        say("%s: the metadata 'labels' is missing, the texts of the model's %d label%s, one a line: trf train stores "
            "them, a program in C calls trf_model_set_metadata(model, \"labels\", ...) before it saves", path,
            (int)wanted, plural(wanted));
    else
        say("%s: the metadata 'labels' has %d line%s, but the model has %d label%s: there must be one line for each",
            path, (int)labels->n, plural(labels->n), (int)wanted, plural(wanted));
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>words          a line of words, token by token, and where each word begins
// -----------------------------------------------------------------------------------------------

/* Appends the ids of a text to n ids, for which room is made: a character may become many tokens. */
static int encode_after(const trf_vocab *vocab, const char *text, int32_t **ids, size_t n, size_t *capacity,
                        int32_t *added, trf_error *err)
{
    int32_t room = (int32_t)fmin(INT32_MAX, (double)strlen(text) + 16);
    trf_status status;
    *ids = grow(*ids, capacity, n + (size_t)room, sizeof **ids);
    status = trf_vocab_encode(vocab, text, *ids + n, room, added, err);
    if (status == TRF_E_LIMIT && *added > room) {
        *ids = grow(*ids, capacity, n + (size_t)*added, sizeof **ids);
        status = trf_vocab_encode(vocab, text, *ids + n, *added, added, err);
    }
    if (status) *added = 0;
    return status ? FAILED : DONE;
}

struct encoding {
    const trf_vocab *vocab;
    struct word_tokens *to;
    char *text;
    size_t capacity;
    int failed;
};

/* Words are encoded one by one, so that a word's first token is known; between characters stands a blank. A word of
   invisible characters may have no subword: it is one unknown token, as it is where tokens are words. */
static void encode_word(void *user, const char *word, size_t bytes)
{
    struct encoding *e = (struct encoding *)user;
    struct word_tokens *to = e->to;
    int blank = trf_vocab_kind(e->vocab) == TRF_CHARACTERS && to->n_words > 0;
    int32_t n = 0;
    trf_error err;
    e->text = grow(e->text, &e->capacity, bytes + 2, 1);
    snprintf(e->text, bytes + 2, "%s%.*s", blank ? " " : "", (int)bytes, word);
    to->first = grow(to->first, &to->first_capacity, (size_t)to->n_words + 1, sizeof *to->first);
    to->first[to->n_words++] = to->n + blank;
    if (encode_after(e->vocab, e->text, &to->ids, (size_t)to->n, &to->ids_capacity, &n, &err)) {
        if (!e->failed) snprintf(to->why, sizeof to->why, "word %d: %s", (int)to->n_words, err.message);
        e->failed = 1;
        return;
    }
    if (n == 0) to->ids[to->n + n++] = UNKNOWN;         /* encode_after has made room for more than one */
    to->n += n;
}

int encode_words(const trf_vocab *vocab, const char *line, struct word_tokens *to)
{
    struct encoding e;
    memset(&e, 0, sizeof e);
    e.vocab = vocab;
    e.to = to;
    to->n = to->n_words = 0;
    *to->why = 0;
    for_words(line, encode_word, &e);
    free(e.text);
    return e.failed ? FAILED : DONE;
}

void free_word_tokens(struct word_tokens *words)
{
    free(words->ids);
    free(words->first);
}

struct labelling { const struct labels *labels; const struct word_tokens *words; int32_t *targets, at; int unknown; };

static void label_word(void *user, const char *word, size_t bytes)
{
    struct labelling *l = (struct labelling *)user;
    int32_t label = label_number(l->labels, word, bytes);
    if (l->at < l->words->n_words) l->targets[l->words->first[l->at++]] = label;
    if (label < 0) l->unknown++;
}

/* One label a word, -1 at all other tokens. Returns why not, or NULL. */
static const char *add_tagged(struct training *t, const trf_vocab *vocab, const char *line, const char *tags,
                              struct side ids[2], enum skip *kind, char why[300])
{
    struct word_tokens words;
    struct labelling labelling = {&t->labels, &words, NULL, 0, 0};
    size_t capacity = 0;
    int32_t n_tags = for_words(tags, NULL, NULL), i;
    memset(&words, 0, sizeof words);
    *why = 0;
    *kind = SKIP_LABEL;
    if (encode_words(vocab, line, &words)) {
        *kind = SKIP_UNREADABLE;
        snprintf(why, 300, "%s", words.why);
    } else if (words.n_words != n_tags)
        snprintf(why, 300, "%d word%s, but %d label%s", (int)words.n_words, plural(words.n_words), (int)n_tags,
                 plural(n_tags));
    else if (words.n > t->s->corpus.max_length) {
        *kind = SKIP_LONG;
        snprintf(why, 300, "%d tokens, at most %d", (int)words.n, (int)t->s->corpus.max_length);
    } else if (words.n) {
        labelling.targets = grow(NULL, &capacity, (size_t)words.n, sizeof *labelling.targets);
        for (i = 0; i < words.n; i++) labelling.targets[i] = -1;
        for_words(tags, label_word, &labelling);
        if (labelling.unknown)
            snprintf(why, 300, "%d label%s that the training data do not have, or of more than %d bytes",
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

static const char *add_classified(struct training *t, const trf_vocab *vocab, const char *line, const char *field,
                                  struct side ids[2], enum skip *kind, char why[300])
{
    size_t bytes;
    const char *label = trim_label(field, &bytes);
    int32_t n, number = label_number(&t->labels, field, strlen(field));     /* old checkpoints keep outer blanks */
    *kind = SKIP_LABEL;
    if (number < 0) number = label_number(&t->labels, label, bytes);
    if (number < 0) {
        if (!bytes) snprintf(why, 300, "no label");
        else if (bytes > MOST_LABEL_BYTES)
            snprintf(why, 300, "a label of %zu bytes, at most %d", bytes, (int)MOST_LABEL_BYTES);
        else
            snprintf(why, 300, "the training data do not have the label '%.*s'", (int)(bytes < 200 ? bytes : 200),
                     label);
        return why;
    }
    if (add_text(&ids[0], vocab, line, t->s->corpus.max_length, &n, why)) {
        *kind = n ? SKIP_LONG : SKIP_UNREADABLE;
        return why;
    }
    if (n) add_ids(&ids[1], &number, 1);
    else drop_last(&ids[0]);
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

const char *add_labelled(struct training *t, const trf_vocab *vocab, const char *line, const char *labels,
                         struct side ids[2], enum skip *kind, char why[300])
{
    const char *fault = unlearnable(vocab, line);
    *kind = SKIP_LONG;
    if (fault) return fault;
    return t->s->objective == OBJECTIVE_TAG ? add_tagged(t, vocab, line, labels, ids, kind, why)
                                            : add_classified(t, vocab, line, labels, ids, kind, why);
}

// -----------------------------------------------------------------------------------------------
// >>documents      text alone, in chunks
//
// A line is a document, or all of them are one (--documents file). A chunk has at most --chunk tokens; the rest of a
// document goes on in the next one. What a language model reads has an end mark behind every document, and none where
// a chunk is cut. With --pack documents follow one another in a chunk.
// -----------------------------------------------------------------------------------------------

struct stream { int32_t *ids; size_t n, capacity; };

static void cut_chunks(struct training *t, struct stream *stream, struct side ids[2])
{
    int lead = leading_side(t->s);
    size_t at, chunk = (size_t)t->s->chunk;
    for (at = 0; at < stream->n; at += chunk) {
        size_t n = stream->n - at < chunk ? stream->n - at : chunk;
        add_ids(&ids[lead], stream->ids + at, (int32_t)n);
        add_ids(&ids[!lead], NULL, 0);
    }
    stream->n = 0;
}

static void end_document(struct training *t, struct stream *stream)
{
    if (t->s->objective != OBJECTIVE_CAUSAL || stream->n == 0) return;
    stream->ids = grow(stream->ids, &stream->capacity, stream->n + 1, sizeof *stream->ids);
    stream->ids[stream->n++] = t->s->config.eos;
}

/* A text that is one document has line ends, for which words and most SentencePiece models have no token. */
void warn_of_line_ends(const struct training *t, const trf_vocab *vocab)
{
    int32_t ids[16], n;
    char text[64] = "";
    trf_error err;
    if (t->s->documents != DOCUMENTS_FILE) return;
    if (!trf_vocab_encode(vocab, "\n", ids, 16, &n, &err) && n <= 16)
        (void)trf_vocab_decode(vocab, ids, n, text, sizeof text, NULL, &err);
    if (!strchr(text, '\n'))
        say("warning: the vocabulary has no token for a line end: the line ends of %s are lost, and the model cannot "
            "write any; --tokens characters and --tokens sentencepiece keep them", t->s->text);
}

int add_documents(struct training *t, const trf_vocab *vocab, const struct text *text, const char *file,
                  struct side ids[2])
{
    struct stream stream = {NULL, 0, 0};
    const struct settings *s = t->s;
    trf_error err;
    size_t i;
    int status = DONE;
    for (i = 0; i < text->count && !status; i++) {
        const char *line = line_of(text, i);
        int32_t n = 0;
        const char *fault = unlearnable(vocab, line);
        if (fault) status = skip(t, SKIP_LONG, file, text->numbers[i], fault);
        else if (encode_after(vocab, line, &stream.ids, stream.n, &stream.capacity, &n, &err))
            status = skip(t, SKIP_UNREADABLE, file, text->numbers[i], err.message);
        else stream.n += (size_t)n;
        if (s->documents == DOCUMENTS_FILE || n == 0) continue;
        end_document(t, &stream);
        if (!s->pack) cut_chunks(t, &stream, ids);
    }
    if (s->documents == DOCUMENTS_FILE) end_document(t, &stream);
    cut_chunks(t, &stream, ids);
    free(stream.ids);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>noise          what is hidden from the model
// -----------------------------------------------------------------------------------------------

/* "<extra_id_0>", "<extra_id_1>"...: what stands for a missing span. Subwords were learned with them. */
int add_sentinels(struct training *t)
{
    trf_error err;
    char token[32];
    int32_t i;
    if (trf_vocab_kind(t->vocab[0]) == TRF_CHARACTERS) {
        say("--objective span needs words or subwords: <extra_id_0>, for what is missing, is no character");
        return USAGE;
    }
    for (i = 0; i < SENTINELS && trf_vocab_kind(t->vocab[0]) != TRF_SENTENCEPIECE; i++) {
        snprintf(token, sizeof token, "<extra_id_%d>", (int)i);
        if (trf_vocab_id(t->vocab[0], token) != 3 || !trf_vocab_add(t->vocab[0], token, &err)) continue;
        say_error("vocabulary", &err);
        return FAILED;
    }
    return DONE;
}

int32_t n_sentinels(const struct settings *s) { return s->objective == OBJECTIVE_SPAN ? SENTINELS : 0; }

/* The sentinels of a vocabulary: the first one's id, and how many follow it in their order. */
static int32_t find_sentinels(const trf_vocab *vocab, int32_t *first)
{
    char token[32] = "<extra_id_0>";
    int32_t n = 0;
    *first = trf_vocab_id(vocab, token);
    if (*first == 3) return 0;
    do snprintf(token, sizeof token, "<extra_id_%d>", (int)++n);
    while (trf_vocab_id(vocab, token) == *first + n);
    return n;
}

/* What the library would refuse of the options, before the data are read. */
int check_noise(const struct settings *s)
{
    trf_noise_options o = s->noise;
    trf_noise *noise = NULL;
    trf_error err;
    if (s->objective != OBJECTIVE_MASK && s->objective != OBJECTIVE_SPAN) return DONE;
    o.kind = s->objective == OBJECTIVE_MASK ? TRF_NOISE_MASKS : TRF_NOISE_SPANS;
    o.vocab = 8;
    o.words = NULL;
    o.whole_words = 0;
    o.first_sentinel = 4;
    o.n_sentinels = 1;
    if (trf_noise_create(&noise, &o, &err)) return refused("noise", &err);
    trf_noise_destroy(noise);
    return DONE;
}

int make_noise(struct training *t, const trf_vocab *vocab)
{
    trf_noise_options o = t->s->noise;
    trf_error err;
    if (t->s->objective != OBJECTIVE_MASK && t->s->objective != OBJECTIVE_SPAN) return DONE;
    o.kind = t->s->objective == OBJECTIVE_MASK ? TRF_NOISE_MASKS : TRF_NOISE_SPANS;
    o.mask = t->s->config.pad;
    o.vocab = trf_vocab_size(vocab);
    o.words = vocab;
    o.seed = t->s->corpus.seed;
    if (o.kind == TRF_NOISE_SPANS && (o.n_sentinels = find_sentinels(vocab, &o.first_sentinel)) == 0) {
        say("the subwords have no <extra_id_0>, which stands for the first missing span: learn them with such "
            "user-defined symbols");
        return FAILED;
    }
    if (!trf_noise_create(&t->noise, &o, &err)) {
        o.seed = 0x5EED;        /* the same places of what is held out are hidden each time, whatever --seed is */
        if (!trf_noise_create(&t->valid_noise, &o, &err)) return DONE;
    }
    return refused("noise", &err);
}

// -----------------------------------------------------------------------------------------------
// >>model          what follows for it
// -----------------------------------------------------------------------------------------------

void set_kind(struct settings *s)
{
    trf_config *c = &s->config;
    int encoder = reads_side(s, 0), decoder = s->objective != OBJECTIVE_MASK && !learns_labels(s);
    c->kind = !encoder ? TRF_DECODER_ONLY : decoder ? TRF_ENCODER_DECODER : TRF_ENCODER_ONLY;
    c->head = s->objective == OBJECTIVE_MASK ? TRF_HEAD_MASKED
            : s->objective == OBJECTIVE_TAG ? TRF_HEAD_TOKENS
            : s->objective != OBJECTIVE_CLASSIFY ? TRF_HEAD_NONE : s->pooling ? TRF_HEAD_FIRST : TRF_HEAD_MEAN;
    if (s->objective == OBJECTIVE_CAUSAL) c->target_eos = 0;        /* documents bring their own */
    if (!encoder && !was_given(s, "encoder-layers")) c->encoder_layers = 0;
    if (!decoder && !was_given(s, "decoder-layers")) c->decoder_layers = 0;
    if (c->kind == TRF_ENCODER_DECODER || was_given(s, "tying")) return;
    c->tying = !decoder ? TRF_UNTIED : c->tying == TRF_TIED_ALL ? TRF_TIED_DECODER : c->tying;
}

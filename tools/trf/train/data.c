// trf train: reading the data, and holding out a part of them. See data.h.
//
// Text is read once, into memory, so it may come from a pipe. Unless pairs for validation are
// given, some are held out.

#include "data.h"

// -----------------------------------------------------------------------------------------------
// >>skips          lines that cannot be trained on: counted; the first five are reported
// -----------------------------------------------------------------------------------------------

const char *training_file(const struct settings *s, int side)
{
    if (s->text || s->next_sentences) return s->text ? s->text : s->next_sentences;
    return s->tsv ? s->tsv : side ? s->target : s->source;
}

int skip(const struct settings *s, struct examples *data, enum skip why, const char *file,
         int64_t line, const char *reason)
{
    int64_t before = 0;
    int i;
    for (i = 0; i < N_SKIPS; i++) before += data->skips[i];
    data->skips[why]++;
    if (s->strict) {
        say("%s:%lld: %s (--strict)", file, (long long)line, reason);
        return FAILED;
    }
    if (before < 5) say("left out: %s:%lld: %s", file, (long long)line, reason);
    return DONE;
}

void say_skips(const struct settings *s, const struct examples *data, int64_t trained_on)
{
    static const char *const names[N_SKIPS] = {"unreadable", "too long", "empty",
                                               "empty on one side", "without their labels"};
    char list[256] = "";
    int64_t all = 0;
    int i;
    for (i = 0; i < N_SKIPS; i++) {
        all += data->skips[i];
        if (data->skips[i])
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%lld %s",
                     *list ? ", " : "", (long long)data->skips[i], names[i]);
    }
    if (!all) return;
    inform("left out: %lld %s%s (%s)\n", (long long)all,
            s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line", plural(all), list);
    if (all > trained_on / 9)
        say("warning: that is more than a tenth of the data; do the files match the options, and "
            "are they UTF-8?");
}

// -----------------------------------------------------------------------------------------------
// >>reading        pairs, or lines of text alone
// -----------------------------------------------------------------------------------------------

/* The lines without a tab before the first line with one. Possibly no line has a tab. */
struct no_tab { const char *fault; int64_t number[5], n; };

static int skip_without_tab(const struct settings *s, struct examples *data, struct no_tab *lines,
                            const char *file)
{
    int64_t i, n = lines->n;
    for (i = lines->n = 0; i < n; i++)
        if (skip(s, data, SKIP_UNREADABLE, file, i < 5 ? lines->number[i] : 0, lines->fault))
            return FAILED;
    return DONE;
}

static void say_no_tab(const struct settings *s, const struct pair_reader *pairs)
{
    const char *const want[] = {"a source, a tab and a target", "", "a text, a tab and its label",
                                "words, a tab and their labels", "", ""};
    say("%s: no line has a tab; --tsv takes %s in each line%s", pairs->side[0].name,
        want[s->objective],
        s->objective == OBJECTIVE_TRANSLATE
            ? ". For two files of lines give --source and --target; for plain text give --text "
              "with --objective causal, mask or span"
            : "; for two files of lines give --source and --target");
}

static int read_pairs(const struct settings *s, struct examples *data, struct pairs *to,
                      const char *source, const char *target, const char *tsv)
{
    const char *what = to == &data->held ? "validate" : "train";
    struct no_tab no_tab = {NULL, {0}, 0};
    struct pair_reader pairs;
    int got = -1, status = open_pairs(&pairs, source, target, tsv, tsv ? s->columns : NULL);
    if (!status) {
        pairs.two_texts = s->objective == OBJECTIVE_CLASSIFY;
        while ((got = next_pair(&pairs)) > 0) {
            if (pairs.lacks_tab && no_tab.n == pairs.at->number - 1 && !s->strict) {
                if (no_tab.n < 5) no_tab.number[no_tab.n] = pairs.at->number;
                no_tab.n++;
                no_tab.fault = pairs.fault;
                continue;
            }
            if (no_tab.n && skip_without_tab(s, data, &no_tab, pairs.at->name)) { got = -1; break; }
            if (pairs.fault) {
                if (!skip(s, data, SKIP_UNREADABLE, pairs.at->name, pairs.at->number, pairs.fault))
                    continue;
                got = -1;
                break;
            }
            store_line(&to->text[0], pairs.source, pairs.side[0].number);
            store_line(&to->text[1], pairs.target, pairs.side[0].number);
        }
        if (got == 0 && pairs.side[0].number == 0) {
            say("%s is empty: nothing to %s on", pairs.side[0].name, what);
            got = -1;
        }
        if (got == 0 && no_tab.n) {
            say_no_tab(s, &pairs);
            got = -1;
        }
    }
    close_pairs(&pairs);
    return status ? status : got ? FAILED : DONE;
}

/* Lines of text; those of the other side are empty. In a file that is one document they keep their
   line ends. */
static int read_documents(const struct settings *s, struct examples *data, struct pairs *to,
                          const char *path)
{
    struct reader r;
    int lead = leading_side(s), got = -1, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *line = format_text("%s%s", r.line, s->documents == DOCUMENTS_FILE ? "\n" : "");
        if (r.fault) got = skip(s, data, SKIP_UNREADABLE, r.name, r.number, r.fault) ? -1 : got;
        else {
            store_line(&to->text[lead], line, r.number);
            store_line(&to->text[!lead], "", r.number);
        }
        free(line);
        if (got < 0) break;
    }
    if (!status && got == 0 && r.number == 0) {
        say("%s is empty: nothing to %s", r.name, to == &data->held ? "validate on" : "learn from");
        got = -1;
    }
    close_reader(&r);
    return status ? status : got ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>held-out       pairs for validation
// -----------------------------------------------------------------------------------------------

/* Marks about `size` pairs to hold out and counts them. */
static int choose_held_out(const struct text *source, int64_t size, trf_hold_out_rule rule,
                           char *held, int64_t *count)
{
    const char **lines = lines_of(source);
    trf_error err;
    int status = trf_hold_out(lines, (int64_t)source->count, size, rule, held, count, NULL, &err)
                     ? FAILED
                     : DONE;
    if (status) say_error("held out", &err);
    free((void *)lines);
    return status;
}

/* Moves about a twentieth of the pairs or lines, a thousand or so at most, from the training text
   to that of validation. */
static int hold_out(struct settings *s, struct examples *data, trf_hold_out_rule rule)
{
    int64_t n = (int64_t)data->learn.text[0].count, size = s->valid_size, count;
    char *held;
    size_t i;
    int side;
    if (!is_given(s, AT(valid_size))) size = n / 20 < 1000 ? n / 20 : 1000;
    if (size == 0) return DONE;
    if (size >= n) {
        say("--valid-size %lld leaves none of %lld pair%s to train on", (long long)size,
            (long long)n, plural(n));
        return FAILED;
    }
    held = zeroed((size_t)n, 1);
    if (learns_from_text(s) && s->documents == DOCUMENTS_FILE) {
        memset(held + (n - size), 1, (size_t)size);     /* its end */
        count = size;
    } else if (choose_held_out(&data->learn.text[learns_from_text(s) && leading_side(s)], size,
                               rule, held, &count)) {
        free(held);
        return FAILED;
    }
    if (learns_labels(s)) count -= keep_labels(s, data->learn.text, held);
    if (count == n) {
        say("holding out %lld pair%s leaves none to train on; give --valid-size 0", (long long)size,
            plural(size));
        free(held);
        return FAILED;
    }
    for (side = 0; side < 2; side++) {
        struct text *all = &data->learn.text[side], kept;
        memset(&kept, 0, sizeof kept);
        for (i = 0; i < (size_t)n; i++)
            store_line(held[i] ? &data->held.text[side] : &kept, line_of(all, i), all->numbers[i]);
        free_text(all);
        *all = kept;
    }
    free(held);
    s->valid_size = size;
    inform("held out: %lld of %lld %s, for validation (--valid-size 0 trains on all)\n",
           (long long)count, (long long)n, s->objective == OBJECTIVE_TRANSLATE ? "pairs" : "lines");
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// --next-sentences: pairs of sentences for BERT's second objective
//
// A line of the text is a sentence, an empty line ends a document. A sentence that another one
// follows makes one pair: with that one, or with one of another document, each in half of the cases
// (Devlin et al. 2019, 3.1; BERT's create_pretraining_data.py, which also packs several sentences
// into each half). In a text of one document the other sentence is any but the two. The seed alone
// decides, so the same text gives the same pairs.
// -----------------------------------------------------------------------------------------------

struct sentences {
    struct text text;
    size_t *document, capacity;     /* of each sentence; and the room for them */
    size_t documents;
};

/* A number below n, by splitmix64 (Steele et al. 2014). */
static size_t draw(uint64_t *state, size_t n)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (size_t)((z ^ z >> 31) % n);
}

static int read_sentences(const struct settings *s, struct examples *data, const char *path,
                          struct sentences *to)
{
    struct reader r;
    int begins = 1, got = -1, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *at;
        if (r.fault) {
            if (skip(s, data, SKIP_UNREADABLE, r.name, r.number, r.fault)) { got = -1; break; }
            continue;
        }
        for (at = r.line; (at = strchr(at, '\t')); at++) *at = ' ';     /* a tab ends a text */
        if (!r.line[strspn(r.line, BLANKS)]) { begins = 1; continue; }
        to->documents += (size_t)begins;
        begins = 0;
        to->document = grow(to->document, &to->capacity, to->text.count + 1, sizeof *to->document);
        to->document[to->text.count] = to->documents;
        store_line(&to->text, r.line, r.number);
    }
    close_reader(&r);
    return status ? status : got ? FAILED : DONE;
}

/* A sentence that does not belong behind sentence i. */
static size_t draw_other(const struct sentences *from, size_t i, uint64_t *state)
{
    size_t other;
    do other = draw(state, from->text.count);
    while (from->documents > 1 ? from->document[other] == from->document[i]
                               : other == i || other == i + 1);
    return other;
}

static int read_next_sentences(const struct settings *s, struct examples *data, struct pairs *to,
                        const char *path)
{
    struct sentences from;
    uint64_t state = s->seed;
    size_t i;
    int status;
    memset(&from, 0, sizeof from);
    status = read_sentences(s, data, path, &from);
    if (!status && from.text.count < 3) {
        say("%s: next sentences need three sentences or more, one per line, got %d", path,
            (int)from.text.count);
        status = FAILED;
    }
    for (i = 0; !status && i + 1 < from.text.count; i++) {
        int follows;
        size_t second = i + 1;
        char *pair;
        if (from.document[i + 1] != from.document[i]) continue;
        follows = draw(&state, 2) == 0;
        if (!follows) second = draw_other(&from, i, &state);
        pair = format_text("%s\t%s", line_of(&from.text, i), line_of(&from.text, second));
        store_line(&to->text[0], pair, from.text.numbers[i]);
        store_line(&to->text[1], follows ? "next" : "random", from.text.numbers[i]);
        free(pair);
    }
    if (!status && to->text[0].count == 0) {
        say("%s: no sentence follows another one: documents end at empty lines", path);
        status = FAILED;
    }
    free_text(&from.text);
    free(from.document);
    return status;
}

int read_data(struct settings *s, struct examples *data, trf_hold_out_rule rule)
{
    struct pairs *learn = &data->learn;
    int status = s->token_file       ? DONE     /* the pairs stay there */
                 : s->text           ? read_documents(s, data, learn, s->text)
                 : s->next_sentences ? read_next_sentences(s, data, learn, s->next_sentences)
                                     : read_pairs(s, data, learn, s->source, s->target, s->tsv);
    if (status) return status;
    if (!s->valid_tsv && !s->valid_source && !s->valid_text)
        return s->token_file ? DONE : hold_out(s, data, rule);
    if (s->valid_text) return read_documents(s, data, &data->held, s->valid_text);
    if ((status = read_pairs(s, data, &data->held, s->valid_source, s->valid_target, s->valid_tsv)))
        return status;
    if (data->held.text[0].count) return DONE;
    say("%s: no pair to validate on", s->valid_tsv ? s->valid_tsv : s->valid_source);
    return FAILED;
}

static uint64_t hash_pair(const struct text text[2], size_t i)
{
    return hash_line(line_of(&text[0], i)) * 1099511628211u ^ hash_line(line_of(&text[1], i));
}

/* Validation needs data that training has not seen. */
void warn_of_overlap(const struct settings *s, const struct examples *data)
{
    size_t n = data->learn.text[0].count, held = data->held.text[0].count, i, both = 0;
    uint64_t *hashes = zeroed(n, sizeof *hashes);
    for (i = 0; i < n; i++) hashes[i] = hash_pair(data->learn.text, i);
    qsort(hashes, n, sizeof *hashes, by_hash);
    for (i = 0; i < held; i++) {
        uint64_t hash = hash_pair(data->held.text, i);
        both += bsearch(&hash, hashes, n, sizeof hash, by_hash) != NULL;
    }
    free(hashes);
    if (2 * both > held)
        say("warning: %zu of %zu validation %s%s %s among the training data: the scores show "
            "what the model has memorised, not what it does with new data",
            both, held, s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line",
            plural((int64_t)held), both == 1 ? "is" : "are");
}

static void free_pairs(struct pairs *pairs)
{
    int side;
    for (side = 0; side < 2; side++) {
        free_text(&pairs->text[side]);
        free_side(&pairs->ids[side]);
    }
    free(pairs->line);
}

void free_examples(struct examples *data)
{
    free_pairs(&data->learn);
    free_pairs(&data->held);
}

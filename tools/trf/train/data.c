// trf train, trf prepare: the files of the options become a data set of the library. See data.h.
//
// Files may be packed, and text may come from a pipe, so lines are read here and added one by one.
// The library splits, encodes and counts them (trf_dataset).

#include "data.h"
#include "progress.h"

// -----------------------------------------------------------------------------------------------
// >>skips          lines that cannot be trained on: counted; the first five are reported
// -----------------------------------------------------------------------------------------------

const char *const *lines_of(const trf_data_lines *lines, int side)
{
    return side ? lines->target : lines->source;
}

const char *training_file(const struct settings *s, int side)
{
    if (s->train.text || s->train.next_sentences)
        return s->train.text ? s->train.text : s->train.next_sentences;
    return s->tsv ? s->tsv : side ? s->target : s->source;
}

/* Tells of something that is not as it should be; takes both texts. */
static void tell(struct data *d, const char *name, int64_t count, const char *file, int64_t line,
                 char *text, char *remedy)
{
    if (d->watch) {
        d->watch->found(d->user, name, count, file, line, text, remedy);
        return;
    }
    say("warning: %s%s%s", text, remedy ? ": " : "", remedy ? remedy : "");
    free(text);
    free(remedy);
}

/* A line as it was read. */
static void see(struct data *d, const struct reader *r)
{
    if (r->kind == TRF_FAULT_ENCODING) note_bytes(&d->bytes, r->line, r->length);
    if (d->watch) d->watch->read(d->user, r);
}

const char *file_of_side(const struct data *d, const char *file, int side)
{
    const struct settings *s = d->s;
    const char *const sources[] = {s->source, s->train.valid_source, s->train.test_source},
               *const targets[] = {s->target, s->train.valid_target, s->train.test_target};
    size_t k;
    int i;
    for (i = 0; i < 3 && side; i++)
        if (sources[i] && targets[i] && !strcmp(file, sources[i])) return targets[i];
    for (k = 0; k < d->files[0].n && k < d->files[1].n && side; k++)
        if (!strcmp(file, d->files[0].item[k])) return d->files[1].item[k];
    return file;
}

int skip(struct data *d, trf_fault fault, const char *file, int64_t line, const char *why)
{
    int64_t before = 0;
    int i;
    for (i = 0; i < TRF_FAULT_COUNT; i++) before += d->skips[i];
    d->skips[fault]++;
    if (d->watch) { d->watch->left_out(d->user, fault, file, line, why); return DONE; }
    if (d->s->train.strict) {
        say("%s:%lld: %s (--strict)", file, (long long)line, why);
        return d->status = FAILED;
    }
    if (before < 5) say("left out: %s:%lld: %s", file, (long long)line, why);
    return DONE;
}

/* The library asks about a line. An empty text is no document, and no fault. */
static int skip_line(void *user, const trf_bad_line *line)
{
    struct data *d = (struct data *)user;
    const struct settings *s = d->s;
    const char *file = file_of_side(d, line->path ? line->path : "",
                                    line->side && !learns_labels(s));
    if (line->fault == TRF_FAULT_EMPTY && learns_from_text(s)) return 0;
    return skip(d, line->fault, file, line->number, line->why);
}

char *shell_name(const char *name)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@";
    int n = (int)strlen(name) - (ends_with(name, ".gz") ? 3 : 0);
    return format_text(name[strspn(name, plain)] && !strchr(name, '\'') ? "'%.*s'" : "%.*s", n, name);
}

char *unpack_first(char *remedy, const char *name)
{
    char *text = remedy;
    if (!ends_with(name, ".gz")) return text;
    text = format_text("%s; before that: gunzip -k %s", remedy, name);
    free(remedy);
    return text;
}

char *remedy_of(const struct data *d, trf_fault fault)
{
    const struct settings *s = d->s;
    if (fault == TRF_FAULT_ENCODING) {
        char *name = shell_name(training_file(s, 0)), *text;
        text = format_text("they are not UTF-8 but probably %s: iconv -f %s -t utf-8 %s",
                           encoding_of(&d->bytes)->name, encoding_of(&d->bytes)->iconv, name);
        free(name);
        return unpack_first(text, training_file(s, 0));
    }
    if (fault == TRF_FAULT_LONG)
        return format_text("--max-length %d allows %d tokens: a larger one takes longer lines, and "
                           "more memory",
                           (int)s->config.max_length, (int)s->corpus.max_length);
    return format_text("%s", fault == TRF_FAULT_LINE ? "--max-line-bytes allows longer lines"
                             : fault == TRF_FAULT_EMPTY || fault == TRF_FAULT_HALF
                                 ? "--keep-empty keeps pairs with one empty side"
                                 : "do the files match the options?");
}

static void say_remedy(const struct data *d)
{
    int most = 0, i;
    char *remedy;
    for (i = 1; i < TRF_FAULT_COUNT; i++) if (d->skips[i] > d->skips[most]) most = i;
    remedy = remedy_of(d, (trf_fault)most);
    say("%s", remedy);
    free(remedy);
}

const char *const fault_names[TRF_FAULT_COUNT] = {"malformed", "too long", "empty",
                                                  "empty on one side", "without their labels",
                                                  "longer than --max-line-bytes", "not UTF-8"};

int say_skips(const struct data *d, int64_t trained_on, int refuses)
{
    const char *lines = d->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line";
    char list[256] = "";
    int64_t all = 0;
    int i;
    for (i = 0; i < TRF_FAULT_COUNT; i++) {
        all += d->skips[i];
        if (d->skips[i])
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%lld %s",
                     *list ? ", " : "", (long long)d->skips[i], fault_names[i]);
    }
    if (!all || d->watch) return DONE;
    inform("left out: %lld %s%s (%s)\n", (long long)all, lines, plural(all), list);
    if (all <= trained_on / 9) return DONE;
    refuses = refuses && all > trained_on && !d->s->train.allow_left_out;
    if (!trained_on) say("all %lld %ss are left out", (long long)all, lines);
    else
        say("%s%lld of %lld %ss are left out, more than a %s", refuses ? "" : "warning: ",
            (long long)all, (long long)(all + trained_on), lines,
            refuses ? "half: --allow-left-out trains on the others" : "tenth");
    say_remedy(d);
    return refuses ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>reading        pairs, or lines of text alone
// -----------------------------------------------------------------------------------------------

int add_line(struct data *d, const trf_line *line)
{
    trf_error err;
    int side;
    if (learns_labels(d->s) && line->source && strchr(line->source, '\t') &&
        d->s->objective != OBJECTIVE_TAG && !d->s->config.segments)
        return skip(d, TRF_FAULT_UNREADABLE, line->path, line->number,
                    "two texts, but the model has no segments (--segments 2)");
    if (!line->held_out && line->number == 1 && line->source && line->target)
        for (side = 0; side < 2; side++) {
            free(d->first[side]);
            d->first[side] = format_text("%s", side ? line->target : line->source);
        }
    d->lines += !line->held_out;
    if (!trf_dataset_add_line(d->set, line, &err)) {
        if (d->watch) d->watch->added(d->user, line);
        return DONE;
    }
    if (!d->status) say_error(NULL, &err);
    return FAILED;
}

/* The lines without a tab before the first line with one. Possibly no line has a tab. */
struct no_tab { const char *fault; int64_t number[5], n; };

static int skip_without_tab(struct data *d, struct no_tab *lines, const char *file)
{
    int64_t i, n = lines->n;
    for (i = lines->n = 0; i < n; i++)
        if (skip(d, TRF_FAULT_UNREADABLE, file, i < 5 ? lines->number[i] : 0, lines->fault))
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

/* Two files of different lengths: an error, but for who looks at them. */
static void tell_unequal(struct data *d, const struct reader *a, const struct reader *b)
{
    const struct reader *less = a->number < b->number ? a : b, *more = less == a ? b : a;
    tell(d, "unequal", more->number - less->number, more->name, less->number + 1,
         unequal_text(a, b), NULL);
}

static int read_pairs(struct data *d, int held_out, const char *source, const char *target,
                      const char *tsv)
{
    const struct settings *s = d->s;
    struct no_tab no_tab = {NULL, {0}, 0};
    struct pair_reader pairs;
    int got = -1, status = open_pairs(&pairs, source, target, tsv, tsv ? s->columns : NULL);
    pairs.two_texts = s->objective == OBJECTIVE_CLASSIFY;
    pairs.keep_unpaired = d->watch ? 2 : 0;
    while (!status && (got = next_pair(&pairs)) > 0) {
        trf_line line = {pairs.source, pairs.target, pairs.side[0].name, pairs.side[0].number,
                         held_out, 0};
        if (pairs.unpaired) continue;
        see(d, &pairs.side[0]);
        if (!tsv) see(d, &pairs.side[1]);
        if (pairs.lacks_tab && no_tab.n == pairs.at->number - 1 && !s->train.strict) {
            if (no_tab.n < 5) no_tab.number[no_tab.n] = pairs.at->number;
            no_tab.n++;
            no_tab.fault = pairs.fault;
            continue;
        }
        if (no_tab.n) status = skip_without_tab(d, &no_tab, pairs.at->name);
        if (!status)
            status = pairs.fault ? skip(d, pairs.at->kind, pairs.at->name, pairs.at->number,
                                        pairs.fault)
                                 : add_line(d, &line);
    }
    if (!status && got == 0 && pairs.side[0].number == 0) {
        say("%s is empty: nothing to %s on", pairs.side[0].name, held_out ? "validate" : "train");
        got = -1;
    }
    if (!status && got == 0 && pairs.unpaired)
        tell_unequal(d, &pairs.side[0], &pairs.side[1]);
    if (!status && got == 0 && no_tab.n) {
        say_no_tab(s, &pairs);
        got = -1;
    }
    close_pairs(&pairs);
    return status ? status : got ? FAILED : DONE;
}

/* Lines of text. In a file that is one document they keep their line ends. */
static int read_documents(struct data *d, int held_out, const char *path)
{
    struct reader r;
    int got = -1, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *text = format_text("%s%s", r.line, d->s->train.documents == DOCUMENTS_FILE ? "\n"
                                 : "");
        trf_line line = {NULL, text, r.name, r.number, held_out, 0};
        see(d, &r);
        status = r.fault ? skip(d, r.kind, r.name, r.number, r.fault)
                         : add_line(d, &line);
        free(text);
    }
    if (!status && got == 0 && r.number == 0) {
        say("%s is empty: nothing to %s", r.name, held_out ? "validate on" : "learn from");
        got = -1;
    }
    close_reader(&r);
    return status ? status : got ? FAILED : DONE;
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

static int read_sentences(struct data *d, const char *path, struct sentences *to)
{
    struct reader r;
    int begins = 1, got = -1, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *at;
        see(d, &r);
        if (r.fault) {
            if ((status = skip(d, r.kind, r.name, r.number, r.fault))) break;
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

static int add_sentences(struct data *d, const char *path, const struct sentences *from)
{
    uint64_t state = d->s->seed;
    size_t i;
    int status = DONE;
    if (from->text.count < 3) {
        say("%s: next sentences need three sentences or more, one per line, got %d", path,
            (int)from->text.count);
        return FAILED;
    }
    for (i = 0; !status && i + 1 < from->text.count; i++) {
        int follows;
        char *pair;
        if (from->document[i + 1] != from->document[i]) continue;
        follows = draw(&state, 2) == 0;
        pair = format_text("%s\t%s", line_of(&from->text, i),
                           line_of(&from->text, follows ? i + 1 : draw_other(from, i, &state)));
        {
            trf_line line = {pair, follows ? "next" : "random", path, from->text.numbers[i], 0, 0};
            status = add_line(d, &line);
        }
        free(pair);
    }
    if (status || d->lines) return status;
    say("%s: no sentence follows another one: documents end at empty lines", path);
    return FAILED;
}

static int read_next_sentences(struct data *d, const char *path)
{
    struct sentences from;
    int status;
    memset(&from, 0, sizeof from);
    status = read_sentences(d, path, &from);
    if (!status) status = add_sentences(d, path, &from);
    free_text(&from.text);
    free(from.document);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>data-set       all lines, split and encoded
// -----------------------------------------------------------------------------------------------

trf_dataset_options data_options(struct data *d)
{
    static const trf_data_kind kinds[] = {TRF_DATA_PAIRS,  TRF_DATA_TEXTS,   TRF_DATA_LABELLED,
                                          TRF_DATA_TAGGED, TRF_DATA_SOURCES, TRF_DATA_SOURCES,
                                          TRF_DATA_LABELLED};
    const struct settings *s = d->s;
    trf_dataset_options o = trf_dataset_defaults();
    o.kind = kinds[s->objective];
    o.config = &s->config;
    o.label_kind = s->objective == OBJECTIVE_CLASSIFY ? s->config.label_kind : TRF_LABELS_ONE_OF;
    o.max_length = s->corpus.max_length;
    o.chunk = learns_from_text(s) ? s->train.chunk : 0;
    o.pack = s->train.pack;
    o.files = learns_from_text(s) && s->train.documents == DOCUMENTS_FILE;
    o.keep_empty = s->train.keep_empty;
    o.source_first = s->search.source_first;
    o.source_last = s->search.source_last;
    o.target_first = s->search.forced_first;
    o.seed = s->seed;
    o.bad_line = skip_line;
    o.user = d;
    return o;
}

static int64_t count_different(const char *const *lines, int64_t n)
{
    uint64_t *hashes = zeroed((size_t)n, sizeof *hashes);
    int64_t i, different = n > 0;
    for (i = 0; i < n; i++) hashes[i] = hash_line(lines[i]);
    qsort(hashes, (size_t)n, sizeof *hashes, by_hash);
    for (i = 1; i < n; i++) different += hashes[i] != hashes[i - 1];
    free(hashes);
    return different;
}

uint64_t hash_pair(const trf_data_lines *lines, int64_t i)
{
    return hash_line(lines->source[i]) * 1099511628211u ^ hash_line(lines->target[i]);
}

/* How many pairs of one part are in the other. first: the first of them, or -1. */
static int64_t count_known(const trf_data_lines *lines, struct part one, struct part other,
                           int64_t *first)
{
    struct hashes all = {NULL, 0, 0}, known = {NULL, 0, 0};
    int64_t i, count = 0;
    *first = -1;
    for (i = one.from; i < one.from + one.n; i++) note_hash(&all, hash_pair(lines, i));
    for (i = other.from; i < other.from + other.n; i++)
        if (has_hash(&all, hash_pair(lines, i))) note_hash(&known, hash_pair(lines, i));
    for (i = one.from; i < one.from + one.n; i++) {
        if (!has_hash(&known, hash_pair(lines, i))) continue;
        if (!count++) *first = i;
    }
    free_hashes(&all);
    free_hashes(&known);
    return count;
}

void tell_overlap(struct data *d, const trf_data_lines *lines, struct part held,
                  struct part learned)
{
    int64_t first, both = count_known(lines, held, learned, &first);
    int most = 2 * both > held.n;
    if (!both || (!most && !d->watch)) return;
    tell(d, most ? "overlap" : "some-overlap", both, NULL, first,
         format_text("%lld of %lld %s %s%s %s among the %s data", (long long)both,
                     (long long)held.n, held.name,
                     d->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line", plural(held.n),
                     both == 1 ? "is" : "are", learned.name),
         format_text("the scores show what the model has memorised, not what it does with new "
                     "data"));
}

static int has_valid_file(const struct settings *s)
{
    return s->train.valid_tsv || s->train.valid_source || s->train.valid_text;
}

/* Whether more than half of the lines have one word alone. */
static int are_single_words(const char *const *lines, int64_t n)
{
    int64_t i, single = 0;
    for (i = 0; i < n; i++) single += !lines[i][strcspn(lines[i], " \t")];
    return 2 * single > n;
}

/* A label that occurs once, in the first line; or a column's usual name as a source. */
static int has_header(const struct data *d, const trf_data_lines *lines, int64_t labels)
{
    static const char *const names[] = {"source", "src", "text", "sentence", "input", "question"};
    int64_t n = lines->n + lines->n_held_out, i, equal = 0;
    size_t k;
    if (!d->first[0] || !d->first[1]) return 0;
    if (d->s->objective == OBJECTIVE_CLASSIFY) {
        for (i = 0; i < n; i++) equal += !strcmp(lines->target[i], d->first[1]);
        return n >= 10 && equal == 1 && labels < n / 4;
    }
    for (k = 0; k < sizeof names / sizeof *names; k++) equal += !strcmp(d->first[0], names[k]);
    return d->s->objective == OBJECTIVE_TRANSLATE && equal;
}

/* What a file looks like that is not what the objective reads. */
static void hint(struct data *d, const trf_data_lines *lines)
{
    const struct settings *s = d->s;
    const char *file = training_file(s, 0);
    int64_t n = lines->n + lines->n_held_out, labels = 0;
    if (s->objective == OBJECTIVE_CLASSIFY && !s->config.label_kind)
        labels = count_different(lines->target, n);
    if (n == 1 && !s->train.token_file)
        tell(d, "one-line", 1, file, 1,
             format_text("%s has one line; each %s has a line of its own", file,
                         s->objective == OBJECTIVE_TRANSLATE ? "pair" : "text"), NULL);
    if (has_header(d, lines, labels))
        tell(d, "header", 1, file, 1,
             format_text("%s:1: '%s' and '%s' look like a header, not like data", file,
                         d->first[0], d->first[1]), format_text("tail -n +2 leaves it out"));
    if (s->objective == OBJECTIVE_TAG && n > 1 && are_single_words(lines->source, n))
        tell(d, "columns", n, file, 1,
             format_text("most lines of %s have one word: they look like columns (CoNLL); a line "
                         "takes all words of a text, a tab, and their labels", file), NULL);
    if (n >= 20 && 2 * labels > n)
        tell(d, "label-column", n, file, 1,
             format_text("%lld texts have %lld different labels", (long long)n, (long long)labels),
             format_text("is the label in the other column (--columns 2,1)?"));
}

/* The lines are split. */
static trf_status see_lines(void *user, const trf_data_lines *lines, trf_vocab *vocab[2],
                            trf_error *err)
{
    struct data *d = (struct data *)user;
    const struct settings *s = d->s;
    const struct part learned = {0, lines->n, "training"},
                      held = {lines->n, lines->n_held_out, "validation"};
    int64_t i;
    hint(d, lines);
    d->n_held = lines->n_held_out;
    d->held_hashes = zeroed((size_t)d->n_held, sizeof *d->held_hashes);
    for (i = 0; i < d->n_held; i++)
        d->held_hashes[i] = hash_line(lines->source[lines->n + i]) ^
                            hash_line(lines->target[lines->n + i]) << 1;
    if (d->n_held && !s->train.token_file && !d->watch)
        tell_overlap(d, lines, held, learned);
    if (!has_valid_file(s) && d->n_held && !d->watch)
        inform("held out: %lld of %lld %s, for validation (--valid-size 0 trains on all)\n",
               (long long)d->n_held, (long long)d->lines,
               s->objective == OBJECTIVE_TRANSLATE ? "pairs" : "lines");
    d->status = d->make(d->user, lines, vocab);
    busy_with("tokenizing the data ...\n");
    (void)err;
    return d->status ? TRF_E_CANCELLED : TRF_OK;
}

/* Reports why there is no data set. */
static int say_unfinished(const struct data *d, const trf_error *err)
{
    const struct settings *s = d->s;
    if (d->status) return d->status;
    if (!strcmp(err->what, "data") && s->train.token_file)
        say("%s: no pair has a token: nothing to learn from", s->train.token_file);
    else if (!strcmp(err->what, "data")) {
        say_skips(d, 0, 0);
        say("no %s is left to train on", s->objective == OBJECTIVE_TRANSLATE ? "pair" : "text");
    } else if (!strcmp(err->what, "held_out"))
        say("holding out %lld pair%s leaves none to train on; give --valid-size 0",
            (long long)s->train.valid_size, plural(s->train.valid_size));
    else if (!strcmp(err->what, "labels") && err->status == TRF_E_LIMIT)
        say("more than 65536 labels: is this the column of the labels?");
    else if (!strcmp(err->what, "labels"))
        say("%s", s->config.label_kind == TRF_LABELS_NUMBERS ? "no text has numbers as its label"
                  : s->config.label_kind ? "no text has a label"
                  : strstr(err->message, "got 1") ? "there is one label, but two are needed"
                                                  : "there are no labels, but two are needed");
    else say_error(NULL, err);
    if (s->train.token_file && err->status == TRF_E_LIMIT)
        say("give the --max-length of trf prepare, or prepare the text with this one");
    return FAILED;
}

static int finish(struct data *d)
{
    trf_error err;
    if (trf_dataset_finish(d->set, &err)) return say_unfinished(d, &err);
    d->longest = trf_dataset_results(d->set)->facts.longest;
    if (!d->n_held || trf_dataset_results(d->set)->held_out) return DONE;
    say_skips(d, trf_dataset_results(d->set)->facts.pairs, 0);
    say("no %s is left to validate on", d->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "text");
    return FAILED;
}

static int reads_several(const struct settings *s)
{
    return s->train.more_text.n || is_folder(s->train.text);
}

/* A file of --tsv or --text. Behind a file that is one document comes its end. */
static int read_one(void *user, const char *path)
{
    struct data *d = user;
    const trf_line end = {NULL, NULL, NULL, 0, 0, 1};
    int status;
    if (!d->s->train.text) return read_pairs(d, 0, NULL, NULL, path);
    status = read_documents(d, 0, path);
    return status || d->s->train.documents != DOCUMENTS_FILE || !reads_several(d->s)
               ? status : add_line(d, &end);
}

static int read_texts(struct data *d, const char *first, const struct texts *more)
{
    int i, status = for_each_file(first, d->s, NULL, read_one, d);
    for (i = 0; i < more->n && !status; i++)
        status = for_each_file(more->item[i], d->s, NULL, read_one, d);
    return status;
}

/* A file of --source or --target. */
static int note_file(void *user, const char *path)
{
    struct data *d = user;
    const int side = d->side;
    d->files[side].item = grow(d->files[side].item, &d->files[side].capacity, d->files[side].n + 1,
                               sizeof *d->files[side].item);
    d->files[side].item[d->files[side].n++] = format_text("%s", path);
    return DONE;
}

/* Pairs of files: those of --source and --target in their order. */
static int read_sides(struct data *d)
{
    const struct settings *s = d->s;
    const char *const first[2] = {s->source, s->target};
    const struct texts *const more[2] = {&s->train.more_source, &s->train.more_target};
    int side, i, status = DONE;
    size_t k;
    for (side = 0; side < 2 && !status; side++) {
        d->side = side;
        status = for_each_file(first[side], s, NULL, note_file, d);
        for (i = 0; i < more[side]->n && !status; i++)
            status = for_each_file(more[side]->item[i], s, NULL, note_file, d);
    }
    if (!status && d->files[0].n != d->files[1].n) {
        say("--source has %zu file%s, but --target has %zu: file n belongs to file n", d->files[0].n,
            plural((int64_t)d->files[0].n), d->files[1].n);
        return USAGE;
    }
    for (k = 0; k < d->files[0].n && !status; k++)
        status = read_pairs(d, 0, d->files[0].item[k], d->files[1].item[k], NULL);
    return status;
}

/* A text that is not learned from. part: 1 to validate on, 2 to test on. */
static int read_held(struct data *d, int part, const char *text, const char *source,
                     const char *target, const char *tsv)
{
    d->part = part;
    return text ? read_documents(d, 1, text) : read_pairs(d, 1, source, target, tsv);
}

static int read_files(struct data *d)
{
    const struct settings *s = d->s;
    int status = s->train.token_file       ? DONE     /* the pairs stay there */
                 : s->train.text           ? read_texts(d, s->train.text, &s->train.more_text)
                 : s->train.next_sentences ? read_next_sentences(d, s->train.next_sentences)
                 : s->tsv                  ? read_texts(d, s->tsv, &s->train.more_tsv)
                                           : read_sides(d);
    if (!status && has_valid_file(s))
        status = read_held(d, 1, s->train.valid_text, s->train.valid_source, s->train.valid_target,
                           s->train.valid_tsv);
    if (!status && (s->train.test_text || s->train.test_source || s->train.test_tsv))
        status = read_held(d, 2, s->train.test_text, s->train.test_source, s->train.test_target,
                           s->train.test_tsv);
    return status;
}

/* Whether the user, or the checkpoint, says how many lines to hold out. */
static int has_valid_size(const struct data *d)
{
    return is_given(d->s, AT(train.valid_size)) || d->knows_size;
}

/* About a twentieth is held out, a thousand at most (trf_dataset_options.held_out). */
static int settle_valid_size(struct data *d)
{
    struct settings *s = d->s;
    int64_t n = d->lines;
    if (has_valid_file(s)) return DONE;
    if (!has_valid_size(d)) s->train.valid_size = n / 20 < 1000 ? n / 20 : 1000;
    if (s->train.valid_size == 0 || s->train.valid_size < n) return DONE;
    say("--valid-size %lld leaves none of %lld pair%s to train on", (long long)s->train.valid_size,
        (long long)n, plural(n));
    return FAILED;
}

int read_data(struct data *d, const trf_dataset_options *options)
{
    const struct settings *s = d->s;
    trf_dataset_options o = *options;
    trf_error err;
    int status;
    o.token_file = s->train.token_file;
    o.keep_texts = s->train.subword_samples > 1;
    o.make_vocabs = see_lines;
    o.held_out = has_valid_file(s) || s->train.token_file ? -1 : s->train.valid_size;
    if (o.held_out == 0 && has_valid_size(d)) o.held_out = -1;
    if (trf_dataset_create(&d->set, &o, &err)) { say_error("data", &err); return FAILED; }
    busy_with("reading the data ...\n");
    status = read_files(d);
    if (!status && !s->train.token_file) status = settle_valid_size(d);
    return status ? status : finish(d);
}

void end_data(struct data *d)
{
    int side;
    trf_dataset_destroy(d->set);
    free(d->held_hashes);
    for (side = 0; side < 2; side++) {
        free(d->first[side]);
        while (d->files[side].n) free(d->files[side].item[--d->files[side].n]);
        free(d->files[side].item);
    }
}

// trf train: vocabularies of subwords: learned by libsentencepiece, or read from a file; random
// segmentations.

#include "subwords.h"
#include "data.h"
#include "progress.h"
#include "spm.h"

#include <errno.h>
#include <sched.h>
#include <sys/stat.h>

/* Keeps the bytes of a SentencePiece model for --subword-samples. */
static void keep_model_bytes(struct vocabularies *v, int first_side, int last_side, char *bytes,
                             size_t n)
{
    int side;
    for (side = first_side; side <= last_side; side++) {
        v->pieces[side] = bytes;
        v->pieces_bytes[side] = n;
    }
}

#ifdef TRF_WITH_SENTENCEPIECE

/* Special pieces that --vocab-size counts and SentencePiece does not learn: begin and end. */
enum { UNUSED = 2 };

int subwords_can_be_learned(void) { return 1; }

/* A position in the lines of one or both sides. */
struct lines {
    const trf_data_lines *all;
    int side, last;
    int64_t line;
    size_t most;                /* characters; 0: any number */
    const char *rest;           /* of a long line, or NULL */
    char *part;                 /* of it, malloc'd */
};

static const char *next_of(void *user)
{
    struct lines *at = (struct lines *)user;
    while (at->side <= at->last && at->line >= at->all->n) {
        at->side++;
        at->line = 0;
    }
    return at->side > at->last ? NULL : lines_of(at->all, at->side)[at->line++];
}

static int has_more_characters(const char *line, size_t most)
{
    size_t n = 0;
    for (; *line && n <= most; line++) n += ((unsigned char)*line & 0xc0) != 0x80;
    return n > most;
}

enum { LONGEST_PART = 100000 };     /* bytes; libsentencepiece leaves out lines of a million */

/* A part of a long text, up to a blank. */
static const char *next_part(struct lines *at)
{
    size_t n = LONGEST_PART;
    const char *from = at->rest;
    while (n > 1 && from[n] != ' ') n--;
    if (n == 1) for (n = LONGEST_PART; ((unsigned char)from[n] & 0xc0) == 0x80; n--) { }
    at->rest = strnlen(from + n, LONGEST_PART + 1) > LONGEST_PART ? from + n : NULL;
    free(at->part);
    at->part = format_text("%.*s", (int)(at->rest ? n : strlen(from)), from);
    return at->part;
}

/* Passes over lines that are too long to train on: learning from one could take longer than from
   all others. */
static const char *next_to_learn(void *user)
{
    struct lines *at = (struct lines *)user;
    const char *line = NULL;
    if (!at->rest) {
        do line = next_of(user); while (line && at->most && has_more_characters(line, at->most));
        if (line && strlen(line) > LONGEST_PART) at->rest = line;
    }
    return at->rest ? next_part(at) : line;
}

/* A size to try instead; 0: none; -1: none, after a message. libsentencepiece reports "Vocabulary
   size too high (8000). Please set it to a value <= 413." for a small text, and "Vocabulary size is
   smaller than required_chars. 500 vs 1516." for a text with many characters: then a third more
   than these, unless the user chose the size. */
static int32_t other_size(const char *why, int32_t size, int given)
{
    const char *most = strstr(why, "<= "), *least = strstr(why, "required_chars. ");
    int characters;
    if (!least)
        return most && strtol(most + 3, NULL, 10) < size ? (int32_t)strtol(most + 3, NULL, 10) : 0;
    if (sscanf(least, "required_chars. %*d vs %d", &characters) != 1) return 0;
    if (given)
        say("--vocab-size %d is below the number of distinct characters, %d",
            (int)size + UNUSED, characters);
    return given ? -1 : characters + characters / 3;
}

static int any_line(const trf_data_lines *lines, int first_side, int last_side,
                    int (*is)(const char *line))
{
    int side;
    int64_t i;
    for (side = first_side; side <= last_side; side++)
        for (i = 0; i < lines->n; i++) if (is(lines_of(lines, side)[i])) return 1;
    return 0;
}

static int has_tab(const char *line) { return strchr(line, '\t') != NULL; }
static int has_reserved(const char *line) { return strstr(line, "\xE2\x96\x85") != NULL; }

/* Text that is only read is composed, so that a letter with a mark is known in both spellings. Text
   that is written must stay as it is: a vocabulary of both sides composes only if that changes no
   line of the target. */
static int decide_normalization(const struct settings *s, const trf_data_lines *lines,
                                int first_side, int last_side, const char *map)
{
    int writes = last_side || s->objective == OBJECTIVE_SPAN;
    int64_t i;
    if (s->train.normalization != NORMALIZE_AUTO) return s->train.normalization;
    if (!writes) return NORMALIZE_NFC;
    if (first_side) return NORMALIZE_IDENTITY;
    for (i = 0; i < lines->n; i++)
        if (!is_composed(map, lines_of(lines, last_side)[i])) return NORMALIZE_IDENTITY;
    return NORMALIZE_NFC;
}

/* Lets this thread, and those that it starts, use so many processors, from the present one on.
   Whatever --threads says, libsentencepiece divides its sums among sixteen threads: with another
   number it would learn other subwords. *before: to return to. */
#ifdef __linux__
typedef cpu_set_t processors;
static void share_processors(int n, processors *before)
{
    processors now;
    int i, at = sched_getcpu();
    if (sched_getaffinity(0, sizeof *before, before) || at < 0) { CPU_ZERO(before); return; }
    CPU_ZERO(&now);
    for (i = 0; i < CPU_SETSIZE && n > 0; i++, at++) {
        if (!CPU_ISSET((size_t)at % CPU_SETSIZE, before)) continue;
        CPU_SET((size_t)at % CPU_SETSIZE, &now);
        n--;
    }
    (void)sched_setaffinity(0, sizeof now, &now);
}
static void return_processors(const processors *before)
{
    if (CPU_COUNT(before)) (void)sched_setaffinity(0, sizeof *before, before);
}
#else
typedef int processors;
static void share_processors(int n, processors *before) { *before = n; }
static void return_processors(const processors *before) { (void)before; }
#endif

int learn_subwords(const struct settings *s, struct vocabularies *v, const trf_data_lines *text,
                   int first_side, int last_side)
{
    int given = is_given(s, AT(train.vocab_size)) ||
                is_given(s, first_side ? AT(train.target_vocab_size) : AT(train.source_vocab_size));
    static const char *const rules[] = {"", "identity", "nfc", "nmt_nfkc"};
    struct subwords_options o;
    struct lines lines = {text, first_side, last_side, 0, 0, NULL, NULL};
    int32_t size = first_side ? s->train.target_vocab_size
        : s->train.source_vocab_size, other, tries;
    char *map, *model = NULL, why[512];
    int rule, status;
    size_t bytes;
    processors before;
    trf_error err;
    if (size < 8 || size > 1 << 20) {
        say("--vocab-size must be between 8 and %d for subwords, got %d", 1 << 20, (int)size);
        return is_given(s, AT(train.vocab_size)) ? USAGE : FAILED;
    }
    busy_with("learning subwords ...\n");
    if (!learns_from_text(s))
        lines.most =
            PIECE_CHARACTERS * (size_t)s->corpus.max_length; /* text alone is cut into chunks */
    if (!next_to_learn(&lines)) lines.most = 0;         /* all lines are too long */
    memset(&o, 0, sizeof o);
    o.bpe = (first_side ? s->train.target_tokens : s->train.source_tokens) == TOKENS_BPE;
    o.size = size - UNUSED;
    o.sentinels = n_sentinels(s);
    o.symbols = (const char *const *)v->symbols;
    o.n_symbols = v->n_symbols;
    map = composing_map(any_line(text, first_side, last_side, has_hangul), &o.map_bytes);
    rule = decide_normalization(s, text, first_side, last_side, map);
    o.rule = rules[rule];
    o.map = rule == NORMALIZE_NFC ? map : NULL;
    o.verbatim = o.line_end = learns_from_text(s) && s->train.documents == DOCUMENTS_FILE;
    o.blanks = o.verbatim || (last_side && have_blanks(text->target, text->n));
    o.tab = (o.verbatim || rule == NORMALIZE_IDENTITY) &&
            any_line(text, first_side, last_side, has_tab);
    o.reserved = any_line(text, first_side, last_side, has_reserved);
    share_processors(s->device.threads, &before);
    for (tries = 0; ; tries++) {
        lines.side = first_side;
        lines.line = 0;
        lines.rest = NULL;
        status = subwords_learn(&o, next_to_learn, &lines, &model, &bytes, why);
        other = status ? other_size(why, o.size, given) : 0;
        if (other < 8 || tries == 4) break;
        o.size = other;
    }
    return_processors(&before);
    free(map);
    free(lines.part);
    if (status && other >= 0) say("learning subwords: %s", why);
    if (status) return FAILED;
    keep_model_bytes(v, first_side, last_side, model, bytes);
    status = vocab_of_bytes(&v->of[first_side], model, bytes, NULL, &err) ? FAILED : DONE;
    if (status) { say_error("learned subwords", &err); return FAILED; }
    inform("%s: %d subwords learned (%s, --normalization %s%s)\n",
           first_side  ? "target"
           : last_side ? "both sides"
                       : "source",
           (int)trf_vocab_size(v->of[first_side]) - 4, o.bpe ? "BPE" : "unigram",
           rule == NORMALIZE_NFKC ? "nfkc" : rules[rule],
           o.blanks && !o.verbatim ? "; all blanks are kept, since the target has runs of them" : "");
    return DONE;
}

/* From lines of a side to ids. line: the ids of the current line. */
struct cutting {
    struct lines lines;
    const trf_vocab *vocab;
    struct side *ids;
    int32_t *line;
    size_t capacity;
    int32_t n;
};

static const char *next_to_cut(void *user) { return next_of(&((struct cutting *)user)->lines); }

static void take_piece(void *user, const char *piece)
{
    struct cutting *c = (struct cutting *)user;
    if (!piece) {
        add_ids(c->ids, c->line, c->n);
        c->n = 0;
        return;
    }
    c->line = grow(c->line, &c->capacity, (size_t)c->n + 1, sizeof *c->line);
    c->line[c->n++] = trf_vocab_id(c->vocab, piece);
}

int sample_subwords(const struct vocabularies *v, int side, const trf_data_lines *lines,
                    const trf_vocab *vocab, double alpha, uint32_t seed, struct side *ids)
{
    struct cutting cutting = {{lines, side, side, 0, 0, NULL, NULL}, vocab, ids, NULL, 0, 0};
    char why[512];
    int status;
    clear_side(ids);
    status = subwords_sample(v->pieces[side], v->pieces_bytes[side], alpha, seed, next_to_cut,
                             take_piece, &cutting, why);
    if (status) say("cutting subwords at random: %s", why);
    free(cutting.line);
    return status ? FAILED : DONE;
}

#else

int subwords_can_be_learned(void) { return 0; }

int sample_subwords(const struct vocabularies *v, int side, const trf_data_lines *lines,
                    const trf_vocab *vocab, double alpha, uint32_t seed, struct side *ids)
{
    (void)v; (void)side; (void)lines; (void)vocab; (void)alpha; (void)seed; (void)ids;
    say("this trf was built without libsentencepiece, so it cannot sample segmentations "
        "(--subword-samples)");
    return FAILED;
}

int learn_subwords(const struct settings *s, struct vocabularies *v, const trf_data_lines *lines,
                   int first_side, int last_side)
{
    (void)s; (void)v; (void)lines; (void)first_side; (void)last_side;
    say("this trf was built without libsentencepiece, so it cannot learn subwords: install "
        "libsentencepiece-dev and make again, or give a model with --sentencepiece");
    return FAILED;
}

#endif

enum { MOST_BYTES = 1 << 28 };  /* of a SentencePiece model; the largest published have 15 MB */

/* Reads a SentencePiece model: its bytes, malloc'd, and its vocabulary. */
static int read_model(const char *path, char **bytes, size_t *n, trf_vocab **vocab)
{
    struct reader r;
    size_t capacity = 0, got;
    trf_error err;
    int status;
    *bytes = NULL;
    *n = 0;
    if ((status = open_reader(&r, path))) return status;
    do {
        *bytes = grow(*bytes, &capacity, *n + 65536, 1);
        *n += got = fread(*bytes + *n, 1, 65536, r.file);
    } while (got && *n < MOST_BYTES);
    if (*n >= MOST_BYTES) {
        say("%s: expected a SentencePiece model, got more than %d MB", path, MOST_BYTES >> 20);
        status = FAILED;
    } else if (ferror(r.file)) {
        say("cannot read '%s': %s", path, strerror(errno));
        status = FAILED;
    } else if (vocab_of_bytes(vocab, *bytes, *n, NULL, &err)) {
        say_error(path, &err);
        status = FAILED;
    }
    close_reader(&r);
    return status;
}

int read_subwords(struct vocabularies *v, int first_side, int last_side, const char *path,
                  trf_vocab **vocab)
{
    char *bytes;
    size_t n;
    int status = read_model(path, &bytes, &n, vocab);
    keep_model_bytes(v, first_side, last_side, bytes, n);
    return status;
}

int check_subwords(const char *path)
{
    struct stat there;
    trf_vocab *vocab = NULL;
    char *bytes;
    size_t n;
    int status;
    if (!path || stat(path, &there) || !S_ISREG(there.st_mode))
        return DONE; /* a pipe can be read only once */
    status = read_model(path, &bytes, &n, &vocab);
    trf_vocab_destroy(vocab);
    free(bytes);
    return status;
}

/* A model file stores the SentencePiece model of a vocabulary as a tensor of bytes. */
int stored_subwords(const struct settings *s, struct vocabularies *v, int side, const char *path)
{
    trf_load_options load = load_options(s);
    trf_file *file = NULL;
    trf_error err;
    char *bytes = NULL;
    size_t n = 0;
    int32_t i;
    int status = trf_file_open(&file, path, &load, &err) ? FAILED : DONE;
    if (!status && (i = trf_file_find(file, side ? "trf.target_vocab" : "trf.source_vocab")) >= 0) {
        n = (size_t)trf_file_at(file, i).bytes;
        bytes = zeroed(n + 1, 1);
        if (trf_file_read_bytes(file, i, 0, bytes, n, &err)) status = FAILED;
    }
    trf_file_close(file);
    if (status) say_error(NULL, &err);
    else if (s->train.subword_samples > 1 && n > 5 && !memcmp(bytes, "TRFPM", 5)) {
        say("%s has the ids of a model that another program trained: --subword-samples must be 1",
            path);
        status = FAILED;
    }
    keep_model_bytes(v, side, side, bytes, n);
    return status;
}

void free_subwords(struct vocabularies *v)
{
    if (v->pieces[1] != v->pieces[0]) free(v->pieces[1]);
    free(v->pieces[0]);
    v->pieces[0] = v->pieces[1] = NULL;
    for (; v->n_symbols > 0; v->n_symbols--) free(v->symbols[v->n_symbols - 1]);
    free((void *)v->symbols);
    free(v->patterns);
    v->symbols = NULL;
    v->patterns = NULL;
}

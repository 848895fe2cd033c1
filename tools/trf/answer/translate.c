// trf translate: one line of output for every line of input.
//
// A line without tokens gives an empty line. A line that cannot be translated (too long, not UTF-8)
// gives an empty line, a message with its number, and exit status 1 at the end. So line n of the
// output always belongs to line n of the input.

#include "answer.h"

#include <math.h>
#include <sys/stat.h>

struct answer {                 /* a hypothesis, as it is written */
    const int32_t *ids;
    const double *each;         /* log-probabilities of the tokens and of EOS */
    int32_t n, n_each;
    int32_t first;              /* the token before these, which is not shown; or -1 */
    double score, log_probability;
    trf_ended ended;
    int32_t doubts;
};

enum { N_DOUBTS = 3 };          /* bits of TRF_DOUBT_... */

struct translating {
    struct settings *s;
    trf_model *model;
    struct ensemble ensemble;
    trf_translator *translator;
    const trf_vocab *source_vocab, *target_vocab;
    struct batches lines;       /* its partners are prefixes */
    struct reader prefix;
    char *text;
    size_t text_capacity;
    struct answer *answers;
    size_t n_answers, answers_capacity;
    struct attention attention; /* of one answer to the source */
    trf_real *mean; /* of the heads of the last layer: (target tokens and EOS, source rows) */
    size_t mean_capacity;
    int32_t limit;              /* tokens of the longest source */
    struct unknown unknown;
    struct spans spans;         /* of the line at hand */
    struct rules rules;
    struct required required;
    struct cutter *cutter;      /* NULL: a line is one sentence */
    struct sentences sentences; /* of the line at hand */
    int64_t answered, at_limit; /* answers; those that reached the length limit */
    int64_t doubts[N_DOUBTS];   /* those that repeat themselves, or are too short or long */
    int64_t min_length_limits; /* of these, those with a --min-length that is not below the limit */
    int64_t stuck;              /* answers for which the rules left no token */
};

/* The prefix of the next line; "" after the last line of the file, where answers have none. */
static const char *next_prefix(struct translating *t)
{
    int got;
    if (!t->prefix.file) return "";
    got = next_line(&t->prefix);
    t->lines.broken |= got < 0;
    return got > 0 ? t->prefix.line : "";
}

static const char *of_prefix(const struct translating *t, const char *fault, char why[300])
{
    snprintf(why, 300, "prefix of '%.80s': %.199s", t->prefix.name, fault);
    return why;
}

/* The token before a prefix, which is part of the answer for the library, but not for the user. */
static struct around before_prefix(const struct translating *t)
{
    struct around tags = tags_of(t->s, 1);
    if (is_given(t->s, AT(rules.forced_first)))
        tags.first = -1;     /* a prefix replaces this option */
    tags.n = tags.first >= 0;
    return tags;
}

/* The text of a sentence of the line at hand (--sentences); free it. */
static char *piece_text(const struct translating *t, size_t piece)
{
    const size_t begin = t->sentences.item[piece].begin;
    return format_text("%.*s", (int)(t->sentences.item[piece].end - begin),
                       t->lines.in.line + begin);
}

/* Appends one of them, or says why not. */
static const char *add_piece(struct translating *t, size_t piece, char why[300])
{
    struct side *sources = &t->lines.side, *prefixes = &t->lines.partners;
    char *text = piece_text(t, piece);
    int32_t n, none;
    int failed = add_text(sources, t->source_vocab, text, t->limit, &n, why);
    if (!failed && add_each(t->s, &t->ensemble, sources, text, 0, why)) {
        drop_last(sources);
        failed = 1;
    }
    if (!failed) add_text(prefixes, t->target_vocab, "", 1, &none, why);
    if (!failed && n == 0) {
        drop_last(sources);
        drop_each(&t->ensemble);
        drop_last(prefixes);
    }
    t->sentences.item[piece].number = failed || n == 0 ? -1 : (int32_t)sources->count - 1;
    free(text);
    return failed ? why : NULL;
}

static void require_pieces(struct translating *t, size_t first)
{
    for (; t->required.any && first < t->sentences.n; first++) {
        char *text = piece_text(t, first);
        if (t->sentences.item[first].number >= 0)
            require_line(&t->required, text, "", t->sentences.item[first].number);
        free(text);
    }
}

/* Appends the sentences of a line: all or none. */
static const char *add_sentences(struct translating *t, char why[300])
{
    const struct reader *in = &t->lines.in;
    const size_t first = t->sentences.n;
    const size_t before = t->lines.side.count;
    const char *fault = in->fault;
    size_t i;
    if (fault) return fault;
    cut_sentences(t->cutter, in->line, t->lines.n, &t->sentences);
    for (i = first; i < t->sentences.n && !fault; i++) fault = add_piece(t, i, why);
    while (fault && t->lines.side.count > before) {
        drop_last(&t->lines.side);
        drop_each(&t->ensemble);
        drop_last(&t->lines.partners);
    }
    if (fault) t->sentences.n = first;
    else require_pieces(t, first);
    note_unknown(&t->unknown, t->source_vocab, in->line, in->number);
    return fault;
}

/* Appends line and prefix as one sentence, or says why not. A line without tokens is none. */
static const char *add_sentence(void *user, char why[300])
{
    struct translating *t = user;
    struct side *sources = &t->lines.side, *prefixes = &t->lines.partners;
    const struct reader *in = &t->lines.in;
    const int32_t limit = least_of(&t->ensemble, longest_rows) - 1 - before_prefix(t).n;
    const char *prefix = next_prefix(t), *phrases = next_phrases(&t->required);
    char fault[300];
    int32_t n, prefix_tokens;
    if (t->cutter) return add_sentences(t, why);
    if (in->fault) return in->fault;
    if (t->prefix.file && t->prefix.fault) return of_prefix(t, t->prefix.fault, why);
    if (t->required.fault) {
        snprintf(why, 300, "its line of --phrase-file: %.199s", t->required.fault);
        return why;
    }
    if (add_text(sources, t->source_vocab, in->line, t->limit, &n, why)) return why;
    if (add_each(t->s, &t->ensemble, sources, in->line, 0, why)) {
        drop_last(sources);
        return why;
    }
    if (add_text(prefixes, t->target_vocab, prefix, limit, &prefix_tokens, fault)) {
        drop_last(sources);
        drop_each(&t->ensemble);
        return of_prefix(t, fault, why);
    }
    if (prefix_tokens) add_tags(prefixes, before_prefix(t));
    if (n == 0) {
        drop_last(sources);
        drop_each(&t->ensemble);
        drop_last(prefixes);
    } else if (t->required.any)
        require_line(&t->required, in->line, phrases, (int32_t)sources->count - 1);
    note_unknown(&t->unknown, t->source_vocab, in->line, in->number);
    return NULL;
}

// -----------------------------------------------------------------------------------------------
// >>answers        hypotheses, and how they are written as lines
// -----------------------------------------------------------------------------------------------

/* The translator keeps the ids until it translates again. */
static void keep_answers(struct translating *t, int32_t sentence)
{
    const int has_prefix = t->lines.partners.lengths[sentence] > 0;
    const int32_t first = has_prefix ? before_prefix(t).first : tags_of(t->s, 1).first;
    const int32_t hidden = has_prefix && first >= 0;
    const trf_hypothesis *best = trf_translator_answer(t->translator, sentence, 0), *h;
    int32_t rank;
    for (rank = 0; (h = trf_translator_answer(t->translator, sentence, rank)) != NULL; rank++) {
        struct answer *a;
        t->answers = grow(t->answers, &t->answers_capacity, t->n_answers + 1, sizeof *t->answers);
        a = &t->answers[t->n_answers++];
        a->ids = h->ids + hidden;
        a->first = first;
        a->n = h->n - hidden;
        a->n_each = a->n + (h->ended == TRF_ENDED_EOS);
        a->each = h->log_probabilities + hidden;
        a->score = h->score;
        a->log_probability = h->log_probability;
        a->ended = h->ended;
        a->doubts = h->doubts;
    }
    if (!best) return;
    t->answered++;
    for (rank = 0; rank < N_DOUBTS; rank++) t->doubts[rank] += best->doubts >> rank & 1;
    t->stuck += best->ended == TRF_ENDED_NO_TOKEN;
    if (best->ended != TRF_ENDED_MAX_LENGTH) return;
    t->at_limit++;
    t->min_length_limits += best->n <= t->s->search.min_length;
}

static int read_answer_attention(struct translating *t, const int32_t *source, int32_t n_source,
                                 const struct answer *a)
{
    struct attention *all = &t->attention;
    const struct around first = {a->first, -1, a->first >= 0};
    struct side pair[2];
    trf_sequences from, to;
    int side, status;
    memset(pair, 0, sizeof pair);
    add_ids(&pair[0], source, n_source);
    add_ids(&pair[1], a->ids, a->n);
    add_tags(&pair[0], tags_of(t->s, 0));
    add_tags(&pair[1], first);
    from = sequences_of(&pair[0]);
    to = sequences_of(&pair[1]);
    status = read_attention(trf_translator_reader(t->translator), t->model, TRF_DECODER_CROSS, &from, &to, all);
    for (side = 0; side < 2; side++) free_side(&pair[side]);
    if (status) return FAILED;
    t->mean = grow(t->mean, &t->mean_capacity, (size_t)(all->extent[2] * all->extent[3]) + 1,
                   sizeof *t->mean);
    if (all->extent[0]) mean_attention(all, all->extent[0] - 1, t->mean);
    return DONE;
}

/* Where a token of the answer attends to: its row of the mean, from the source's first token on.
   Tags of languages and BOS have rows and columns before those. */
static const trf_real *attention_of(const struct translating *t, const struct answer *a,
                                    int32_t token)
{
    int64_t row = token + (a->first >= 0);
    return t->mean + row * t->attention.extent[3] + trf_model_config(t->model)->source_bos +
           (tags_of(t->s, 0).first >= 0);
}

/* The copy of each unknown token of an answer: the unknown source word with the largest weight. */
static int choose_copies(struct translating *t, const int32_t *source, int32_t n_source,
                         const struct answer *a, const struct span **copies)
{
    const int32_t unk = trf_model_config(t->model)->unk;
    int32_t i, j;
    size_t k;
    for (i = 0; i < a->n && a->ids[i] != unk; i++) { }
    memset(copies, 0, (size_t)a->n * sizeof *copies);
    if (i == a->n || t->spans.n == 0) return DONE;
    if (t->spans.n > 1 && read_answer_attention(t, source, n_source, a)) return FAILED;
    for (i = 0; i < a->n; i++) {
        double largest = -1;
        for (k = 0; k < t->spans.n && a->ids[i] == unk; k++) {
            const struct span *span = &t->spans.item[k];
            double sum = 0;
            for (j = span->from; t->spans.n > 1 && j < span->end; j++)
                sum += (double)attention_of(t, a, i)[j];
            if (sum > largest) { largest = sum; copies[i] = span; }
        }
    }
    return DONE;
}

static int replaces_unknown(const struct translating *t)
{
    return t->s->answer.unknown == UNKNOWN_COPY || t->s->answer.unknown == UNKNOWN_DROP;
}

/* In t->text. Returns NULL after a message. */
static const char *answer_text(struct translating *t, const int32_t *source, int32_t n_source,
                               const struct answer *a)
{
    const struct span **copies = NULL;
    char *text = NULL;
    if (!replaces_unknown(t))
        return text_of(t->target_vocab, a->ids, a->n, &t->text, &t->text_capacity);
    if (t->s->answer.unknown == UNKNOWN_COPY)
        copies = (const struct span **)zeroed((size_t)a->n, sizeof *copies);
    if (!copies || !choose_copies(t, source, n_source, a, copies))
        text = text_without_unknown(t->target_vocab, a->ids, a->n, copies);
    free((void *)copies);
    if (!text) return NULL;
    t->text = grow(t->text, &t->text_capacity, strlen(text) + 1, 1);
    strcpy(t->text, text);
    free(text);
    return t->text;
}

/* Writes the answers to a line: one line, or with --n-best several. */
/* The number of the source token with the largest weight in a row of attention. */
static int64_t aligned_with(const trf_real *row, int32_t n_source)
{
    int64_t best = 0, j;
    for (j = 1; j < n_source; j++) if (row[j] > row[best]) best = j;
    return best;
}

/* A tab, and "0-0 1-2": numbers of source and target tokens, in the order of the target. */
static int write_pharaoh(struct translating *t, const int32_t *source, int32_t n_source,
                         const struct answer *a)
{
    int32_t i;
    fputc('\t', t->lines.out);
    if (!a || !a->n) return DONE;
    if (read_answer_attention(t, source, n_source, a)) return FAILED;
    for (i = 0; i < a->n; i++)
        fprintf(t->lines.out, "%s%lld-%d", i ? " " : "",
                (long long)aligned_with(attention_of(t, a, i), n_source), (int)i);
    return DONE;
}

static int write_lines(struct translating *t, const struct batch_line *line, const int32_t *source,
                       int32_t n_source, const struct answer *answers, size_t count)
{
    FILE *out = t->lines.out;
    int n_best = is_given(t->s, AT(search.n_best));
    size_t rank;
    if (!n_best && count > 1) count = 1;
    for (rank = 0; rank < count || rank == 0; rank++) {
        const struct answer *a = rank < count ? &answers[rank] : NULL;
        double score = a ? a->score : line->unusable ? -HUGE_VAL : 0.0;
        const char *text = a ? answer_text(t, source, n_source, a) : "";
        if (!text) return FAILED;
        if (n_best) fprintf(out, "%lld\t%d\t", (long long)line->number, (int)rank + 1);
        if (n_best || t->s->answer.scores) fprintf(out, "%.6f\t", score);
        fputs(text, out);
        if (t->s->answer.alignments && write_pharaoh(t, source, n_source, a)) return FAILED;
        fputc('\n', out);
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>json           answers with all that is known about them
// -----------------------------------------------------------------------------------------------

/* "alignment": for each target token the number of a source token, from 0. "attention": all rows
   and columns, also those of BOS, EOS and tags of languages. */
static int write_attention(struct translating *t, const int32_t *source, int32_t n_source,
                           const struct answer *a)
{
    FILE *out = t->lines.out;
    int64_t i;
    if (trf_model_config(t->model)->kind != TRF_ENCODER_DECODER) return DONE;
    if (read_answer_attention(t, source, n_source, a)) return FAILED;
    if (t->s->answer.alignments) {
        fputs(",\"alignment\":[", out);
        for (i = 0; i < a->n; i++)
            fprintf(out, "%s%lld", i ? "," : "",
                    (long long)aligned_with(attention_of(t, a, (int32_t)i), n_source));
        fputc(']', out);
    }
    if (t->s->answer.attention) print_json_attention(out, &t->attention, t->s->answer.attention);
    return DONE;
}

static const char *const doubt_names[N_DOUBTS] = {"repeats", "short", "long"};

/* "doubts": what speaks against an answer, if anything does. */
static void write_doubts(FILE *out, int32_t doubts)
{
    const char *before = ",\"doubts\":[";
    int k;
    for (k = 0; k < N_DOUBTS; k++) {
        if (!(doubts >> k & 1)) continue;
        fprintf(out, "%s\"%s\"", before, doubt_names[k]);
        before = ",";
    }
    if (doubts) fputc(']', out);
}

static int write_object(struct translating *t, const struct batch_line *line, const int32_t *source,
                        int32_t n_source, const struct answer *answers, size_t count)
{
    FILE *out = t->lines.out;
    size_t k;
    fprintf(out, "{\"line\":%lld", (long long)line->number);
    print_json_member(out, "source", line->text);
    if (n_source)
        print_json_tokens(out, "source_tokens", t->source_vocab, source, n_source);
    if (line->unusable) fputs(",\"unusable\":true", out);
    for (k = 0; k < t->spans.n; k++) {
        fputs(k ? "," : ",\"unknown_words\":[", out);
        print_json_text(out, t->spans.item[k].text, t->spans.item[k].bytes);
    }
    if (t->spans.n) fputc(']', out);
    fputs(",\"answers\":[", out);
    for (k = 0; k < count; k++) {
        size_t bytes;
        const char *text = replaces_unknown(t)
                               ? answer_text(t, source, n_source, &answers[k])
                               : bytes_of(t->target_vocab, answers[k].ids, answers[k].n, &t->text,
                                          &t->text_capacity, &bytes);
        if (!text) return FAILED;
        if (replaces_unknown(t)) bytes = strlen(text);
        fputs(k ? ",{\"text\":" : "{\"text\":", out);
        print_json_text(out, text, bytes);
        print_json_field(out, "score", answers[k].score);
        print_json_field(out, "log_probability", answers[k].log_probability);
        fprintf(out, ",\"ended\":\"%s\"", answers[k].ended == TRF_ENDED_EOS ? "end"
                : answers[k].ended == TRF_ENDED_NO_TOKEN ? "no token" : "length");
        write_doubts(out, answers[k].doubts);
        print_json_tokens(out, "tokens", t->target_vocab, answers[k].ids, answers[k].n);
        if (t->s->answer.token_scores)
            print_json_list(out, "token_log_probabilities", answers[k].each, answers[k].n_each);
        if ((t->s->answer.alignments || t->s->answer.attention) &&
            write_attention(t, source, n_source, &answers[k]))
            return FAILED;
        fputc('}', out);
    }
    fputs("]}\n", out);
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>loop           batches of lines
// -----------------------------------------------------------------------------------------------

static int check_required(struct translating *t, const struct batch_line *line,
                          const int32_t *source, int32_t n_source, const struct answer *best)
{
    const char *text = answer_text(t, source, n_source, best);
    if (!text) return FAILED;
    check_answer(&t->required, t->lines.in.name, line->number, line->first, text);
    return DONE;
}

/* Writes the answers to a line's sentences with what stands between these. */
static int write_joined(struct translating *t, int32_t line, size_t *next)
{
    const struct batch_line *of = &t->lines.line[line];
    FILE *out = t->lines.out;
    size_t at = 0;
    for (; *next < t->sentences.n && t->sentences.item[*next].line == line; ++*next) {
        const int32_t number = t->sentences.item[*next].number;
        const char *text = "";
        fwrite(of->text + at, 1, t->sentences.item[*next].begin - at, out);
        at = t->sentences.item[*next].end;
        if (number < 0) continue;
        t->n_answers = 0;
        keep_answers(t, number);
        if (t->n_answers) text = answer_text(t, NULL, 0, t->answers);
        if (!text) return FAILED;
        fputs(text, out);
        if (t->n_answers && t->required.any)
            check_answer(&t->required, t->lines.in.name, of->number, number, text);
    }
    if (!of->unusable) fputs(of->text + at, out);
    fputc('\n', out);
    return DONE;
}

static int write_all_joined(struct translating *t)
{
    size_t next = 0;
    int32_t i;
    int status = DONE;
    for (i = 0; i < t->lines.n && !status; i++) status = write_joined(t, i, &next);
    t->sentences.n = 0;
    t->n_answers = 0;
    clear_required(&t->required);
    return status;
}

/* Writes the answers of a batch in the order of its lines. */
static int write_batch(struct translating *t)
{
    const struct batches *b = &t->lines;
    const int32_t *source = b->side.ids;
    size_t *end = zeroed((size_t)b->n, sizeof *end), begin = 0;
    int32_t i;
    int status = DONE;
    for (i = 0; i < b->n; i++) {
        if (b->line[i].n) keep_answers(t, b->line[i].first);
        end[i] = t->n_answers;
    }
    for (i = 0; i < b->n && !status; begin = end[i++]) {
        const struct batch_line *line = &b->line[i];
        int32_t n = line->n ? b->side.lengths[line->first] : 0;
        t->spans.n = 0;
        if (n && (t->s->json || t->s->answer.unknown == UNKNOWN_REPORT ||
                  t->s->answer.unknown == UNKNOWN_COPY))
            find_unknown(t->source_vocab, line->text, source, n, &t->spans);
        if (t->s->answer.unknown == UNKNOWN_REPORT)
            report_unknown(&t->spans, b->in.name, line->number);
        status = (t->s->json ? write_object : write_lines)(t, line, source, n, t->answers + begin,
                                                           end[i] - begin);
        if (!status && line->n && end[i] > begin && t->required.any)
            status = check_required(t, line, source, n, t->answers + begin);
        source += n;
    }
    free(end);
    t->n_answers = 0;
    clear_required(&t->required);
    return status;
}

static int translate_batch(void *user)
{
    struct translating *t = user;
    trf_sequences sources[TRF_MAX_MODELS];
    trf_sequences prefixes = sequences_of(&t->lines.partners);
    trf_requirements required = requirements_of(&t->required);
    trf_translate_options o = {t->prefix.file ? &prefixes : NULL, t->required.any ? &required : NULL,
                               reads_each(&t->ensemble)};
    trf_error err;
    all_sources(&t->ensemble, &t->lines.side, sources);
    if (sources->count && trf_translate(t->translator, sources, &o, &err))
        return say_batch_failed(&t->lines, &err);
    return t->cutter ? write_all_joined(t) : write_batch(t);
}

/* Looks only into a file: a pipe may never end. */
static int has_more_prefixes(struct translating *t)
{
    struct stat file;
    return t->prefix.file && !fstat(fileno(t->prefix.file), &file) && S_ISREG(file.st_mode) &&
           next_line(&t->prefix) != 0;
}

/* Answers without EOS are cut off, or repeat themselves. */
static void report_limit(const struct translating *t)
{
    char reason[96] = "";
    if (t->stuck)
        say("%lld of %lld answer%s ended where no token was allowed: --ban, --no-repeat-ngram and "
            "--min-length leave none",
            (long long)t->stuck, (long long)t->answered, plural(t->answered));
    if (!t->at_limit) return;
    if (t->min_length_limits)
        snprintf(reason, sizeof reason,
                 "; for %lld of them, --min-length %d is not below the limit",
                 (long long)t->min_length_limits, (int)t->s->search.min_length);
    say("%lld of %lld answer%s reached the length limit (--max-length-a, --max-length-b) without "
        "EOS%s",
        (long long)t->at_limit, (long long)t->answered, plural(t->answered), reason);
}

static void report_doubts(const struct translating *t)
{
    static const char *const what[N_DOUBTS][2] = {{"repeats itself", "repeat themselves"},
                                                  {"seems far too short", "seem far too short"},
                                                  {"seems far too long", "seem far too long"}};
    int k;
    for (k = 0; k < N_DOUBTS; k++)
        if (t->doubts[k])
            say("%lld of %lld answer%s %s (see \"doubts\" in --json)", (long long)t->doubts[k],
                (long long)t->answered, plural(t->answered), what[k][t->doubts[k] != 1]);
}

static int translate_lines(struct translating *t)
{
    struct batches *b = &t->lines;
    if (answer_lines(b, b->in.file)) return FAILED;
    if (!b->broken && has_more_prefixes(t)) {
        say("%s has more lines than %s: line n of one belongs to line n of the other",
            t->prefix.name, b->in.name);
        b->broken = 1;
    }
    say_unusable(b, "line", "translated");
    say_watched(b);
    report_limit(t);
    report_doubts(t);
    say_unknown_share(&t->unknown, "the input", 0.05);
    return say_required(&t->required) || b->broken || b->unusable ? FAILED : DONE;
}

/* Fails if attention is asked for although the search replaces the start token. */
static int check_attention(const struct settings *s, const trf_vocab *vocab)
{
    if (s->search.start < 0 ||
        !(s->answer.alignments || s->answer.attention || s->answer.unknown == UNKNOWN_COPY))
        return DONE;
    say("--alignments, --attention and --unknown copy cannot be combined with another start token "
        "(%s): attention is computed with the model's own",
        trf_vocab_token(vocab, s->search.start));
    return USAGE;
}

/* A line of several sentences has one answer, and no options that need a line to be a sentence. */
static int check_sentences(const struct settings *s)
{
    if (!s->answer.sentences ||
        !(is_given(s, AT(search.n_best)) || s->json || s->answer.scores || s->answer.alignments ||
          s->answer.attention || s->answer.prefixes || s->rules.phrases.n || s->rules.phrase_file ||
          s->answer.unknown == UNKNOWN_COPY || s->answer.unknown == UNKNOWN_REPORT))
        return DONE;
    say("--sentences gives each line one answer: it cannot be combined with --n-best, --json, "
        "--scores, --alignments, --attention, --prefixes, --phrase, --phrase-file, --unknown copy "
        "and --unknown report");
    return USAGE;
}

static int check_options(const struct settings *s)
{
    if (check_sentences(s)) return USAGE;
    if ((s->answer.attention || s->answer.token_scores) && !s->json) {
        say("--attention and --token-scores need --json");
        return USAGE;
    }
    if (s->answer.unknown == UNKNOWN_COPY && s->search.ban_unk) {
        say("--unknown copy needs unknown tokens to replace, but --allow-unk no allows none");
        return USAGE;
    }
    return DONE;
}

/* The beam is as wide as --n-best needs, unless --beam is given. */
static int settle_beam(struct settings *s)
{
    if (is_given(s, AT(search.beam)) && s->search.n_best > s->search.beam) {
        say("--n-best %d needs a --beam of %d or more, got %d", (int)s->search.n_best,
            (int)s->search.n_best, (int)s->search.beam);
        return USAGE;
    }
    if (!is_given(s, AT(search.beam)) && s->search.n_best > 1024) {
        say("--n-best takes 1 to 1024, got %d", (int)s->search.n_best);
        return USAGE;
    }
    if (is_given(s, AT(search.n_best)) && !is_given(s, AT(search.beam)) &&
        s->search.beam < s->search.n_best)
        s->search.beam = s->search.n_best;
    return DONE;
}

/* Refuses options that need the tokens of a source, for a model that reads none. */
static int check_source(const struct settings *s, const trf_model *model)
{
    if (trf_model_config(model)->kind == TRF_ENCODER_DECODER) return DONE;
    if (s->answer.alignments || s->answer.attention) {
        say("--alignments and --attention need source tokens, but '%s' reads none", s->model);
        return USAGE;
    }
    if (s->answer.unknown == UNKNOWN_COPY) {
        say("--unknown copy needs source words, but '%s' reads none", s->model);
        return USAGE;
    }
    return DONE;
}

static int load_translator(struct translating *t)
{
    struct settings *s = t->s;
    trf_error err;
    int status = load_model(s, &t->model, &t->source_vocab, &t->target_vocab);
    if (!status) status = check_decoder(s, t->model);
    if (!status) status = load_ensemble(s, t->model, t->source_vocab, &t->ensemble);
    if (!status) status = check_source(s, t->model);
    if (!status && (s->answer.alignments || s->answer.attention ||
                    s->answer.unknown == UNKNOWN_COPY))
        status = shows_one(&t->ensemble, "--alignments, --attention or --unknown copy");
    if (!status) status = read_rules(s, t->model, t->source_vocab, t->target_vocab,
                                     &t->rules);
    if (!status) status = open_required(&t->required, s, t->model, t->target_vocab);
    if (!status) status = check_attention(s, t->target_vocab);
    if (!status && s->answer.sentences) status = open_cutter(&t->cutter, s->answer.sentences);
    if (status) return status;
    if (!is_given(s, AT(search.ban_unk)) && s->answer.unknown != UNKNOWN_COPY)
        s->search.ban_unk = never_writes_unk(t->model);
    if (trf_translator_create(&t->translator, t->model, &s->search, &err))
        return ensemble_refused(&t->ensemble, "search", &err);
    t->limit = room_beside_tags(s, 0, source_limit(trf_model_config(t->model)));
    return DONE;
}

static int open_files(struct translating *t)
{
    const struct settings *s = t->s;
    int status = open_reader(&t->lines.in, s->input);
    if (!status && s->answer.prefixes) status = open_reader(&t->prefix, s->answer.prefixes);
    if (status) return status;
    if (s->answer.prefixes && same_stream(t->lines.in.file, t->prefix.file)) {
        say("only one of --prefixes and the input can be %s", t->lines.in.name);
        return USAGE;
    }
    return DONE;
}

/* Closes and frees all but the output. */
static void free_translating(struct translating *t)
{
    free_batches(&t->lines);
    close_reader(&t->prefix);
    free(t->answers);
    free_attention(&t->attention);
    free(t->mean);
    free(t->spans.item);
    free_rules(&t->rules);
    close_required(&t->required);
    close_cutter(t->cutter);
    free(t->sentences.item);
    free(t->text);
    trf_translator_destroy(t->translator);
    free_ensemble(&t->ensemble);
    trf_model_destroy(t->model);
}

int command_translate(struct settings *s, int argc, char **argv)
{
    struct translating t;
    int status = check_options(s);
    if (!status) status = take_input(s, argc, argv);
    if (!status) status = settle_beam(s);
    if (status) return status;
    memset(&t, 0, sizeof t);
    t.s = s;
    begin_batches(&t.lines, s, &t, add_sentence, translate_batch);
    if (is_given(s, AT(search.n_best)) && !s->json) t.lines.form = ANSWER_NUMBERED;
    status = load_translator(&t);
    if (!status) status = open_files(&t);
    if (!status) watch_lines(&t.lines, t.model);
    if (!status) status = translate_lines(&t);
    status = end_answers(&t.lines, status);
    free_translating(&t);
    return status;
}

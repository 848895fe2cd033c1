// trf score: log-probability of each target, given its source.
//
// Each pair gives a line: natural logarithm, tab, number of target tokens with EOS; exp(-a/b) is
// its perplexity. A pair that cannot be scored, and a line without a partner in the other file,
// gives "nan", tab, 0, and exit status 1. A language model reads only the target. --split cuts a
// text longer than the training chunks into parts, as trf train does, and sums the logarithms of
// the parts.

#include "answer.h"

#include <math.h>

enum { REPORTED = 5 };          /* lines that cannot be scored; the others are only counted */

struct scoring {
    struct settings *s;
    trf_model *model;
    struct ensemble ensemble;
    trf_reader *reader;
    const trf_vocab *vocab[2];
    struct pair_reader pairs;   /* of a language model: one file, without tabs */
    int alone;                  /* 1: there is no source */
    int position;               /* 1: one file, without an option: pairs, or the text alone */
    struct batches lines;       /* side: targets, several if a text is cut; partners: sources */
    struct unknown unknown[2];  /* of sources, of targets */
    double *results;
    size_t results_capacity;
    struct side whole;          /* a text that is cut */
    char *document;             /* --documents file: all lines, with their ends */
    size_t document_capacity;
    int64_t tokens, cut, scored;
    int64_t beyond;             /* pairs longer than the longest text of the training */
    double sum;
};

/* The whole file as one text, for a model whose documents are files. */
static int next_document(struct scoring *t)
{
    struct pair_reader *p = &t->pairs;
    size_t n = 0;
    int got;
    if (t->document) return 0;
    while ((got = next_line(&p->side[0])) > 0 && !(p->fault = p->side[0].fault)) {
        t->document = grow(t->document, &t->document_capacity, n + p->side[0].length + 2, 1);
        n += (size_t)sprintf(t->document + n, "%s\n", p->side[0].line);
    }
    p->source = "";
    p->target = t->document ? t->document : "";
    return got < 0 ? got : t->document || p->fault;
}

static int next_target(struct pair_reader *p)
{
    int got = next_line(&p->side[0]);
    p->source = "";
    p->target = got < 1 ? "" : p->side[0].line;
    p->fault = got < 1 ? NULL : p->side[0].fault;
    return got;
}

/* One more target. The documents of a language model have EOS among their ids. */
static int add_target(struct scoring *t, const trf_config *config, char why[300])
{
    struct side *side = &t->lines.side;
    int32_t n;
    if (add_tagged_text(t->s, 1, side, t->vocab[1], t->pairs.target,
                        least_of(&t->ensemble, longest_rows) - 1, &n, why))
        return FAILED;
    if (config->target_eos || config->kind != TRF_DECODER_ONLY) return DONE;
    append_id(side, config->eos);
    return DONE;
}

/* A text as one target, or as several if it is longer than `limit` tokens. */
static int add_parts(struct scoring *t, const trf_config *config, int32_t limit, char why[300])
{
    struct side *whole = &t->whole;
    int32_t unknown, n = 0, at, end;
    trf_error err;
    int leads;
    clear_side(whole);
    if (trf_vocab_count_unknown(t->vocab[1], t->pairs.target, &unknown, &n, &err)) {
        snprintf(why, 300, "%s", err.message);
        return FAILED;
    }
    /* in training such a text begins with EOS: see trf_data_results.stream */
    leads = n + 1 > limit && trf_model_metadata(t->model, stream_key);
    if (leads) add_ids(whole, &config->eos, 1);
    if (add_text(whole, t->vocab[1], t->pairs.target, n > 0 ? n : 1, &n, why)) return FAILED;
    add_ids(whole, &config->eos, 1);
    n += 1 + leads;
    t->cut += n > limit;
    for (at = 0; at < n; at = end) {
        end = n - at <= limit ? n : at + limit;
        add_ids(&t->lines.side, whole->ids + at, end - at);
    }
    return DONE;
}

/* Tokens of a part: as many as the longest text of the training has, if that is known. */
static int32_t part_tokens(const struct scoring *t)
{
    int32_t limit = least_of(&t->ensemble, longest_rows) - 1, longest = longest_trained(t->model);
    return longest < limit ? longest : limit;
}

static int next_to_score(void *user)
{
    struct scoring *t = user;
    int got = !t->alone ? next_pair(&t->pairs)
            : t->s->train.documents == DOCUMENTS_FILE ? next_document(t) : next_target(&t->pairs);
    t->lines.at = t->pairs.at;
    return got;
}

static const char *add_to_score(void *user, char why[300])
{
    struct scoring *t = user;
    struct side *sources = &t->lines.partners;
    const trf_config *config = trf_model_config(t->model);
    const int64_t number = t->pairs.side[0].number;
    int32_t n;
    if (t->pairs.fault) return t->pairs.fault;
    if (!t->alone && add_tagged_text(t->s, 0, sources, t->vocab[0], t->pairs.source,
                                     source_limit(config), &n, why))
        return why;
    if (!t->alone && add_each(t->s, &t->ensemble, sources, t->pairs.source, 1, why)) {
        drop_last(sources);
        return why;
    }
    if (t->s->answer.split ? add_parts(t, config, part_tokens(t), why)
        : add_target(t, config, why)) {
        if (!t->alone) drop_last(sources);
        drop_each(&t->ensemble);
        if (!t->pairs.tsv) t->lines.at = &t->pairs.side[1];
        return why;
    }
    if (!t->alone) note_unknown(&t->unknown[0], t->vocab[0], t->pairs.source, number);
    note_unknown(&t->unknown[1], t->vocab[1], t->pairs.target, number);
    return NULL;
}

static int is_beyond(const struct scoring *t, const struct batch_line *line)
{
    int32_t longest = longest_trained(t->model), k = line->first;
    return line->n == 1 && (t->lines.side.lengths[k] > longest ||
                            (!t->alone && t->lines.partners.lengths[k] > longest));
}

static void write_score(struct scoring *t, const struct batch_line *line)
{
    int32_t added = trf_model_config(t->model)->target_eos, i;
    int64_t tokens = 0;
    double sum = 0;
    for (i = line->first; i < line->first + line->n; i++) {
        tokens += t->lines.side.lengths[i] + added;
        sum += t->results[i];
    }
    t->scored += line->n > 0;
    t->beyond += is_beyond(t, line);
    fprintf(t->lines.out, "%.6f\t%lld\n", line->n ? sum : (double)NAN, (long long)tokens);
    t->tokens += tokens;
    t->sum += sum;
}

static int score_batch(void *user)
{
    struct scoring *t = user;
    trf_sequences sources[TRF_MAX_MODELS];
    trf_batch batch;
    trf_error err;
    int32_t i;
    memset(&batch, 0, sizeof batch);
    batch.source = sequences_of(&t->lines.partners);
    batch.target = sequences_of(&t->lines.side);
    t->results =
        grow(t->results, &t->results_capacity, t->lines.side.count + 1, sizeof *t->results);
    all_sources(&t->ensemble, &t->lines.partners, sources);
    if (batch.target.count &&
        trf_reader_score(t->reader, &batch, reads_each(&t->ensemble) ? sources : NULL, t->results,
                  &err)) {
        say_error("scoring", &err);
        return FAILED;
    }
    for (i = 0; i < t->lines.n; i++) write_score(t, &t->lines.line[i]);
    return DONE;
}

static int score_lines(struct scoring *t)
{
    const struct batches *b = &t->lines;
    const char *what = t->alone ? "text" : "pair";
    if (answer_lines(&t->lines, t->pairs.side[0].file)) return FAILED;
    say_unusable(b, what, "scored");
    say_unknown_share(&t->unknown[0], "the sources", 0.05);
    say_unknown_share(&t->unknown[1], t->alone ? "the text" : "the targets", 0.05);
    if (t->cut)
        say("%lld of %lld text%s had more than %d tokens: scored in parts (--split)",
            (long long)t->cut, (long long)b->lines, plural(b->lines), (int)part_tokens(t));
    if (t->beyond)
        say("%lld of %lld %s%s %s longer than the longest training text, %d tokens: the model has "
            "not learned the positions beyond that",
            (long long)t->beyond, (long long)b->lines, what, plural(b->lines),
            t->beyond == 1 ? "is" : "are", (int)longest_trained(t->model));
    if (b->skipped && t->tokens) inform("behind line %lld: ", (long long)b->skipped);
    if (!b->broken && t->tokens)
        inform("%lld %s%s, %lld target token%s, log-probability %.4f, perplexity %.6g\n",
               (long long)t->scored, what,
               plural(t->scored), (long long)t->tokens, plural(t->tokens), t->sum,
               exp(-t->sum / (double)t->tokens));
    return b->broken || b->unusable ? FAILED : DONE;
}

/* Opens the pairs, or the target of a language model, which has no source. */
static int open_scoring(struct scoring *t)
{
    struct settings *s = t->s;
    const char *cuts = "--split";
    int status;
    t->alone = trf_model_config(t->model)->kind == TRF_DECODER_ONLY;
    if (t->alone && t->position) {
        s->target = s->tsv;
        s->tsv = NULL;
    }
    if (t->alone && (s->source || s->tsv || s->columns)) {
        say("%s is a language model and reads no source: give only --target FILE", s->model);
        return USAGE;
    }
    if (s->train.documents == DOCUMENTS_FILE) {
        s->answer.split = 1;
        cuts = "--documents file";
    }
    if (s->answer.split && !t->alone) {
        say("%s needs a language model: a part of a pair has no probability of its own", cuts);
        return USAGE;
    }
    if (s->answer.split && trf_model_config(t->model)->target_eos) {
        say("%s needs a model made by trf train: '%s' ends every part with EOS", cuts, s->model);
        return USAGE;
    }
    if (t->alone) return open_pairs(&t->pairs, NULL, NULL, s->target, NULL);
    status = check_pairs_given("", s->source, s->target, s->tsv);
    if (!status) status = open_pairs(&t->pairs, s->source, s->target, s->tsv, s->columns);
    t->pairs.keep_unpaired = 1;
    return status;
}

/* Files without options: source and target, or one file of pairs, or the text of a language
   model. */
static int take_files(struct scoring *t, int argc, char **argv)
{
    struct settings *s = t->s;
    if (argc == 0)
        return s->target && !s->source && !s->tsv
                   ? DONE
                   : check_pairs_given("", s->source, s->target, s->tsv);
    if (argc > 2 || s->source || s->target || s->tsv) {
        say("give one file of pairs or of text, or a source and a target; '%s' is one too many",
            argv[argc > 2 ? 2 : 0]);
        return USAGE;
    }
    t->position = argc == 1;
    if (argc == 1) s->tsv = argv[0];
    else { s->source = argv[0]; s->target = argv[1]; }
    return DONE;
}

int command_score(struct settings *s, int argc, char **argv)
{
    struct scoring t;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    begin_batches(&t.lines, s, &t, add_to_score, score_batch);
    t.lines.next = next_to_score;
    t.lines.instead = "not scored";
    t.lines.most_messages = REPORTED;
    status = take_files(&t, argc, argv);
    if (!status) status = check_columns(s->columns);
    if (!status) status = load_model(s, &t.model, &t.vocab[0], &t.vocab[1]);
    if (!status) status = check_decoder(s, t.model);
    if (!status) status = load_ensemble(s, t.model, t.vocab[0], &t.ensemble);
    if (!status) status = read_fixed_tags(s, t.model, t.vocab);
    if (!status) status = open_model(s, &t.ensemble, t.model, "scorer", &t.reader);
    if (!status) status = open_scoring(&t);
    if (!status) status = score_lines(&t);
    status = end_answers(&t.lines, status);
    close_pairs(&t.pairs);
    free_batches(&t.lines);
    free_side(&t.whole);
    free(t.document);
    free(t.results);
    trf_reader_destroy(t.reader);
    free_ensemble(&t.ensemble);
    trf_model_destroy(t.model);
    return status;
}


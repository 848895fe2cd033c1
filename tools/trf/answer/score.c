// trf score: log-probability of each target, given its source.
//
// Each pair gives a line: natural logarithm, tab, number of target tokens with EOS; exp(-a/b) is
// its perplexity. A pair that cannot be scored, and a line without a partner in the other file,
// gives "nan", tab, 0, and exit status 1. A language model reads only the target. --split cuts a
// text longer than the training chunks into parts, as trf train does, and sums the logarithms of
// the parts.

#include "answer.h"

#include <math.h>
#include <unistd.h>

enum { REPORTED = 5 };          /* lines that cannot be scored; the others are only counted */

struct scoring {
    struct settings *s;
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *vocab[2];
    char *tags[2];              /* malloc'd, see read_tags */
    struct pair_reader pairs;   /* of a language model: one file, without tabs */
    int alone;                  /* 1: there is no source */
    int position;               /* 1: one file, without an option: pairs, or the text alone */
    FILE *out;
    struct side side[2];
    struct unknown unknown[2];  /* of sources, of targets */
    double *results;
    struct {
        int32_t first, n;
    } *line; /* of the batch: its pairs, several if a text is cut; n 0: not scored */
    size_t results_capacity;
    struct side whole;          /* a text that is cut */
    int64_t lines, unusable, tokens, cut;
    int64_t beyond;             /* pairs longer than the longest text of the training */
    double sum;
    int broken; /* 1: the files could not be read to their ends, or have different lengths */
};

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
    struct side *side = &t->side[1];
    int32_t n;
    if (add_tagged_text(t->s, 1, side, t->vocab[1], t->pairs.target, config->max_length - 1, &n,
                        why))
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
    clear_side(whole);
    if (trf_vocab_count_unknown(t->vocab[1], t->pairs.target, &unknown, &n, &err)) {
        snprintf(why, 300, "%s", err.message);
        return FAILED;
    }
    if (add_text(whole, t->vocab[1], t->pairs.target, n > 0 ? n : 1, &n, why)) return FAILED;
    add_ids(whole, &config->eos, 1);
    t->cut += n + 1 > limit;
    for (at = 0; at <= n; at = end) {
        end = n + 1 - at <= limit ? n + 1 : at + limit;
        add_ids(&t->side[1], whole->ids + at, end - at);
    }
    return DONE;
}

/* Tokens of a part: as many as the longest text of the training has, if that is known. */
static int32_t part_tokens(const struct scoring *t)
{
    int32_t limit = trf_model_config(t->model)->max_length - 1, longest = longest_trained(t->model);
    return longest < limit ? longest : limit;
}

/* Reads up to one batch of pairs. Returns the number of lines. */
static int32_t read_pairs(struct scoring *t)
{
    const trf_config *config = trf_model_config(t->model);
    int32_t lines = 0, n;
    char why[300];
    clear_side(&t->side[0]);
    clear_side(&t->side[1]);
    while (!t->broken && lines < t->s->batch) {
        int got = t->alone ? next_target(&t->pairs) : next_pair(&t->pairs);
        const char *fault;
        size_t before = t->side[1].count;
        t->broken = got < 0;
        if (got < 1) break;
        fault = t->pairs.fault;
        if (!fault && !t->alone &&
            add_tagged_text(t->s, 0, &t->side[0], t->vocab[0], t->pairs.source,
                            source_limit(config), &n, why))
            fault = why;
        else if (!fault && (t->s->split ? add_parts(t, config, part_tokens(t), why)
                                        : add_target(t, config, why))) {
            if (!t->alone) drop_last(&t->side[0]);
            fault = why;
            if (!t->pairs.tsv) t->pairs.at = &t->pairs.side[1];
        }
        if (fault && t->unusable++ < REPORTED)
            say("%s:%lld: not scored: %s%s", t->pairs.at->name, (long long)t->pairs.at->number,
                fault, t->unusable == REPORTED ? "; further ones are only counted" : "");
        if (!fault && !t->alone)
            note_unknown(&t->unknown[0], t->vocab[0], t->pairs.source, t->pairs.side[0].number);
        if (!fault)
            note_unknown(&t->unknown[1], t->vocab[1], t->pairs.target, t->pairs.side[0].number);
        t->line[lines].first = (int32_t)before;
        t->line[lines++].n = (int32_t)(t->side[1].count - before);
    }
    return lines;
}

static int is_beyond(const struct scoring *t, int32_t first, int32_t n)
{
    int32_t longest = longest_trained(t->model),
            source = n == 0 || t->alone ? 0 : t->side[0].lengths[first];
    return n == 1 && (t->side[1].lengths[first] > longest || source > longest);
}

static void write_score(struct scoring *t, int32_t first, int32_t n)
{
    int32_t added = trf_model_config(t->model)->target_eos, i;
    int64_t tokens = 0;
    double sum = 0;
    for (i = first; i < first + n; i++) {
        tokens += t->side[1].lengths[i] + added;
        sum += t->results[i];
    }
    t->beyond += is_beyond(t, first, n);
    fprintf(t->out, "%.6f\t%lld\n", n ? sum : (double)NAN, (long long)tokens);
    t->tokens += tokens;
    t->sum += sum;
}

static int score_lines(struct scoring *t)
{
    int flush = t->s->interactive || isatty(fileno(t->pairs.side[0].file));
    int32_t lines, i;
    trf_error err;
    if (flush) t->s->batch = 1;
    if (!(t->line = zeroed_batch(t->s->batch, sizeof *t->line))) return FAILED;
    while ((lines = read_pairs(t)) > 0) {
        trf_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.source = sequences_of(&t->side[0]);
        batch.target = sequences_of(&t->side[1]);
        t->results =
            grow(t->results, &t->results_capacity, t->side[1].count + 1, sizeof *t->results);
        if (batch.target.count && trf_score(t->translator, &batch, t->results, &err)) {
            say_error("scoring", &err);
            return FAILED;
        }
        for (i = 0; i < lines; i++) write_score(t, t->line[i].first, t->line[i].n);
        t->lines += lines;
        if ((flush || ferror(t->out)) && check_output(t->out, t->s->output)) return FAILED;
    }
    if (t->unusable)
        say("%lld of %lld %s%s could not be scored", (long long)t->unusable, (long long)t->lines,
            t->alone ? "text" : "pair", plural(t->lines));
    say_unknown_share(&t->unknown[0], "the sources", 0.05);
    say_unknown_share(&t->unknown[1], t->alone ? "the text" : "the targets", 0.05);
    if (t->cut)
        say("%lld of %lld text%s had more than %d tokens: scored in parts (--split)",
            (long long)t->cut, (long long)t->lines, plural(t->lines), (int)part_tokens(t));
    if (t->beyond)
        say("%lld of %lld %s%s %s longer than the longest training text, %d tokens: the model has "
            "not learned the positions beyond that",
            (long long)t->beyond, (long long)t->lines, t->alone ? "text" : "pair", plural(t->lines),
            t->beyond == 1 ? "is" : "are", (int)longest_trained(t->model));
    if (!t->broken && t->tokens)
        inform("%lld %s%s, %lld target token%s, log-probability %.4f, perplexity %.6g\n",
               (long long)(t->lines - t->unusable), t->alone ? "text" : "pair",
               plural(t->lines - t->unusable), (long long)t->tokens, plural(t->tokens), t->sum,
               exp(-t->sum / (double)t->tokens));
    return t->broken || t->unusable ? FAILED : DONE;
}

/* Opens the pairs, or the target of a language model, which has no source. */
static int open_scoring(struct scoring *t)
{
    struct settings *s = t->s;
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
    if (s->split && !t->alone) {
        say("--split needs a language model: a part of a pair has no probability of its own");
        return USAGE;
    }
    if (s->split && trf_model_config(t->model)->target_eos) {
        say("--split needs a model made by trf train: '%s' ends every part with EOS", s->model);
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
    trf_error err;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    status = take_files(&t, argc, argv);
    if (!status) status = check_columns(s->columns);
    if (!status) status = load_model(s, &t.model, &t.vocab[0], &t.vocab[1]);
    if (!status) status = check_decoder(s, t.model);
    if (!status) status = read_fixed_tags(s, t.model, t.vocab, t.tags);
    if (!status && trf_translator_create(&t.translator, t.model, &s->search, &err))
        status = refused("scorer", &err);
    if (!status) status = open_scoring(&t);
    if (!status && !(t.out = open_output(s))) status = FAILED;
    if (!status) status = score_lines(&t);
    if (t.out && close_output(t.out, s->output)) status = FAILED;
    close_pairs(&t.pairs);
    free_side(&t.side[0]);
    free_side(&t.side[1]);
    free_side(&t.whole);
    free(t.tags[0]);
    free(t.tags[1]);
    free(t.results);
    free(t.line);
    trf_translator_destroy(t.translator);
    trf_model_destroy(t.model);
    return status;
}


// trf generate: continues texts, token by token.
//
// The output repeats a prompt (--prompt, or each line of the input) unchanged, then has what the
// drawn tokens add to the text of both; the vocabulary decides whether a space comes between. A
// single text is written as it grows; several are drawn together and written in their order.

#include "answer.h"

#include <unistd.h>

struct generating {
    struct settings *s;
    trf_model *model;
    struct ensemble ensemble;
    trf_sampler *sampler;
    const trf_vocab *source_vocab, *vocab;
    struct reader in;
    struct unfinished output;
    FILE *out;                  /* its file */
    struct rules rules;
    struct side prompts;            /* of the batch; sources, where there is an encoder */
    struct side firsts;             /* then: the token that is forced first, for each */
    char **given;                   /* their texts, as they were given */
    size_t given_capacity;
    int32_t *ids;                   /* of a prompt and its answer */
    size_t ids_capacity;
    char *text;
    size_t capacity;
    int32_t from; /* of the growing text: its ids are decoded from this one on, */
    size_t written;                 /* and so many bytes of that text are written */
    int joined;                     /* 1: something after the prompt is written */
    int stopped;                    /* 1: a text of --stop has ended it */
    int32_t limit;                  /* tokens of a prompt; 0: any number */
    int64_t drawn, unusable;        /* texts begun, lines that could not be */
    int64_t beyond;                 /* texts longer than the longest text of the training */
    struct unknown unknown;
    int failed;
};

enum { WINDOW = 1024 };             /* decodes again at most so many ids for each token */

/* A NUL, which byte fallback may draw, is written as a space. */
static void write_text(FILE *out, const char *text, size_t bytes)
{
    size_t i;
    for (i = 0; i < bytes; i++) fputc(text[i] ? text[i] : ' ', out);
}

/* Puts prompt and answer into t->ids and returns their number. A source is not part of them. */
static int32_t put_ids(struct generating *t, const int32_t *prompt, int32_t n,
                       const trf_hypothesis *answer)
{
    if (t->source_vocab != t->vocab) n = 0;
    t->ids = grow(t->ids, &t->ids_capacity, (size_t)n + (size_t)answer->n + 1, sizeof *t->ids);
    if (n) memcpy(t->ids, prompt, (size_t)n * sizeof *t->ids);
    if (answer->n) memcpy(t->ids + n, answer->ids, (size_t)answer->n * sizeof *t->ids);
    return n + answer->n;
}

/* The text of prompt number i as given; "" for a source. */
static const char *prompt_text(const struct generating *t, size_t i)
{
    return t->source_vocab == t->vocab ? t->given[i] : "";
}

/* The bytes of a prompt's own tokens, as the vocabulary writes them. */
static size_t prompt_bytes(const struct generating *t, const int32_t *prompt, int32_t n)
{
    size_t bytes = 0;
    if (t->source_vocab == t->vocab)
        (void)trf_vocab_decode(t->vocab, prompt, n, NULL, 0, &bytes, NULL);
    return bytes;
}

/* Whether the space that joins words would be a second one: the given text ends in a space that
   belongs to no token. */
static int doubles_space(const char *given, const char *text, size_t begin)
{
    size_t n = strlen(given);
    return n && strchr(BLANKS, given[n - 1]) && text[begin] == ' ' &&
           (begin == 0 || text[begin - 1] != ' ');
}

/* Where the first text of --stop begins in `bytes` bytes, or `bytes`. */
static size_t stop_in(const struct settings *s, const char *text, size_t bytes)
{
    int i;
    for (i = 0; i < s->generate.stops.n; i++) {
        const char *stop = s->generate.stops.item[i];
        size_t n = strlen(stop), at;
        for (at = 0; at + n <= bytes; at++) if (!memcmp(text + at, stop, n)) { bytes = at; break; }
    }
    return bytes;
}

/* How many bytes at the end may be the beginning of such a text: they wait. */
static size_t may_stop(const struct settings *s, const char *text, size_t bytes)
{
    size_t most = 0, n;
    int i;
    for (i = 0; i < s->generate.stops.n; i++) {
        const char *stop = s->generate.stops.item[i];
        for (n = strlen(stop) - 1; n > most; n--)
            if (n <= bytes && !memcmp(text + bytes - n, stop, n)) most = n;
    }
    return most;
}

/* Writes the new part of a single text. An unfinished character decodes to up to three U+FFFD: its
   bytes wait. */
static void write_growth(struct generating *t, int finished)
{
    const trf_hypothesis *answer = trf_sampler_answer(t->sampler, 0);
    int32_t n = put_ids(t, t->prompts.ids, t->prompts.lengths[0], answer);
    size_t bytes, end, rest;
    const char *text =
        bytes_of(t->vocab, t->ids + t->from, n - t->from, &t->text, &t->capacity, &bytes);
    t->failed |= !text;
    if (!text) return;
    for (end = bytes;
         !finished && end >= 3 && bytes - end < 9 && !memcmp(text + end - 3, "\xEF\xBF\xBD", 3);)
        end -= 3;
    if (t->s->generate.stops.n && end > t->written) {
        const char *fresh = text + t->written;
        size_t stop = stop_in(t->s, fresh, end - t->written);
        t->stopped = stop < end - t->written;
        end = t->written + stop;
        if (!t->stopped && !finished) end -= may_stop(t->s, fresh, stop);
    }
    if (end > t->written) {
        if (!t->joined) t->written += (size_t)doubles_space(prompt_text(t, 0), text, t->written);
        t->joined = 1;
        write_text(t->out, text + t->written, end - t->written);
        t->written = end;
        fflush(t->out);
    }
    if (n - t->from < WINDOW) return;
    rest = bytes - t->written; /* the end of a decoded text does not depend on its start */
    text = bytes_of(t->vocab, t->ids + n - WINDOW / 2, WINDOW / 2, &t->text, &t->capacity, &bytes);
    t->failed |= !text;
    if (!text || bytes < rest) return;
    t->from = n - WINDOW / 2;
    t->written = bytes - rest;
}

/* The text of prompt and answer number i. What was drawn is from *begin to *end, in front of a text
   of --stop; *bytes is the whole. NULL: reported. */
static const char *text_drawn(struct generating *t, const int32_t *prompt, int32_t i,
                              size_t *begin, size_t *end, size_t *bytes)
{
    int32_t n = put_ids(t, prompt, t->prompts.lengths[i], trf_sampler_answer(t->sampler, i));
    const char *text = bytes_of(t->vocab, t->ids, n, &t->text, &t->capacity, bytes);
    *begin = prompt_bytes(t, prompt, t->prompts.lengths[i]);
    *end = *bytes;
    if (text && *begin < *bytes) *end = *begin + stop_in(t->s, text + *begin, *bytes - *begin);
    return text;
}

static void write_whole(struct generating *t)
{
    const int32_t *prompt = t->prompts.ids;
    int32_t i;
    for (i = 0; i < (int32_t)t->prompts.count && !t->failed;
         prompt += t->prompts.lengths[i++]) {
        const trf_hypothesis *answer = trf_sampler_answer(t->sampler, i);
        const char *given = prompt_text(t, (size_t)i);
        size_t bytes, begin, end;
        const char *text = text_drawn(t, prompt, i, &begin, &end, &bytes), *ended;
        t->failed |= !text;
        if (!text) return;
        begin += (size_t)(begin < end && doubles_space(given, text, begin));
        ended = end < bytes ? "stop" : answer->ended == TRF_ENDED_EOS ? "end" : "length";
        if (t->s->json) {
            char *whole = format_text("%s%*s", given, (int)(end - begin), "");
            memcpy(whole + strlen(given), text + begin, end - begin);
            fputs("{\"text\":", t->out);
            print_json_text(t->out, whole, strlen(given) + end - begin);
            free(whole);
            print_json_field(t->out, "log_probability", answer->log_probability);
            fprintf(t->out, ",\"tokens\":%d,\"ended\":\"%s\"", (int)answer->n, ended);
            if (t->s->answer.token_scores) {
                print_json_tokens(t->out, "drawn", t->vocab, answer->ids, answer->n);
                print_json_list(t->out, "token_log_probabilities", answer->log_probabilities,
                                answer->n + (answer->ended == TRF_ENDED_EOS));
            }
            fputs("}\n", t->out);
        } else {
            fputs(given, t->out);
            write_text(t->out, text + begin, end - begin);
            fputc('\n', t->out);
        }
    }
}

/* Whether every text of the batch has a text of --stop, or has ended. */
static int all_stopped(struct generating *t)
{
    const int32_t *prompt = t->prompts.ids;
    int32_t i, all = t->s->generate.stops.n > 0;
    for (i = 0; i < (int32_t)t->prompts.count && all; prompt += t->prompts.lengths[i++]) {
        size_t bytes, begin, end;
        all = trf_sampler_answer(t->sampler, i)->ended == TRF_ENDED_EOS ||
              (text_drawn(t, prompt, i, &begin, &end, &bytes) && end < bytes);
    }
    return all;
}

/* Tokens of the longest text of the training; or, if the file does not say it, as in imported
   models, of the longest that the model reads at once. */
static int32_t longest_read(const trf_model *model)
{
    const trf_config *c = trf_model_config(model);
    int32_t trained = longest_trained(model), most = c->max_length - !c->bare_prompts;
    return trained < most ? trained : most;
}

/* Counts the texts longer than that. */
static void count_longer(struct generating *t)
{
    const trf_config *c = trf_model_config(t->model);
    int32_t trained = longest_trained(t->model), longest = longest_read(t->model), i;
    int imported = trained == INT32_MAX && c->kind == TRF_DECODER_ONLY;
    if (!imported && trained >= c->max_length - 1) return;
    for (i = 0; i < (int32_t)t->prompts.count; i++) {
        int32_t prompt_tokens = t->source_vocab == t->vocab ? t->prompts.lengths[i] : 0;
        t->beyond += prompt_tokens + trf_sampler_answer(t->sampler, i)->n > longest;
    }
}

static void clear_prompts(struct generating *t)
{
    size_t i;
    for (i = 0; i < t->prompts.count; i++) free(t->given[i]);
    clear_side(&t->prompts);
    clear_side(&t->firsts);
}

/* Draws and writes all texts of the batch. */
static int draw(struct generating *t)
{
    int alone = t->prompts.count == 1 && !t->s->json;
    trf_batch batch;
    trf_error err;
    int32_t live = 1;
    if (t->prompts.count == 0) return DONE;
    memset(&batch, 0, sizeof batch);
    if (trf_model_config(t->model)->kind == TRF_ENCODER_DECODER) {
        batch.source = sequences_of(&t->prompts);
        if (t->s->search.forced_first >= 0)
            while (t->firsts.count < t->prompts.count)
                add_ids(&t->firsts, &t->s->search.forced_first, 1);
        batch.target = sequences_of(&t->firsts);
    } else batch.target = sequences_of(&t->prompts);
    batch.ordinal = t->drawn;
    t->from = t->joined = t->stopped = 0;
    t->written = prompt_bytes(t, t->prompts.ids, t->prompts.lengths[0]);
    if (trf_sampler_begin(t->sampler, &batch, &err)) {
        say_error("beginning", &err);
        return FAILED;
    }
    if (alone) fputs(prompt_text(t, 0), t->out);
    while (live && !t->failed && !t->stopped) {
        int32_t steps = alone ? 1 : t->s->generate.stops.n ? 32 : INT32_MAX;
        if (trf_sampler_step(t->sampler, steps, &live, &err)) {
            say_error("generating", &err);
            return FAILED;
        }
        if (alone) write_growth(t, !live);
        else t->stopped = live && all_stopped(t);
        if (ferror(t->out)) return check_output(t->out, t->s->output);
    }
    if (alone) fputc('\n', t->out);
    else write_whole(t);
    count_longer(t);
    t->drawn += (int64_t)t->prompts.count;
    clear_prompts(t);
    return t->failed ? FAILED : check_output(t->out, t->s->output);
}

/* A line that cannot be continued gets empty texts, so that the others keep their order. */
static int leave_out(struct generating *t, const char *fault)
{
    int32_t i;
    if (!t->in.file) say("--prompt cannot be continued: %s", fault);
    else say("%s:%lld: cannot be continued: %s", t->in.name, (long long)t->in.number, fault);
    t->unusable++;
    if (draw(t)) return FAILED;
    for (i = 0; t->in.file && i < t->s->generate.count; i++) {
        if (t->s->json)
            fputs("{\"text\":\"\",\"log_probability\":null,\"tokens\":0,\"ended\":\"unusable\"}",
                  t->out);
        fputc('\n', t->out);
    }
    return DONE;
}

static void keep_given(struct generating *t, const char *text)
{
    t->given = grow(t->given, &t->given_capacity, t->prompts.count, sizeof *t->given);
    t->given[t->prompts.count - 1] = format_text("%s", text);
}

/* Texts from nothing, of a model that has read beginnings behind EOS. With bare prompts the first
   id takes the place of BOS. */
static int begin_behind_eos(struct generating *t)
{
    const trf_config *c = trf_model_config(t->model);
    const int32_t ids[2] = {c->bos, c->eos};
    int bare = c->bare_prompts && c->decoder_start == TRF_START_BOS, status = DONE;
    int32_t i;
    for (i = 0; i < t->s->generate.count && !status; i++) {
        add_ids(&t->prompts, ids + !bare, 1 + bare);
        keep_given(t, "");
        if ((int32_t)t->prompts.count == t->s->generate.batch_sentences) status = draw(t);
    }
    return status;
}

/* One prompt, --count times. */
static int begin(struct generating *t, const char *text)
{
    char why[300];
    int32_t i, n, limit = t->limit;
    int status = DONE;
    if (!*text && trf_model_metadata(t->model, stream_key) && t->source_vocab == t->vocab)
        return begin_behind_eos(t);
    note_unknown(&t->unknown, t->source_vocab, text, t->in.file ? t->in.number : 0);
    (void)trf_vocab_encode(t->source_vocab, text, t->s->generate.special, NULL, 0, &n, NULL);
    if (!limit) limit = n;
    for (i = 0; i < t->s->generate.count && !status; i++) {
        if (t->s->generate.special
                ? add_special_text(&t->prompts, t->source_vocab, text, limit, &n, why)
                : add_text(&t->prompts, t->source_vocab, text, limit, &n, why))
            return leave_out(t, why);
        keep_given(t, text);
        if ((int32_t)t->prompts.count == t->s->generate.batch_sentences) status = draw(t);
    }
    return status;
}

static int begin_lines(struct generating *t)
{
    int status = open_reader(&t->in, t->s->input), got = 0;
    if (!status && (t->s->answer.interactive || isatty(fileno(t->in.file))))
        t->s->generate.batch_sentences = 1;
    while (!status && (got = next_line(&t->in)) > 0) {
        status = t->in.fault ? leave_out(t, t->in.fault) : begin(t, t->in.line);
    }
    close_reader(&t->in);
    return status || got < 0 ? FAILED : DONE;
}

/* A token that may be forced first: any but EOS, in an encoder-decoder model. */
static int check_first(const struct settings *s, const trf_model *model)
{
    const trf_config *config = trf_model_config(model);
    if (s->search.forced_first < 0) return DONE;
    if (config->kind != TRF_ENCODER_DECODER)
        say("--forced-first needs an encoder-decoder model; begin the text with the token instead");
    else if (s->search.forced_first == config->eos) say("--forced-first must not be EOS");
    else return DONE;
    return USAGE;
}

int command_generate(struct settings *s, int argc, char **argv)
{
    struct generating t;
    trf_error err;
    int status, i;
    memset(&t, 0, sizeof t);
    t.s = s;
    if (argc > 1 || (argc && (s->generate.prompt || s->input))) {
        say("give one text, got '%s' and '%s': a text of several words needs quotation marks",
            argv[0],
            argc > 1    ? argv[1]
            : s->generate.prompt ? s->generate.prompt
                        : s->input);
        return USAGE;
    }
    if (argc) s->generate.prompt = argv[0];
    if (s->generate.prompt && s->input) { say("give --prompt or --input, not both"); return USAGE; }
    if (s->answer.token_scores && !s->json) { say("--token-scores needs --json"); return USAGE; }
    if (s->answer.interactive && s->generate.prompt) {
        say("--interactive reads lines: give --prompt or --interactive, not both");
        return USAGE;
    }
    for (i = 0; i < s->generate.stops.n; i++)
        if (!*s->generate.stops.item[i]) { say("--stop takes a text, got none"); return USAGE; }
    status = load_model(s, &t.model, &t.source_vocab, &t.vocab);
    if (!status) status = check_decoder(s, t.model);
    if (!status) status = load_ensemble(s, t.model, t.source_vocab, &t.ensemble);
    if (!status) status = read_rules(s, NULL, t.source_vocab, t.vocab, &t.rules);
    if (!status) status = read_first(s, t.model);
    if (!status) status = check_first(s, t.model);
    if (!status && s->generate.special && trf_vocab_kind(t.source_vocab) != TRF_BYTE_BPE) {
        say("--special needs byte-level BPE, but '%s' has %s", s->model,
            kinds_of_tokens[trf_vocab_kind(t.source_vocab)]);
        status = USAGE;
    }
    s->sampling.banned = s->search.banned;
    s->sampling.ends = s->search.ends;
    if (!status && !is_given(s, AT(seed)) && s->sampling.temperature > 0) {
        s->seed = hash_bytes((uint64_t)getpid(), &(double){now()}, sizeof(double)) % 1000000000;
        inform_line("--seed %llu draws the same again", (unsigned long long)s->seed);
    }
    s->sampling.seed = s->seed;
    if (!status) s->sampling.window = longest_trained(t.model);
    if (!status && trf_sampler_create(&t.sampler, t.model, &s->sampling, &err))
        status = ensemble_refused(&t.ensemble, "sampling", &err);
    if (!status) status = open_output(s, &t.output);
    if (!status) {
        t.out = t.output.file;
        const trf_config *config = trf_model_config(t.model);
        t.limit = config->kind == TRF_DECODER_ONLY ? 0 : least_of(&t.ensemble, source_limit);
        if ((config->kind == TRF_ENCODER_DECODER || s->answer.interactive) && !s->generate.prompt &&
            !s->input)
            s->input = "-";
        status = s->input ? begin_lines(&t)
            : begin(&t, s->generate.prompt ? s->generate.prompt : "");
    }
    if (!status) status = draw(&t);
    if (t.beyond)
        say("%lld of %lld text%s %s longer than the longest %s, %d token%s: %s",
            (long long)t.beyond, (long long)t.drawn, plural(t.drawn), t.beyond == 1 ? "is" : "are",
            longest_trained(t.model) < INT32_MAX ? "training text" : "text that the model reads",
            (int)longest_read(t.model), plural(longest_read(t.model)),
            trf_model_config(t.model)->kind == TRF_DECODER_ONLY
                ? "the model read at most that many at a time"
                : "the model has not learned the positions beyond that");
    if (close_output(&t.output, !status)) status = FAILED;
    say_unknown_share(&t.unknown, s->input ? "the input" : "--prompt", 0);
    clear_prompts(&t);
    free_side(&t.prompts);
    free_side(&t.firsts);
    free_rules(&t.rules);
    free(t.given);
    free(t.ids);
    free(t.text);
    trf_sampler_destroy(t.sampler);
    free_ensemble(&t.ensemble);
    trf_model_destroy(t.model);
    return status ? status : t.unusable ? FAILED : DONE;
}

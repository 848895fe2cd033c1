// trf: tokens that options of a search name: forced ones, ends, tags of sources, banned texts,
// phrases.

#include "base.h"

void free_rules(struct rules *rules)
{
    free_side(&rules->banned);
    free_side(&rules->phrases);
}

/* The id of a token by its text, also of a special one; or else by its number. -1 after a
   message. */
static int32_t token_named(const char *option, const trf_vocab *vocab, const char *text)
{
    int32_t id = *text ? id_of(vocab, text) : -1, size = trf_vocab_size(vocab);
    char *end;
    long number;
    if (id >= 0) return id;
    number = strtol(text, &end, 10);
    if (*text && !*end && number >= 0 && number < size) return (int32_t)number;
    say("%s '%s' is neither a token of the model nor an id from 0 to %d", option, text,
        (int)size - 1);
    return -1;
}

static int set_token(const char *option, const trf_vocab *vocab, const char *text, int32_t *field)
{
    if (!text) return DONE;
    *field = token_named(option, vocab, text);
    return *field < 0 ? USAGE : DONE;
}

static int set_ends(struct settings *s, const trf_vocab *vocab)
{
    trf_ends *ends = &s->search.ends;
    int k, status = DONE;
    for (k = 0; k < s->rules.ends.n && !status; k++) {
        if (k == TRF_MAX_ENDS) { say("--end may be given %d times", k); return USAGE; }
        status = set_token("--end", vocab, s->rules.ends.item[k], &ends->ids[ends->n++]);
    }
    return status;
}

/* Adds the tokens of a text to a list. where: the option, or file and line. */
static int add_listed(struct side *list, const trf_vocab *vocab, const char *where,
                      const char *text)
{
    int32_t *ids = NULL, n = 0, i;
    size_t capacity = 0;
    trf_error err;
    int status = DONE;
    if (encode_after(vocab, text, &ids, 0, &capacity, &n, &err)) {
        say("%s: %s", where, err.message);
        status = FAILED;
    }
    for (i = 0; i < n && !status; i++)
        if (ids[i] == unknown_id(vocab)) {
            say("%s '%s': the model does not know all of its tokens, so it cannot write them",
                where, text);
            status = USAGE;
        }
    if (!status && !n) {
        say("%s '%s' has no tokens", where, text);
        status = USAGE;
    }
    if (!status) add_ids(list, ids, n);
    free(ids);
    return status;
}

/* Adds each line of a file; empty lines are left out. */
static int add_lines(struct side *list, const trf_vocab *vocab, const char *path)
{
    struct reader r;
    int got = 0, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *where = format_text("%s:%lld", r.name, (long long)r.number);
        if (r.fault) { say("%s: %s", where, r.fault); status = FAILED; }
        else if (*r.line) status = add_listed(list, vocab, where, r.line);
        free(where);
    }
    close_reader(&r);
    return got < 0 ? FAILED : status;
}

// -----------------------------------------------------------------------------------------------
// >>languages      --source-language and --target-language
//
// The library knows what they mean (trf_search_languages). Options name a token themselves.
// -----------------------------------------------------------------------------------------------

const char *const language_keys[2] = {"source.language", "target.language"};
const char first_key[] = "target.first", ends_key[] = "target.ends";
const char origin_key[] = "imported.model_type", stream_key[] = "trained.stream";
const char pooling_key[] = "pooling", longest_key[] = "pooling.longest";
const char prompt_key[] = "pooling.prompt", normalize_key[] = "pooling.normalize";

/* The model whose tags are asked for: that of trf train is the one it starts from. */
static const char *model_name(const struct settings *s)
{
    return s->train.init_from ? s->train.init_from : s->model;
}

/* The rule of a side's tag, or NULL. */
static const char *rule_of(const trf_model *model, int target)
{
    return trf_model_metadata(model, target ? "target.tag" : "source.tag");
}

/* The language that is given for a side, or NULL. A training that goes on takes Marian's from the
   model, where a text may begin with its tag. */
static const char *language_given(const struct settings *s, const trf_model *model, int target)
{
    const char *given = target ? s->target_language : s->source_language;
    const char *rule = rule_of(model, target);
    int in_text = target && rule && !strncmp(rule, "source-first", 12);
    if (given || !in_text || !s->resume || strcmp(program, "trf train")) return given;
    return trf_model_metadata(model, language_keys[target]);
}

/* The field that a side's rule sets, or NULL. */
static const int32_t *field_of(const trf_search *search, const char *rule)
{
    const struct { const char *name; const int32_t *field;
    } fields[] = {{"start", &search->start},
                  {"forced-first", &search->forced_first},
                  {"source-first", &search->source_first},
                  {"source-last", &search->source_last}};
    size_t n = rule ? strcspn(rule, " ") : 0, i;
    for (i = 0; i < 4; i++)
        if (strlen(fields[i].name) == n && !strncmp(rule, fields[i].name, n))
            return fields[i].field;
    return NULL;
}

/* A language and the option that names its token cannot both be given. */
static int check_languages_given(const struct settings *s, const trf_model *model)
{
    int k;
    for (k = 0; k < 2; k++) {
        const char *rule = rule_of(model, k);
        const int32_t *field = field_of(&s->search, rule);
        if (!(k ? s->target_language : s->source_language) || !field || *field < 0) continue;
        say("--%s-language and --%.*s cannot be combined: both set the same token",
            k ? "target" : "source", (int)strcspn(rule, " "), rule);
        return USAGE;
    }
    return DONE;
}

/* The library's reasons, in words of the command line. */
static int say_no_language(const struct settings *s, const trf_model *model, const trf_error *err)
{
    const char *codes = trf_model_metadata(model, "languages");
    const char *given = !strcmp(err->what, "target") ? s->target_language : s->source_language;
    if (err->status == TRF_E_FORMAT) {
        say("'%s': %s", model_name(s), err->message);
        return FAILED;
    }
    if (err->status == TRF_E_UNSUPPORTED)
        say("--%s-language: '%s' has no tokens for the languages of its %ss", err->what,
            model_name(s), err->what);
    else if (given)
        say("--%s-language %s: '%s' knows %s", err->what, given, model_name(s), codes);
    else
        say("give --%s-language, one of those that '%s' knows: %s", err->what, model_name(s),
            codes);
    return USAGE;
}

/* Tells of the languages that only the model knows. */
static void tell_languages(const struct settings *s, const trf_model *model,
                           const trf_search *before)
{
    int k;
    for (k = 0; k < 2; k++) {
        const int32_t *was = field_of(before, rule_of(model, k)),
                      *is = field_of(&s->search, rule_of(model, k));
        if (was && *was != *is && !(k ? s->target_language : s->source_language))
            inform_line("%s language: %s, as in %s", k ? "target" : "source",
                        trf_model_metadata(model, language_keys[k]), model_name(s));
    }
}

/* Sets start, forced_first, source_first, source_last and source_tagged of s->search, from options
   of these names and from the languages. model NULL: a command without languages. */
static int read_tags(struct settings *s, const trf_model *model, const trf_vocab *const vocab[2])
{
    trf_search before;
    trf_error err;
    int status = set_token("--start", vocab[1], s->rules.start, &s->search.start);
    if (!status)
        status = set_token("--forced-first", vocab[1], s->rules.forced_first,
                           &s->search.forced_first);
    if (!status) status = set_ends(s, vocab[1]);
    if (!status)
        status = set_token("--source-first", vocab[0], s->rules.source_first,
                           &s->search.source_first);
    if (!status)
        status = set_token("--source-last", vocab[0], s->rules.source_last, &s->search.source_last);
    s->search.source_tagged = s->search.source_last >= 0;
    if (!status && model) status = check_languages_given(s, model);
    if (status || !model) return status;
    before = s->search;
    if (trf_search_languages(&s->search, model, language_given(s, model, 0),
                             language_given(s, model, 1), &err))
        return say_no_language(s, model, &err);
    tell_languages(s, model, &before);
    return DONE;
}

int read_first(struct settings *s, const trf_model *model)
{
    const char *text = trf_model_metadata(model, first_key);
    char *end;
    trf_error err;
    long id;
    if (!s->search.ends.n && trf_model_ends(model, &s->search.ends, &err)) {
        say("'%s': %s", model_name(s), err.message);
        return FAILED;
    }
    if (!text || s->rules.forced_first || trf_model_config(model)->kind != TRF_ENCODER_DECODER)
        return DONE;
    id = strtol(text, &end, 10);
    if (end == text || *end || id < 0 || id >= trf_model_config(model)->target_vocab) {
        say("'%s': expected an id in its \"%s\", got \"%s\"", model_name(s), first_key, text);
        return FAILED;
    }
    s->search.forced_first = (int32_t)id;
    return DONE;
}

int read_fixed_tags(struct settings *s, const trf_model *model, const trf_vocab *const vocab[2])
{
    int status;
    if (s->objective != OBJECTIVE_TRANSLATE || !vocab[0] || !vocab[1] ||
        trf_model_config(model)->kind != TRF_ENCODER_DECODER) {
        if (!s->source_language && !s->target_language) return DONE;
        say("--source-language and --target-language are for models that translate");
        return USAGE;
    }
    status = read_tags(s, model, vocab);
    if (status || s->search.start < 0) return status;
    say("only translating can begin the targets of '%s' with %s: give another --target-language, "
        "or set \"decoder_start_token_id\" in config.json of its folder and import it again",
        model_name(s), trf_vocab_token(vocab[1], s->search.start));
    return USAGE;
}

/* The language of a side: the given one, or else what the model remembers, unless its texts have
   tags. */
static const char *language_of(const struct settings *s, const trf_model *model, int target)
{
    const char *given = language_given(s, model, target), *rule = rule_of(model, target);
    if (given || (target && rule && !strncmp(rule, "source-first", 12))) return given;
    return trf_model_metadata(model, language_keys[target]);
}

int store_languages(trf_model *model, const trf_model *from, const struct settings *s)
{
    static const char *const keys[] = {"languages", "source.tag", "target.tag", first_key};
    trf_error err;
    size_t i;
    int k, failed = 0;
    for (i = 0; i < sizeof keys / sizeof *keys && !failed; i++)
        failed = trf_model_set_metadata(model, keys[i], trf_model_metadata(from, keys[i]), &err);
    for (k = 0; k < 2 && !failed; k++)
        failed = trf_model_set_metadata(model, language_keys[k], language_of(s, from, k), &err);
    if (failed) say_error("metadata", &err);
    return failed ? FAILED : DONE;
}

int read_rules(struct settings *s, const trf_model *model, const trf_vocab *source,
               const trf_vocab *target, struct rules *rules)
{
    const trf_vocab *const vocab[2] = {source, target};
    int k, status = read_tags(s, model, vocab);
    for (k = 0; k < s->rules.bans.n && !status; k++)
        status = add_listed(&rules->banned, target, "--ban", s->rules.bans.item[k]);
    if (!status && s->rules.ban_file) status = add_lines(&rules->banned, target, s->rules.ban_file);
    for (k = 0; k < s->rules.phrases.n && !status; k++)
        status = add_listed(&rules->phrases, target, "--phrase", s->rules.phrases.item[k]);
    s->search.banned = sequences_of(&rules->banned);
    return status;
}

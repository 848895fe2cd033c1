// trf: tokens that options of a search name: forced ones, tags of sources, banned texts, phrases.

#include "base.h"

void free_rules(struct rules *rules)
{
    free_side(&rules->banned);
    free_side(&rules->phrases);
    free(rules->tags[0]);
    free(rules->tags[1]);
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
// The metadata of an imported model say what they mean (import_languages.c): "source.tag" is
// "source-first __*__" if the language en stands for --source-first __en__.
// -----------------------------------------------------------------------------------------------

const char *const language_keys[2] = {"source.language", "target.language"};
const char first_key[] = "target.first", origin_key[] = "imported.model_type";
const char pooling_key[] = "pooling";

/* The option of a search that a tag sets, or NULL. */
static const char **tag_option(struct settings *s, const char *tag)
{
    static const size_t fields[] = {AT(source_first), AT(source_last), AT(forced_first), AT(start)};
    size_t n = tag ? strcspn(tag, " ") : 0, i;
    for (i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *name = option_name(fields[i]);
        if (strlen(name) == n && !strncmp(name, tag, n))
            return (const char **)((char *)s + fields[i]);
    }
    return NULL;
}

/* The model whose tags are asked for: that of trf train is the one it starts from. */
static const char *model_name(const struct settings *s)
{
    return s->init_from ? s->init_from : s->model;
}

/* Fails: no token stands for the language. */
static int no_language(const struct settings *s, const char *side, const char *code,
                       const char *codes)
{
    if (code) say("--%s-language %s: '%s' knows %s", side, code, model_name(s), codes);
    else say("give --%s-language, one of those that '%s' knows: %s", side, model_name(s), codes);
    return USAGE;
}

/* Whether answers begin with the token anyway. No text contains it, so it has no id of its own. */
static int is_usual_start(const trf_vocab *vocab, const char *token)
{
    int32_t bos = trf_vocab_special(vocab, TRF_SPECIAL_BOS);
    return bos >= 0 && !strcmp(trf_vocab_token(vocab, bos), token);
}

/* The rule of a side's tag, or NULL. */
static const char *rule_of(const trf_model *model, int target)
{
    return trf_model_metadata(model, target ? "target.tag" : "source.tag");
}

/* The language of a side: the option, or else what the model remembers of its training or its
   folder; or NULL. A text for Marian may already begin with its tag. So only a training that is
   resumed takes Marian's language from the model. */
static const char *language_of(const struct settings *s, const trf_model *model, int target)
{
    const char *given = target ? s->target_language : s->source_language;
    const char *rule = rule_of(model, target);
    int in_text = target && rule && !strncmp(rule, "source-first", 12);
    int goes_on = s->resume && !strcmp(program, "trf train");
    if (given || (in_text && !goes_on)) return given;
    return trf_model_metadata(model, language_keys[target]);
}

/* Sets the option that the tag of one side names. If no language is given or remembered, a model
   whose tags go into all sources, or first into all answers, needs one, unless another option has
   set them. */
static int set_language(struct settings *s, const trf_model *model, const trf_vocab *const vocab[2],
                        int target, char **made)
{
    const char *side = target ? "target" : "source";
    const char *given = target ? s->target_language : s->source_language;
    const char *tag = rule_of(model, target), *code = language_of(s, model, target);
    const char *codes = trf_model_metadata(model, "languages");
    const char *token = tag ? strchr(tag, ' ') : NULL, *star = token ? strchr(token, '*') : NULL;
    const char **option = tag_option(s, tag);
    int k;
    if (!option || !codes || !star) {
        if (!given) return DONE;
        say("--%s-language: '%s' has no tokens for the languages of its %ss", side,
            model_name(s), side);
        return USAGE;
    }
    if (*option && given) {
        say("--%s-language and --%.*s cannot be combined: both set the same token", side,
            (int)(token - tag), tag);
        return USAGE;
    }
    if (*option) return DONE;
    if (!code) {
        int needed = !target || option == &s->forced_first;
        return needed ? no_language(s, side, NULL, codes) : DONE;
    }
    token++;
    *made = format_text("%.*s%s%s", (int)(star - token), token, code, star + 1);
    if (option == &s->start && is_usual_start(vocab[1], *made)) return DONE;
    k = option == &s->forced_first || option == &s->start;
    if (trf_vocab_id(vocab[k], *made) == unknown_id(vocab[k]))
        return no_language(s, side, code, codes);
    *option = *made;
    if (!given) inform_line("%s language: %s, as in %s", side, code, model_name(s));
    return DONE;
}

int read_first(struct settings *s, const trf_model *model)
{
    const char *text = trf_model_metadata(model, first_key);
    char *end;
    long id;
    if (!text || s->forced_first || trf_model_config(model)->kind != TRF_ENCODER_DECODER)
        return DONE;
    id = strtol(text, &end, 10);
    if (end == text || *end || id < 0 || id >= trf_model_config(model)->target_vocab) {
        say("'%s': expected an id in its \"%s\", got \"%s\"", model_name(s), first_key, text);
        return FAILED;
    }
    s->search.forced_first = (int32_t)id;
    return DONE;
}

int read_tags(struct settings *s, const trf_model *model, const trf_vocab *const vocab[2],
              char *made[2])
{
    int status = DONE, k;
    for (k = 0; model && k < 2 && !status; k++)
        status = set_language(s, model, vocab, k, &made[k]);
    if (!status && model) status = read_first(s, model);
    if (!status) status = set_token("--start", vocab[1], s->start, &s->search.start);
    if (!status)
        status = set_token("--forced-first", vocab[1], s->forced_first, &s->search.forced_first);
    if (!status)
        status = set_token("--source-first", vocab[0], s->source_first, &s->search.source_first);
    if (!status)
        status = set_token("--source-last", vocab[0], s->source_last, &s->search.source_last);
    s->search.source_tagged = s->search.source_last >= 0;
    return status;
}

int read_fixed_tags(struct settings *s, const trf_model *model, const trf_vocab *const vocab[2],
                    char *made[2])
{
    int status;
    if (s->objective != OBJECTIVE_TRANSLATE || !vocab[0] || !vocab[1] ||
        trf_model_config(model)->kind != TRF_ENCODER_DECODER) {
        if (!s->source_language && !s->target_language) return DONE;
        say("--source-language and --target-language are for models that translate");
        return USAGE;
    }
    status = read_tags(s, model, vocab, made);
    if (status || s->search.start < 0) return status;
    say("only translating can begin the targets of '%s' with %s: give another --target-language, "
        "or set \"decoder_start_token_id\" in config.json of its folder and import it again",
        model_name(s), s->start);
    return USAGE;
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
    int k, status = read_tags(s, model, vocab, rules->tags);
    for (k = 0; k < s->bans.n && !status; k++)
        status = add_listed(&rules->banned, target, "--ban", s->bans.item[k]);
    if (!status && s->ban_file) status = add_lines(&rules->banned, target, s->ban_file);
    for (k = 0; k < s->phrases.n && !status; k++)
        status = add_listed(&rules->phrases, target, "--phrase", s->phrases.item[k]);
    s->search.banned = sequences_of(&rules->banned);
    s->search.phrases = sequences_of(&rules->phrases);
    return status;
}

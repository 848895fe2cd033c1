// trf import: how a sentence encoder makes one vector of a text.
//
// sentence-transformers lists the steps in modules.json: the transformer, "Pooling" in a folder of
// its own, often "Normalize". Each step's "type" ends with its class. sentence_bert_config.json
// says how long a text may be, config_sentence_transformers.json what stands before it.

#include "import.h"

const struct pooling poolings[POOLINGS] = {{"pooling_mode_mean_tokens", "mean", "mean"},
                                           {"pooling_mode_cls_token", "cls", "first"},
                                           {"pooling_mode_max_tokens", "max", "max"}};

/* The folder of the pooling, or NULL. *more becomes a step that trf does not know. *raw: whether
   there is no Normalize. */
static const char *find_pooling(const cJSON *steps, const char **more, int *raw)
{
    const cJSON *step;
    const char *folder = NULL;
    *raw = 1;
    cJSON_ArrayForEach(step, steps) {
        const char *type = json_text(step, "type"), *path = json_text(step, "path");
        const char *name = type ? strrchr(type, '.') : NULL;
        name = name ? name + 1 : type;
        if (name && !strcmp(name, "Normalize")) *raw = 0;
        if (!name || !strcmp(name, "Transformer") || !strcmp(name, "Normalize")) continue;
        if (strcmp(name, "Pooling")) *more = name;
        else folder = path ? path : POOLING_FOLDER;
    }
    return folder;
}

/* The name of the pooling that a configuration, an object, asks for, or NULL: another one, or
   several. */
static const char *name_of_pooling(const cJSON *json)
{
    const char *word = json_text(json, "pooling_mode");
    const cJSON *entry;
    int flags = 0, i;
    cJSON_ArrayForEach(entry, json)
        flags += !strncmp(entry->string, "pooling_mode_", 13) && cJSON_IsTrue(entry);
    for (i = 0; i < POOLINGS; i++)
        if (word ? !strcmp(word, poolings[i].word)
                 : flags == 1 && json_true(json, poolings[i].flag, 0)) return poolings[i].name;
    return NULL;
}

/* Finds the pooling, and whether vectors keep their lengths. */
static int read_steps(const char *folder, struct sentences *to)
{
    char *list = format_text("%s/modules.json", folder), *path = NULL;
    cJSON *steps = NULL, *json = NULL;
    const char *inner = POOLING_FOLDER, *more = NULL;
    int status = DONE;
    if (is_file(list)) {
        if (!(steps = read_json_list(list))) status = FAILED;
        else inner = find_pooling(steps, &more, &to->raw);
    }
    if (!status && inner) path = format_text("%s/%s/config.json", folder, inner);
    if (path && is_file(path)) {
        if (!(json = read_json_file(path))) status = FAILED;
        else if (!(to->pooling = name_of_pooling(json)))
            inform_line("%s: left out: another pooling than mean, first or max of the rows", path);
        if (!json_true(json, "include_prompt", 1))
            inform_line("%s: left out: \"include_prompt\" is false, but here the rows of a prompt "
                        "are pooled too", path);
    }
    if (more)
        inform_line("%s: left out: %s, which trf does not build: vectors are those before it", list,
                    more);
    to->raw &= to->pooling != NULL;
    cJSON_Delete(steps);
    cJSON_Delete(json);
    free(list);
    free(path);
    return status;
}

/* How many ids a text may have: "max_seq_length", or "model_max_length" of the tokenizer. */
static int read_longest(const char *folder, struct sentences *to)
{
    static const char *const names[] = {"sentence_bert_config.json", "sentence_roberta_config.json",
                                        "sentence_xlm-roberta_config.json"};
    cJSON *json = NULL, *settings = NULL;
    const cJSON *longest;
    size_t i;
    int status = DONE;
    for (i = 0; i < sizeof names / sizeof *names && !json && !status; i++)
        status = read_if_there(folder, names[i], &json);
    if (!status) status = read_if_there(folder, "tokenizer_config.json", &settings);
    longest = cJSON_GetObjectItemCaseSensitive(json, "max_seq_length");
    if (!cJSON_IsNumber(longest))
        longest = cJSON_GetObjectItemCaseSensitive(settings, "model_max_length");
    if (cJSON_IsNumber(longest) && longest->valuedouble >= 1 && longest->valuedouble < 1e9)
        to->longest = (int32_t)longest->valuedouble;
    if (json_true(json, "do_lower_case", 0))
        inform_line("%s/%s: left out: \"do_lower_case\": only the tokenizer's rules count", folder,
                    names[i - 1]);
    cJSON_Delete(json);
    cJSON_Delete(settings);
    return status;
}

/* The prompt that stands before every text; others are told. */
static int read_prompt(const char *folder, struct sentences *to)
{
    enum { MOST_PROMPTS = 20 };
    static const char file[] = "config_sentence_transformers.json";
    cJSON *json = NULL;
    const cJSON *prompts, *each;
    const char *usual;
    int n = 0, status = read_if_there(folder, file, &json);
    prompts = cJSON_GetObjectItemCaseSensitive(json, "prompts");
    usual = json_text(json, "default_prompt_name");
    cJSON_ArrayForEach(each, prompts) {
        const char *text = cJSON_GetStringValue(each);
        if (!text || !*text) continue;
        if (usual && each->string && !strcmp(usual, each->string))
            to->prompt = format_text("%s", text);
        else if (n++ < MOST_PROMPTS)
            inform_line("%s/%s: left out: the prompt of %s, \"%s\": begin texts with it yourself",
                        folder, file, each->string ? each->string : "no name", text);
    }
    if (n > MOST_PROMPTS)
        inform_line("%s/%s: left out: %d prompts more", folder, file, n - MOST_PROMPTS);
    cJSON_Delete(json);
    return status;
}

int read_sentences(const char *folder, const char *model, struct sentences *to)
{
    memset(to, 0, sizeof *to);
    return read_steps(folder, to) || read_longest(model, to) || read_prompt(folder, to) ? FAILED
                                                                                        : DONE;
}

int set_sentences(trf_model *model, const struct sentences *s)
{
    char longest[16];
    trf_error err;
    snprintf(longest, sizeof longest, "%d", (int)s->longest);
    if (trf_model_set_metadata(model, pooling_key, s->pooling, &err) ||
        trf_model_set_metadata(model, normalize_key, s->raw ? "no" : NULL, &err) ||
        trf_model_set_metadata(model, prompt_key, s->prompt, &err) ||
        trf_model_set_metadata(model, longest_key,
                               s->longest && s->longest < trf_model_config(model)->max_length
                                   ? longest : NULL, &err))
        return refuse_error(NULL, &err);
    return DONE;
}
